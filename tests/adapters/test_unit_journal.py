"""The journal of a unit that crashed twice and runs again, in a real systemd-journald."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from pathlib import Path

import pytest

from tests.core.diagnose.sample_files import SAMPLES
from vllm_warden.adapters.log_source.file import UnreadableLogError
from vllm_warden.adapters.log_source.unit import (
    InvocationLog,
    UnitEnd,
    find_invocation,
    invocation_ids,
    running_invocation,
    unit_end,
    unit_name,
)
from vllm_warden.cli.main import main
from vllm_warden.cli.unit_evidence import evidence_of

OOM = (SAMPLES / "sampler-warmup-oom" / "composed.log").read_text().splitlines()
PORT = (SAMPLES / "port-in-use" / "composed.log").read_text().splitlines()
FINE = (SAMPLES / "none" / "advice-lines-of-a-healthy-start.log").read_text().splitlines()
FIRST, SECOND, THIRD = ("a" * 32, "b" * 32, "c" * 32)


def invoke(unit: str, identifier: str, lines: list[str]) -> None:
    """Write as a process of this invocation would: journald reads its id where systemd links it."""
    link = Path(f"/run/systemd/units/invocation:{unit}")
    link.unlink(missing_ok=True)
    link.symlink_to(identifier)
    child = os.fork()  # the journal keeps what it knows of a process for as long as it lives
    if child == 0:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect("/run/systemd/journal/stdout")
            stream.sendall(f"vllm\n{unit}\n6\n0\n0\n0\n0\n".encode())
            stream.sendall("".join(f"{line}\n" for line in lines).encode())
            stream.shutdown(socket.SHUT_WR)
            select.select([stream], [], [], 10)  # journald closes it once it has read all
        os._exit(0)
    os.waitpid(child, 0)


@pytest.fixture(scope="module")
def unit() -> str:
    name = "vllm-rig.service"
    for identifier, lines in ((FIRST, OOM), (SECOND, PORT), (THIRD, FINE)):
        invoke(name, identifier, lines)
        invoke("other.service", identifier[::-1].replace("a", "d"), ["noise"] * 3)
    subprocess.run(["journalctl", "--sync"], check=True)
    return name


@pytest.mark.journald
def test_invocations_are_found_newest_first(unit: str) -> None:
    assert list(invocation_ids(unit)) == [THIRD, SECOND, FIRST]


@pytest.mark.journald
@pytest.mark.parametrize(
    ("running", "offset", "expected"),
    [
        (THIRD, 0, THIRD),
        (THIRD, -1, SECOND),
        (THIRD, -2, FIRST),
        (None, -1, THIRD),
        (None, -3, FIRST),
    ],
)
def test_offsets_count_from_the_newest_that_ended(unit, running, offset, expected) -> None:
    assert find_invocation(unit, offset, running).id == expected


@pytest.mark.journald
@pytest.mark.parametrize(
    ("running", "offset", "says"),
    [
        (None, 0, "does not run"),
        (THIRD, -3, "the oldest in the journal is -2"),
        (THIRD, 1, "there is no invocation 1"),
    ],
)
def test_an_invocation_that_is_not_there_is_explained(unit, running, offset, says) -> None:
    with pytest.raises(UnreadableLogError) as caught:
        find_invocation(unit, offset, running)
    assert says in caught.value.reason


@pytest.mark.journald
def test_only_the_chosen_invocation_is_read(unit: str) -> None:
    data = b"".join(InvocationLog(find_invocation(unit, -2, THIRD)))

    assert data.count(b"_SYSTEMD_INVOCATION_ID=" + FIRST.encode()) == data.count(b"__CURSOR=")
    assert b"sampler" in data


@pytest.mark.journald
@pytest.mark.parametrize(
    ("words", "failure", "code"),
    [
        (["--invocation", "-3"], "gpu_out_of_memory", 0),
        (["--invocation", "-2"], "port_in_use", 0),
        ([], "none", 1),
    ],
)
def test_the_command_diagnoses_an_invocation(unit, words, failure, code, capsys) -> None:
    """Nothing runs in the rig, so the newest invocation is the newest that ended."""
    assert running_invocation(unit) is None
    assert main(["diagnose", "--json", "--unit", unit.removesuffix(".service"), *words]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["failure"] == failure
    assert found["file"].startswith(unit)


@pytest.mark.journald
def test_a_unit_without_entries_is_an_error(capsys) -> None:
    assert main(["diagnose", "--unit", "absent"]) == 2
    assert "no entry of this unit" in capsys.readouterr().err


@pytest.mark.journald
def test_what_others_claim_of_the_end_of_a_unit_is_not_believed(unit: str) -> None:
    """Anybody can write these fields; only PID 1 is believed, which the rig does not have."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.connect("/run/systemd/journal/socket")
        fields = (f"UNIT={unit}", f"INVOCATION_ID={SECOND}", "UNIT_RESULT=oom-kill", "MESSAGE=x")
        log.send("".join(f"{field}\n" for field in fields).encode())
    subprocess.run(["journalctl", "--sync"], check=True)

    assert unit_end(find_invocation(unit, -1, THIRD)) == UnitEnd()


def test_units_are_named_as_for_systemctl() -> None:
    assert unit_name("vllm") == "vllm.service"
    assert unit_name("vllm@big.service") == "vllm@big.service"
    assert unit_name("qwen2.5") == "qwen2.5.service"


@pytest.mark.parametrize(
    ("end", "status", "kills"),
    [
        (UnitEnd(-9, "oom-kill"), -9, 1),
        (UnitEnd(1, "exit-code"), 1, 0),
        (UnitEnd(-11, "core-dump"), -11, 0),
        (UnitEnd(0, "success"), None, 0),
        (UnitEnd(-9, "timeout"), None, 0),
        (UnitEnd(), None, 0),
    ],
)
def test_only_an_end_that_systemd_calls_a_failure_is_a_death(end, status, kills) -> None:
    known = evidence_of(end)

    assert (known.exit_status, known.oom_kills) == (status, kills)
