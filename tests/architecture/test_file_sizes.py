"""No file grows until nobody reads it any more."""

import ast
import statistics
from pathlib import Path

import vllm_warden

ROOT = Path(vllm_warden.__file__).parent
LINES_MAX = 400
MEDIAN_MAX = 140
FUNCTION_LINES_MAX = 60
# Rows of data: their number follows the failures that exist, not our habits.
CATALOGUE = ROOT / "core" / "diagnose" / "catalogue"


def line_counts() -> dict[str, int]:
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted(ROOT.rglob("*.py"))
        if CATALOGUE not in path.parents
    }


def test_no_file_is_longer_than_the_limit():
    assert {name: lines for name, lines in line_counts().items() if lines > LINES_MAX} == {}


def test_a_typical_file_is_short(record_property):
    filled = [lines for lines in line_counts().values() if lines > 1]
    median = statistics.median(filled)
    record_property("median_lines", median)

    assert median <= MEDIAN_MAX


def test_a_function_fits_a_screen():
    """40 lines is the aim; what is longer than 60 with its docstring is two functions."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found[f"{path.relative_to(ROOT)}:{node.name}"] = lines

    assert found == {}
