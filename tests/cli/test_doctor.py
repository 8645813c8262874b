"""The command ``vllm-warden doctor`` on installations that consist of source only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.installed_engine import install
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
    (check,) = document["checks"]
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
    assert [check["state"] for check in json.loads(out)["checks"]] == ["ok"]


def test_an_unreadable_settings_file_is_a_usage_error(tmp_path: Path, capsys) -> None:
    code, out = _doctor(capsys, "--config", tmp_path / "none.toml")
    assert (code, out) == (2, "")


def test_output_is_readable_at_80_columns(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    engine = install(tmp_path, NEWEST, _source(KV))
    _, out = _doctor(capsys, "--engine", engine)
    spaced = [line for line in out.splitlines() if str(tmp_path) not in line]
    assert all(len(line) <= 80 for line in spaced)
