"""What the documents promise is there."""

import re
import tomllib
from pathlib import Path

import pytest

import vllm_warden

ROOT = Path(__file__).parents[2]
PACKAGE = Path(vllm_warden.__file__).parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SECTIONS = ["Context", "Decision", "Rejected alternatives", "Consequences", "Revisit when"]


def packages() -> set[str]:
    return {
        ".".join(("vllm_warden", *path.parent.relative_to(PACKAGE).parts))
        for path in PACKAGE.rglob("__init__.py")
        if path.parent != PACKAGE
    }


def test_every_package_has_its_row_in_the_architecture():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    listed = set(re.findall(r"^\| `(vllm_warden\.[a-z_.]+)` \|", page, re.MULTILINE))
    assert listed == packages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))

    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize(
    "record", sorted((ROOT / "docs" / "decisions").glob("*.md")), ids=lambda path: path.name
)
def test_a_decision_has_its_five_sections(record):
    text = record.read_text(encoding="utf-8")

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert re.match(rf"# {int(record.name[:4])}\. ", text)


def test_every_make_target_named_in_the_documents_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named = re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.MULTILINE)
        assert set(named) <= targets, page


def test_the_settings_shown_in_the_readme_are_accepted(tmp_path):
    from vllm_warden.config.load import load

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"(?m)^ {4}\[instance\.[^\n]+\n(?: {4}[^\n]*\n|\n)+", readme)
    assert block is not None
    path = tmp_path / "config.toml"
    path.write_text(re.sub(r"(?m)^ {4}", "", block[0]), encoding="utf-8")

    assert list(load(path, {}).instance) == ["minimax-m25"]


def test_the_test_command_that_ci_takes_from_the_readme_is_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert re.search(r"(?m)^    make test$", readme)


def test_programs_and_extras_that_the_documents_name_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert set(project["scripts"]) == {"vllm-wardend", "vllm-warden"}
    assert set(project["optional-dependencies"]) == {"journal", "engine"}
