"""Checks the failure catalogue against an installed vLLM: would its words still be recognised."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_warden.adapters.engine_probe.catalogue_texts import Lacking, lacking
from vllm_warden.adapters.engine_probe.engine import ProbeFailed
from vllm_warden.cli.doctor.check import Check, State
from vllm_warden.core.diagnose.catalogue.seen_in import RELEASES
from vllm_warden.core.diagnose.reliance import Gone, gone, is_newer_than_known, names_relied_on
from vllm_warden.core.secrets import mask_words

NAME = "catalogue"


def check_catalogue(command: Sequence[str], path: str | None = None) -> Check:
    """One installed engine, by the command that starts it; blocks for seconds."""
    try:
        found = lacking(command, *names_relied_on(), path)
    except ProbeFailed as error:
        return Check(
            NAME,
            State.FAIL,
            f"cannot look into the engine of `{' '.join(mask_words(command))}`: {error}",
            hint="name the engine's program: vllm-warden doctor --engine /opt/vllm/bin/vllm",
        )
    return _judged(found, gone(found.version, found.absent))


def _judged(found: Lacking, missing: Sequence[Gone]) -> Check:
    where = f"vLLM {found.version} in {found.tree}"
    newer = ""
    if is_newer_than_known(found.version):
        newer = f"; it is newer than {RELEASES[-1]}, the newest release that the rows were made for"
    if not missing:
        return Check(NAME, State.OK, f"{where} has every text that the diagnosis looks for{newer}")
    dead = sum(one.whole for one in missing)
    return Check(
        NAME,
        State.WARN,
        f"{where} lacks texts that the diagnosis looks for: {dead} of its rows recognise nothing "
        f"there, {len(missing) - dead} know one wording less{newer}",
        tuple(f"{one.owner}: {', '.join(map(repr, one.names))}" for one in missing),
        "failures of these kinds may be called unknown; a newer vllm-warden may know the new words",
    )
