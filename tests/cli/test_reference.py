from __future__ import annotations

from pathlib import Path

from vllm_warden.api import reference as api_reference
from vllm_warden.cli import reference as cli_reference
from vllm_warden.cli.main import COMMANDS

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_pages_say_what_the_code_says():
    """After a change: `make docs`."""
    assert (PAGES / "api.md").read_text(encoding="utf-8") == api_reference.render()
    assert (PAGES / "cli.md").read_text(encoding="utf-8") == cli_reference.render()


def test_every_command_has_its_section_and_an_explanation():
    page = cli_reference.render()
    for name in COMMANDS:
        section = page.split(f"## `vllm-warden {name}`\n\n")[1]
        assert not section.startswith(("|", "#", "\n")), name
