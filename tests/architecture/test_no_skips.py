"""The option --no-skips of tests/conftest.py, on small suites of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def run(directory: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, directory / "conftest.py")
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu: x\n", encoding="utf-8")
    (directory / "test_it.py").write_text(f"import pytest\n{test}\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "1"])
@pytest.mark.parametrize(
    "left_out",
    [
        "@pytest.mark.skip(reason='later')\ndef test_a(): pass",
        "@pytest.mark.xfail(reason='later')\ndef test_a(): assert 0",
        "def test_a(): pytest.skip('later')",
        "pytest.importorskip('no_such_module')",
    ],
)
def test_a_test_that_is_left_out_makes_the_run_red(tmp_path, left_out, processes):
    suite = f"{left_out}\ndef test_b(): pass"

    assert run(tmp_path, suite, "--no-skips", "-n", processes).returncode != 0


@pytest.mark.slow
def test_a_test_marked_gpu_may_be_left_out(tmp_path):
    suite = "@pytest.mark.gpu\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass"

    assert run(tmp_path, suite, "--no-skips").returncode == 0
