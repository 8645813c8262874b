"""``vllm-warden why`` as text: an incident report, from the state to the lines that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vllm_warden.cli.advice import advice
from vllm_warden.cli.detail import attempt_lines, local_time
from vllm_warden.cli.overview import next_try_in_words, retry_in_words, trial_in_words
from vllm_warden.cli.render import (
    Style,
    columns,
    cut,
    duration,
    harmless,
    ranges,
    size,
    value,
    wrapped,
)
from vllm_warden.cli.wording import REMEDIES, failure_in_words, sentence

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import (
        DecisionDocument,
        DiagnosisDocument,
        FailureDocument,
        IncidentDocument,
        InstanceDetailDocument,
        ProofDocument,
    )

CONSEQUENCES_SHOWN = 3


def story(document: InstanceDetailDocument, now: float, style: Style) -> list[str]:
    """State and reason, what happened, proof, decision, what was tried, what is left to do."""
    lines = _headline(document, now, style)
    if next_try := next_try_in_words(document, now):
        lines += wrapped(f"The next try is {next_try}.", style, "  ")
    lines += _foreseen(document, style)
    incident = document["incident"]
    if incident is not None:
        lines += ["", *incident_story(incident, now, style)]
    elif document["decision"] is not None:
        lines += ["", *_decision(document["decision"], style)]
    if len(document["attempts"]) > 1 or incident is not None:
        tried = attempt_lines(document["attempts"], now, style)
        lines += _section("What was tried", tried, style)
    return lines + _section("What you can do", advice(document, style), style)


def incident_story(incident: IncidentDocument, now: float, style: Style) -> list[str]:
    """One incident: its newest failure with proof and decision, after one line for each before."""
    further = incident["further"]
    newest: IncidentDocument | FailureDocument = further[-1] if further else incident
    died = further[-1]["at"] if further else incident["opened"]
    title = (
        f"Incident {incident['number']}: attempt {newest['attempt']} of "
        f"{incident['instance']} died {duration(now - died)} ago"
    )
    lines = [style.paint(title, "bold"), f"  {local_time(died)}"]
    if further:
        lines += _failures_before(incident, style)
    lines += failure_lines(newest, style)
    if "part_of" in incident:
        text = f"Part of incident {incident['part_of']}: nothing has proven itself since then."
        lines += wrapped(text, style, "  ")
    if incident["resolution"]:
        lines += wrapped(f"Resolved: {incident['resolution']}", style, "  ")
    elif incident["recovered"] is not None:
        ready = duration(now - incident["recovered"])
        text = f"Recovered: ready again {ready} ago; it stays open until that has lasted the soak"
        lines += wrapped(text, style, "  ")
    return lines + proof_and_decision(newest, style)


def _failures_before(incident: IncidentDocument, style: Style) -> list[str]:
    """What came before the newest failure, oldest first."""
    lines = wrapped(f"Failure {incident['failures']} of one incident. Before it:", style, "  ")
    lines += _in_one_line(incident, style)
    left_out = incident["failures"] - 1 - len(incident["further"])
    if left_out:
        lines.append(f"    ({left_out} in between not kept)")
    return lines + [line for each in incident["further"][:-1] for line in _in_one_line(each, style)]


def _in_one_line(failure: IncidentDocument | FailureDocument, style: Style) -> list[str]:
    diagnosis, decision = failure["diagnosis"], failure["decision"]
    words = failure_in_words(diagnosis["failure"], diagnosis["phase"], diagnosis["site"])
    text = f"attempt {failure['attempt']}: {words}"
    if decision is not None:
        text += f"; {REMEDIES.get(decision['remedy'], decision['remedy'])}"
        changes = ", ".join(
            f"{each['setting']} {value(each['from'])} -> {value(each['to'])}"
            for each in decision["changes"]
        )
        text += f" ({changes})" if changes else ""
    return wrapped(text, style, "      ", "    ")


def failure_lines(failure: IncidentDocument | FailureDocument, style: Style) -> list[str]:
    """What failed, and how it is known."""
    diagnosis = failure["diagnosis"]
    words = failure_in_words(diagnosis["failure"], diagnosis["phase"], diagnosis["site"])
    lines = wrapped(f"{sentence(words)}.", style, "  ")
    if summary := diagnosis.get("summary"):
        lines += wrapped(summary, style, "  ")
    lines += wrapped(_facts(failure, diagnosis), style, "  ")
    if failure["incomplete"]:
        lines += wrapped(
            "Log lines may be missing, so no setting was changed because of it.", style, "  ! "
        )
    return lines


def proof_and_decision(failure: IncidentDocument | FailureDocument, style: Style) -> list[str]:
    """The lines that prove a failure, and what was decided."""
    lines = _section("Proof", _proof(failure["diagnosis"], style), style)
    if failure["decision"] is not None:
        lines += ["", *_decision(failure["decision"], style)]
    return lines


def proof_lines(proof: list[ProofDocument], style: Style) -> list[str]:
    """Numbered log lines, wrapped with the number kept clear."""
    lines = []
    for each in proof:
        number = f"  {each['line']:>6}  "
        lines += wrapped(each["text"], style, " " * len(number), number)
    return lines


def _foreseen(document: InstanceDetailDocument, style: Style) -> list[str]:
    """A death that is to be expected, with its arithmetic; a trial; a retry that is promising."""
    lines: list[str] = []
    if foreseen := document.get("foreseen"):
        lines += ["", *wrapped(sentence(foreseen["text"]), style, "  ", "! ")]
        for each in foreseen["arithmetic"]:
            lines += wrapped(each, style, "      ", "    = ")
    if trial := document.get("trial"):
        lines += wrapped(f"Tried once: {trial_in_words(trial)}", style, "  ")
    if reasons := document.get("retry_promising"):
        lines += wrapped(sentence(retry_in_words(reasons, document["name"])), style, "  ")
    return lines


def _headline(document: InstanceDetailDocument, now: float, style: Style) -> list[str]:
    state = document["state"] + (" (degraded)" if document["degraded"] else "")
    verb = {"failed": "has", "backoff": "is in"}.get(document["state"], "is")
    text = f"{document['name']} {verb} {state}"
    if document["since"] is not None:
        text += f" for {duration(now - document['since'])}"
    if document["attempt"]:
        text += f", attempt {document['attempt']}"
    lines = [style.paint(text, "bold")]
    reasons = [document["reason"], *document["explanation"]]
    if document["gate"]:
        reasons.append(f"Waiting at the gate: {document['gate']['text']}")
    for reason in dict.fromkeys(each for each in reasons if each):
        lines += wrapped(reason, style, "  ")
    return lines


def _facts(failure: IncidentDocument | FailureDocument, diagnosis: DiagnosisDocument) -> str:
    facts = []
    if diagnosis["ranks"]:
        facts.append(f"rank {ranges(diagnosis['ranks'])}")
    status = failure["exit_status"]
    if status is None:
        facts.append("exit status unknown")
    else:
        facts.append(f"signal {-status}" if status < 0 else f"exit status {status}")
    if diagnosis["engine_version"]:
        facts.append(f"vLLM {diagnosis['engine_version']}")
    by = f" by {diagnosis['signature']}" if diagnosis["signature"] else ""
    facts.append(f"diagnosis {diagnosis['confidence']}{by}")
    return f"({', '.join(facts)})"


def _proof(diagnosis: DiagnosisDocument, style: Style) -> list[str]:
    lines = proof_lines(diagnosis["evidence"], style)
    consequences = diagnosis["consequences"]
    if consequences:
        lines.append("  and what only followed from it:")
        lines += proof_lines(consequences[:CONSEQUENCES_SHOWN], style)
        hidden = len(consequences) - CONSEQUENCES_SHOWN
        lines += [f"          and {hidden} more"] if hidden > 0 else []
    return lines


def _decision(decision: DecisionDocument, style: Style) -> list[str]:
    remedy = REMEDIES.get(decision["remedy"], decision["remedy"])
    lines = [style.paint(f"Decision: {remedy}", "bold")]
    lines += wrapped(decision["reason"], style, "  ")
    rows = [
        (each["setting"], f"{value(each['from'])} -> {value(each['to'])}")
        for each in decision["changes"]
    ]
    lines += [cut(line, style.width) for line in columns(rows, "    ")]
    lines += [
        line for each in decision["arithmetic"] for line in wrapped(each, style, "      ", "    = ")
    ]
    price = price_in_words(decision["price"] or {})
    if price:
        lines += wrapped(f"Price: {price}", style, "    ", "  ")
    useless = [
        line
        for each in decision["useless"]
        for line in wrapped(f"{harmless(each['setting'])}: {each['why']}", style, "    ", "  ")
    ]
    return lines + _section("What would not help", useless, style)


def price_in_words(price: Mapping[str, object]) -> str:
    """What the remedy costs, from the members that are known; empty where nothing is."""
    words = []
    for name, label in (("sequences", "sequences"), ("max_model_len", "context length")):
        before, after = price.get(f"{name}_before"), price.get(f"{name}_after")
        if before != after and after is not None:
            words.append(f"{label} {value(before)} -> {value(after)}")
    lost = price.get("kv_bytes_lost")
    if isinstance(lost, int) and lost:
        words.append(f"{size(abs(lost))} of KV cache {'less' if lost > 0 else 'more'}")
    fraction = price.get("concurrency_fraction")
    if isinstance(fraction, int | float):
        words.append(f"{fraction:.0%} of the usable concurrency is left")
    if price.get("note"):
        words.append(str(price["note"]))
    return ", ".join(words)


def _section(title: str, lines: list[str], style: Style) -> list[str]:
    return ["", style.paint(title, "bold"), *lines] if lines else []
