"""Puts around a log what journalctl, containers, shippers and terminals put around it."""

from __future__ import annotations

import json
from collections.abc import Callable

STAMP = "2026-11-29T12:00:00.123456789Z"
CURSOR = "s=1f;i=2a;b=3c;m=4d;t=5e;x=6f"
FIELDS = {"__CURSOR": CURSOR, "__REALTIME_TIMESTAMP": "1795953600000000", "_PID": "4242"}


def before_each(prefix: str) -> Callable[[list[str]], bytes]:
    return lambda lines: text(f"{prefix}{line}" for line in lines)


def text(lines) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def journal_json(lines: list[str]) -> bytes:
    """Lines with escapes are arrays of bytes there, as in journalctl's own output."""
    return text(
        json.dumps({**FIELDS, "MESSAGE": list(line.encode()) if "\x1b" in line else line})
        for line in lines
    )


def journal_json_pretty(lines: list[str]) -> bytes:
    return text(
        "{\n"
        + ",\n".join(
            f"\t{json.dumps(name)} : {json.dumps(value)}"
            for name, value in {**FIELDS, "MESSAGE": line}.items()
        )
        + "\n}"
        for line in lines
    )


def journal_export(lines: list[str]) -> bytes:
    entries = []
    for line in lines:
        data = line.encode()
        fields = [f"{name}={value}\n".encode() for name, value in FIELDS.items()]
        if any(byte < 0x20 for byte in data):
            fields.append(b"MESSAGE\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            fields.append(b"MESSAGE=" + data + b"\n")
        entries.append(b"".join(fields) + b"\n")
    return b"".join(entries)


def journal_verbose(lines: list[str]) -> bytes:
    head = f"Sun 2026-11-29 12:00:00.123456 UTC [{CURSOR}]"
    return text(f"{head}\n    PRIORITY=6\n    MESSAGE={line}\n    _PID=7" for line in lines)


def docker_file(lines: list[str]) -> bytes:
    """Docker cuts lines of more than 16 KiB into entries of which only the last ends the line."""
    entries = []
    for line in lines:
        whole = line + "\n"
        parts = [whole[at : at + 1000] for at in range(0, len(whole), 1000)]
        entries += [{"log": part, "stream": "stderr", "time": STAMP} for part in parts]
    return text(map(json.dumps, entries))


def container_file(lines: list[str]) -> bytes:
    rows = []
    for line in lines:
        parts = [line[at : at + 1000] for at in range(0, len(line), 1000)] or [""]
        rows += [f"{STAMP} stderr P {part}" for part in parts[:-1]]
        rows.append(f"{STAMP} stderr F {parts[-1]}")
    return text(rows)


def terminal(width: int) -> Callable[[list[str]], bytes]:
    def broken(lines: list[str]) -> bytes:
        return text(
            line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)
        )

    return broken


def shipped(name: str, **others: str) -> Callable[[list[str]], bytes]:
    return lambda lines: text(json.dumps({**others, name: line}) for line in lines)


WRAPPINGS: dict[str, Callable[[list[str]], bytes]] = {
    "bare": text,
    "carriage returns": lambda lines: text(f"{line}\r" for line in lines),
    "byte order mark": lambda lines: b"\xef\xbb\xbf" + text(lines),
    "utf-16 little": lambda lines: text(lines).decode().encode("utf-16"),
    "utf-16 big": lambda lines: text(lines).decode().encode("utf-16-be"),
    "utf-16 without a mark": lambda lines: text(lines).decode().encode("utf-16-le"),
    "journalctl short": before_each("Nov 29 12:00:00 gpu-host vllm[4242]: "),
    "journalctl short-precise": before_each("Nov 29 12:00:00.123456 gpu-host vllm[4242]: "),
    "journalctl short-iso": before_each("2026-11-29T12:00:00+0000 gpu-host vllm[4242]: "),
    "journalctl short-iso-precise": before_each("2026-11-29T12:00:00.123456+00:00 gpu vllm[42]: "),
    "journalctl short-full": before_each("Sun 2026-11-29 12:00:00 UTC gpu-host vllm[4242]: "),
    "journalctl short-unix": before_each("1795953600.123456 gpu-host vllm[4242]: "),
    "journalctl short-monotonic": before_each("[ 1234.567890] gpu-host vllm[4242]: "),
    "journalctl --no-hostname": before_each("Nov 29 12:00:00 vllm[4242]: "),
    "journalctl json": journal_json,
    "journalctl json-sse": lambda lines: b"".join(
        b"data: " + line + b"\n\n" for line in journal_json(lines).splitlines()
    ),
    "journalctl json-seq": lambda lines: b"".join(
        b"\x1e" + line + b"\n" for line in journal_json(lines).splitlines()
    ),
    "journalctl json-pretty": journal_json_pretty,
    "journalctl export": journal_export,
    "journalctl verbose": journal_verbose,
    "syslog with a priority": before_each("<30>Nov 29 12:00:00 gpu-host vllm[4242]: "),
    "syslog RFC 5424": before_each(f"<30>1 {STAMP} gpu-host vllm 4242 - - "),
    "docker logs -t": before_each(f"{STAMP} "),
    "docker json-file": docker_file,
    "containerd": container_file,
    "kubectl --timestamps": before_each(f"{STAMP} "),
    "kubectl --prefix": before_each("[pod/vllm-7d9f-abcde/engine] "),
    "kubectl --prefix --timestamps": before_each(f"[pod/vllm-7d9f-abcde/engine] {STAMP} "),
    "compose": before_each("vllm-1  | "),
    "compose in colour": before_each("\x1b[36mvllm-1  | \x1b[0m"),
    "compose v1 in colour": before_each("\x1b[36mvllm_1  |\x1b[0m "),
    "compose -t": before_each(f"vllm-1  | {STAMP} "),
    "Ray": before_each("(RayWorkerWrapper pid=77, ip=10.0.0.2) "),
    "Ray in colour": before_each("\x1b[36m(EngineCoreActor pid=77, ip=10.0.0.2)\x1b[0m "),
    "fluent bit": shipped("log", date="1795953600.1", stream="stderr"),
    "loki": shipped("line", timestamp=STAMP),
    "cloud logging": shipped("textPayload", timestamp=STAMP),
    "GitHub Actions": before_each("2026-11-29T12:00:00.1234567Z "),
    "ts": before_each("Nov 29 12:00:00 "),
    "ts -s": before_each("   12.345678 "),
    "a terminal of 80 columns": terminal(80),
    "a terminal of 120 columns": terminal(120),
    "compose in a terminal": lambda lines: terminal(120)(
        before_each("vllm-1  | ")(lines).decode().split("\n")[:-1]
    ),
    "the journald driver of docker": lambda lines: journal_json(
        before_each(f"{STAMP} ")(lines).decode().split("\n")[:-1]
    ),
    "quoted in a mail": before_each("> "),
}
