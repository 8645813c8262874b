"""The import contracts of pyproject.toml hold, and they bite."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).parent / "lint-imports"


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT, "--no-cache"], cwd=directory, capture_output=True, text=True, check=False
    )


def test_all_import_contracts_hold():
    result = lint(ROOT)

    assert result.returncode == 0, result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/model.py", "import vllm_warden.config", "dependencies point inwards"),
        ("adapters/nvml/x.py", "import vllm_warden.adapters.store", "adapters do not know"),
        ("core/plan/x.py", "import vllm_warden.core.decide", "stages of the core are ordered"),
        ("daemon/x.py", "import torch", "the daemon never imports the engine"),
        ("cli/x.py", "import vllm_warden.daemon", "commands talk to the daemon over"),
    ],
)
def test_a_broken_contract_is_reported(tmp_path, module, line, contract):
    """The contracts of pyproject.toml, on a skeleton of our packages with one wrong import."""
    skeleton(tmp_path)
    (tmp_path / "vllm_warden" / module).write_text(f"{line}\n", encoding="utf-8")

    result = lint(tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    broken = [text for text in result.stdout.splitlines() if text.endswith("BROKEN")]
    assert any(contract in text for text in broken), broken


def skeleton(directory: Path) -> None:
    """Every module that the contracts name, empty."""
    package = directory / "vllm_warden"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rules = settings["tool"]["importlinter"]
    names = [
        name.strip()
        for contract in rules["contracts"]
        for key in ("layers", "modules", "source_modules")
        for entry in contract.get(key, [])
        for name in entry.split("|")
    ]
    for name in [*names, "vllm_warden.cli.commands"]:
        folder = package.joinpath(*name.split(".")[1:])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    rules_text = text[text.index("[tool.importlinter]") :]
    (directory / "pyproject.toml").write_text(rules_text, encoding="utf-8")
