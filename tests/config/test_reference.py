from pathlib import Path

from vllm_warden.config.reference import render
from vllm_warden.config.settings import InstanceSettings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_page_is_what_the_models_say():
    assert PAGE.read_text(encoding="utf-8") == render(), "rewrite it with: make docs"


def test_every_key_of_an_instance_has_its_row():
    page = render()

    for name in set(InstanceSettings.model_fields) - {"adapt", "restart"}:
        assert f"| `{name}` |" in page
