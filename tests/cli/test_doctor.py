"""The command ``vllm-warden doctor`` on installations that consist of source only."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.installed_engine import install
from vllm_warden.cli.doctor.check import Check, State
from vllm_warden.cli.doctor.leftovers import check_leftovers
from vllm_warden.cli.main import main
from vllm_warden.core.diagnose.catalogue.seen_in import RELEASES, SEEN

NEWEST = RELEASES[-1]
CURRENT = [name for name, (_, last) in SEEN.items() if last == NEWEST]
KV = "No available memory for the cache blocks"


def _source(*left_out: str) -> str:
    held = [name for name in CURRENT if name not in left_out]
    prints = [f"print({json.dumps(name)})" for name in held]
    return "\n".join([*prints, *(f"def {name}(): ..." for name in held if name.isidentifier())])


def _doctor(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(["doctor", *map(str, words)])
    return code, capsys.readouterr().out


def test_an_engine_that_has_every_text_is_fine(tmp_path, capsys) -> None:
    code, out = _doctor(capsys, "--engine", install(tmp_path, NEWEST, _source()))
    assert code == 0
    assert out.startswith(f"ok    vLLM {NEWEST} in ")
    assert "newer" not in out


def test_a_row_that_is_no_longer_printed_is_named_and_stops_nothing(tmp_path, capsys) -> None:
    engine = install(tmp_path, "0.99.0", _source(KV, "WorkerProc hit an exception"))
    code, out = _doctor(capsys, "--json", "--engine", engine)
    document = json.loads(out)
    check, _ = document["checks"]
    assert (code, document["ok"], check["state"]) == (0, True, "warn")
    assert f"no-cache-blocks: '{KV}'" in check["details"]
    assert "1 of its rows recognise nothing there, 1 know one wording less" in check["summary"]
    assert f"newer than {NEWEST}" in check["summary"]
    assert check["hint"]


def test_a_missing_engine_fails(tmp_path, capsys) -> None:
    code, out = _doctor(capsys, "--engine", tmp_path / "vllm")
    assert code == 1
    assert out.startswith("fail  cannot look into the engine")


def test_the_engines_of_the_settings_file_are_looked_at_each_once(tmp_path, capsys) -> None:
    engine = install(tmp_path, NEWEST, _source())
    table = f'model = "/srv/m"\ngpus = []\ncommand = ["{engine}", "serve"]\n'
    settings = tmp_path / "config.toml"
    settings.write_text(f"[instance.a]\n{table}port = 1\n[instance.b]\n{table}port = 2\n")
    code, out = _doctor(capsys, "--json", "--config", settings)
    assert code == 0
    names = [check["name"] for check in json.loads(out)["checks"]]
    assert names == ["catalogue", "leftovers"]


def test_an_unreadable_settings_file_is_a_usage_error(tmp_path: Path, capsys) -> None:
    code, out = _doctor(capsys, "--config", tmp_path / "none.toml")
    assert (code, out) == (2, "")


def test_output_is_readable_at_80_columns(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    engine = install(tmp_path, NEWEST, _source(KV))
    _, out = _doctor(capsys, "--engine", engine)
    spaced = [line for line in out.splitlines() if str(tmp_path) not in line]
    assert all(len(line) <= 80 for line in spaced)


def test_what_dead_engines_left_is_listed_and_nothing_of_it_removed(tmp_path) -> None:
    shared, proc = tmp_path / "shm", tmp_path / "proc"
    shared.mkdir()
    for name in ("psm_4711", "psm_used", "psm_new", "somebody_elses"):
        (shared / name).write_bytes(bytes(2 << 20))
        if name != "psm_new":
            os.utime(shared / name, (0, time.time() - 7200))
    engine = proc / "4711"
    (engine / "fd").mkdir(parents=True)
    (engine / "fd" / "3").symlink_to(shared / "psm_used")
    (engine / "maps").touch()
    (engine / "cmdline").write_bytes(b"VLLM::EngineCore\0")
    (engine / "stat").write_text("4711 (VLLM::EngineCor) S 1 " + "0 " * 30)
    (engine / "cgroup").write_text("0::/user.slice\n")

    check = check_leftovers(proc, shared)

    orphan, file = check.details
    assert "process 4711" in orphan
    assert "VLLM::EngineCore) has no parent; not ours" in orphan
    assert file.startswith(f"{shared}/psm_4711: 2 MiB, ")
    assert "2 h" in file
    assert len(list(shared.iterdir())) == 4
    (engine / "cgroup").write_text("0::/w.service/instance-a/attempt-1-0badcafe\n")
    assert "its daemon ends it" in check_leftovers(proc, shared).details[0]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("/x.slice/vllm-warden-0badcafe/else", True),
        ("/vllm-warden-0badcafe/else", True),
        ("/x.slice/vllm-warden-0badcafe/instance-a", True),
        ("/x.slice/vllm-warden-0badcafe/instance-a/attempt-x", True),
        ("/system.slice/vllm-wardend.service/instance-A/attempt-1-0badcafe", True),
        ("/x.slice/vllm-warden-0badcafe/instance-a/attempt-1-0badcafe/below", False),
        ("/system.slice/vllm-wardend.service/supervisor", False),
        ("/system.slice/vllm-wardend.service/.control", False),
        ("/system.slice/other.service/else", False),
        ("/vllm-warden-notes/else", False),
    ],
)
def test_a_process_in_a_wardens_tree_that_is_of_no_attempt_is_named(tmp_path, place, told) -> None:
    (tmp_path / "shm").mkdir()
    for pid in ("4711", "4712"):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cgroup").write_text(f"0::{place}\n")
    details = check_leftovers(tmp_path / "proc", tmp_path / "shm").details
    assert len(details) == int(told)
    if told:
        assert f"{place} holds process 4711, 4712" in details[0]


def test_a_long_list_is_cut_for_people_and_whole_in_json(capsys, monkeypatch) -> None:
    details = tuple(f"thing {number}" for number in range(80))
    many = Check("leftovers", State.WARN, "engines left 80 things", details, "look at them")
    monkeypatch.setattr("vllm_warden.cli.doctor.leftovers.check_leftovers", lambda: many)
    monkeypatch.setattr("vllm_warden.cli.doctor.catalogue.check_catalogue", lambda _: many)
    code, out = _doctor(capsys)
    assert code == 0
    assert out.count("thing ") == 2 * 10
    assert out.count("and 70 more; vllm-warden doctor --json lists all") == 2
    _, out = _doctor(capsys, "--json")
    assert [len(check["details"]) for check in json.loads(out)["checks"]] == [80, 80]
    few = replace(many, details=details[:11])
    monkeypatch.setattr("vllm_warden.cli.doctor.leftovers.check_leftovers", lambda: few)
    assert "more" not in _doctor(capsys)[1].partition("look at them")[2]


def test_a_host_without_leftovers_is_fine(tmp_path) -> None:
    (tmp_path / "shm").mkdir()
    (tmp_path / "proc").mkdir()
    assert check_leftovers(tmp_path / "proc", tmp_path / "shm").state == "ok"
