"""The pages drawn from tables are as the code has it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import vllm_warden
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.lifecycle.announcements import ANNOUNCEMENTS
from vllm_warden.core.model import Failure

ROOT = Path(__file__).parents[2]
PACKAGE = Path(vllm_warden.__file__).parent


def pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {path.name: page() for path, page in module.PAGES.items()}


@pytest.mark.parametrize("name", ["states.md", "events.md", "failures.md", "architecture.md"])
def test_a_page_is_current(name: str) -> None:
    (path,) = (ROOT / "docs").rglob(name)
    written = path.read_text(encoding="utf-8")

    assert written == pages()[name], "run `make docs`"


def test_every_failure_and_every_signature_has_its_place_in_the_failures_page() -> None:
    page = pages()["failures.md"]

    for failure in Failure:
        assert f"\n## `{failure}`\n" in page
    for row in SIGNATURES:
        assert page.count(f"\n| `{row.id}` |") == 1


def test_every_announced_name_is_in_the_table_and_every_name_is_announced() -> None:
    announced = {
        name
        for path in (*PACKAGE.glob("core/**/*.py"), *PACKAGE.glob("daemon/**/*.py"))
        for name in re.findall(r'Announce\(\s*"([a-z-]+)"', path.read_text(encoding="utf-8"))
    }

    assert announced == set(ANNOUNCEMENTS)
