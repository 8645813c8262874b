"""core/ decides and touches nothing: an allow-list, because a deny-list always leaks."""

import ast
from pathlib import Path

import pytest

import vllm_warden

CORE = Path(vllm_warden.__file__).parent / "core"
ALLOWED_MODULES = {
    *("__future__", "collections", "dataclasses", "enum", "functools", "itertools", "json"),
    *("math", "re", "shlex", "string", "types", "typing"),
}
FORBIDDEN_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}


def impurities(source: str) -> list[str]:
    """Imports outside the allow-list and calls that touch the world, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS:
            found.append(f"line {node.lineno}: {node.id}")
            continue
        else:
            continue
        found.extend(f"line {node.lineno}: import {name}" for name in names if not is_pure(name))
    return found


def is_pure(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in ALLOWED_MODULES or (
        module == "vllm_warden.core" or module.startswith("vllm_warden.core.")
    )


def test_every_module_of_the_core_is_pure():
    found = {
        str(path.relative_to(CORE)): impure
        for path in sorted(CORE.rglob("*.py"))
        if (impure := impurities(path.read_text(encoding="utf-8")))
    }

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from datetime import datetime",
        "from vllm_warden.adapters import clock",
        "from . import clock",
        "def f():\n    import random",
        "x = open('/etc/passwd')",
        "show = print",
        "import vllm_warden.corex",
    ],
)
def test_the_check_sees_what_it_is_for(source):
    assert impurities(source) != []
