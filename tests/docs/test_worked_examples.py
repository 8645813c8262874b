"""The worked examples of the documentation are the golden incidents, to the last digit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    path = ROOT / "docs" / "worked_examples.py"
    spec = importlib.util.spec_from_file_location("worked_examples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    module = generator()

    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run `make docs`"


def test_every_incident_is_on_the_page() -> None:
    module = generator()

    assert set(module.ORDER) == {path.stem for path in module.INCIDENTS.glob("*.toml")}
