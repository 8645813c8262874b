"""The engine's own installation is asked, through wrappers, without importing it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_warden.adapters.engine_probe.command import NoEngineProgram, find_engine
from vllm_warden.adapters.engine_probe.engine import EngineInstallation

PROGRAM = """#!{python}
import os, sys
with open({asked!r}, "a") as opened:
    opened.write(" ".join(sys.argv[1:]) + "|" + os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
print("usage: vllm serve [options]")
print("  --enforce-eager, --no-enforce-eager   see --docs")
for n in range(30): print(f"  --option-{{n}} N    text -- and --Not-A-Flag")
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A virtual environment with a package named vllm in it, that must not be imported."""
    root = tmp_path_factory.mktemp("engine")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "venv"], check=True)
    [site] = (root / "venv" / "lib").glob("python*/site-packages")
    (site / "vllm").mkdir()
    (site / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    (site / "vllm-0.32.0+cpu.dist-info").mkdir()
    (site / "vllm-0.32.0+cpu.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
    )
    asked = root / "asked"
    program = root / "venv" / "bin" / "vllm"
    program.write_text(PROGRAM.format(python=root / "venv" / "bin" / "python3", asked=str(asked)))
    program.chmod(0o755)
    return program


def test_version_and_kind_are_found_without_running_the_engine(installation):
    facts = EngineInstallation().facts([str(installation), "serve"])
    assert facts.version == "0.32.0+cpu"
    assert facts.is_cpu is True
    assert facts.flags == frozenset()
    assert facts.problem is None


@pytest.mark.parametrize(
    "wrapper",
    [
        ["prlimit", "--as=6442450944", "--"],
        ["numactl", "--cpunodebind=0"],
        ["nice", "-n", "5"],
        ["env", "A=vllm-like", "-u", "B"],
    ],
)
def test_wrappers_in_front_are_skipped(installation, wrapper):
    command = [*wrapper, str(installation), "serve", "--port", "1"]
    assert EngineInstallation().facts(command).version == "0.32.0+cpu"


def test_the_program_is_looked_for_on_the_engines_path(installation):
    facts = EngineInstallation(path=str(installation.parent)).facts(["vllm", "serve"])
    assert facts.version == "0.32.0+cpu"
    assert "no program vllm" in (EngineInstallation(path="/none").facts(["vllm"]).problem or "")


def test_a_module_is_asked_through_its_own_python(installation):
    python = str(installation.parent / "python3")
    command = ["nice", python, "-m", "vllm.entrypoints.openai.api_server", "--model", "m"]
    assert EngineInstallation().facts(command).version == "0.32.0+cpu"


def test_a_long_interpreter_path_in_a_shell_header_is_understood(installation, tmp_path):
    python = installation.parent / "python3"
    (tmp_path / "vllm").write_text(f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n")
    (tmp_path / "vllm").chmod(0o755)
    assert EngineInstallation().facts([str(tmp_path / "vllm")]).version == "0.32.0+cpu"


def test_an_env_header_is_looked_up_on_the_path(installation, tmp_path):
    (tmp_path / "vllm").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "vllm").chmod(0o755)
    path = f"{installation.parent}:/usr/bin:/bin"
    assert EngineInstallation(path).facts([str(tmp_path / "vllm")]).version == "0.32.0+cpu"


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (["/no/such/vllm", "serve"], "no program /no/such/vllm"),
        (["docker", "run", "image"], "no vLLM program"),
        (["env", "HF_TOKEN=s3cret", "python"], "`env HF_TOKEN=*** python`"),
        ([sys.executable, "-m", "vllm.entrypoints.cli.main"], "no package vllm"),
        ([], "no vLLM program"),
    ],
)
def test_what_cannot_be_asked_is_a_problem_and_never_an_error(command, part):
    facts = EngineInstallation().facts(command)
    assert facts.version is None
    assert facts.is_cpu is None
    assert part in (facts.problem or "")


def test_flags_are_asked_on_demand_with_no_gpu_visible_and_remembered(installation):
    probe = EngineInstallation()
    command = [str(installation), "serve"]
    facts = probe.facts(command, with_flags=True)
    assert {"--enforce-eager", "--no-enforce-eager", "--option-7"} <= facts.flags
    assert "--" not in facts.flags
    asked = installation.parents[2] / "asked"
    assert asked.read_text() == "serve --help=all|"
    assert probe.facts(command, with_flags=True).flags == facts.flags
    assert asked.read_text() == "serve --help=all|"
    [distribution] = installation.parents[1].glob("lib/*/site-packages/vllm-*.dist-info")
    os.utime(distribution, (1, 1))  # as an upgrade would
    probe.facts(command, with_flags=True)
    assert asked.read_text() == "serve --help=all|" * 2


def test_a_program_that_prints_no_options_still_has_a_version(installation, tmp_path):
    script = tmp_path / "vllm"
    script.write_text(f"#!{installation.parent / 'python3'}\nraise SystemExit(1)\n")
    script.chmod(0o755)
    facts = EngineInstallation().facts([str(script)], with_flags=True)
    assert facts.version == "0.32.0+cpu"
    assert "flags" in (facts.problem or "")


def test_a_compiled_program_has_no_interpreter_to_ask(tmp_path):
    (tmp_path / "vllm").write_bytes(b"\x7fELF")
    (tmp_path / "vllm").chmod(0o755)
    with pytest.raises(NoEngineProgram, match="no Python script"):
        find_engine([str(tmp_path / "vllm")])


def test_nothing_of_the_daemons_environment_reaches_the_probe(installation, monkeypatch, tmp_path):
    """A PYTHONPATH of the daemon's must not answer for the engine."""
    fake = tmp_path / "vllm-9.9.9.dist-info"
    fake.mkdir()
    Path(fake / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.9.9\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert EngineInstallation().facts([str(installation)]).version == "0.32.0+cpu"


def test_the_version_is_asked_once_until_the_package_is_replaced(installation, tmp_path):
    asked = tmp_path / "asked"
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\necho asked >> {asked}\nexec {installation.parent / "python3"} "$@"\n'
    )
    python.chmod(0o755)
    command = [str(python), "-m", "vllm.entrypoints.cli.main"]
    probe = EngineInstallation()
    [distribution] = installation.parents[1].glob("lib/*/site-packages/vllm-*.dist-info")
    assert [probe.facts(command).version for _ in range(3)] == ["0.32.0+cpu"] * 3
    assert asked.read_text() == "asked\n"
    upgraded = distribution.with_name("vllm-0.33.0.dist-info")
    distribution.rename(upgraded)
    (upgraded / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n")
    try:
        assert probe.facts(command).version == "0.33.0"
    finally:
        upgraded.rename(distribution)
        (distribution / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
        )
    assert asked.read_text() == "asked\n" * 2
