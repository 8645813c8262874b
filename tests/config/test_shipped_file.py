"""etc/config.toml shows every key at its default."""

import re
import tomllib
from pathlib import Path

from vllm_warden.config.load import load
from vllm_warden.config.settings import (
    AdaptSettings,
    ApiSettings,
    DaemonSettings,
    InstanceSettings,
    RestartSettings,
)

SHIPPED = Path(__file__).parents[2] / "etc" / "config.toml"
# Without a default that TOML could write; the file shows them in a comment.
NO_DEFAULT = {"user", "environment_file"}


def uncommented() -> str:
    """The file with its keys and tables in force: `#key = value` counts, `# prose` does not."""
    return re.sub(r"(?m)^#(?=\[|[a-z_]+ = )", "", SHIPPED.read_text(encoding="utf-8"))


def test_the_shipped_file_is_accepted_as_it_is():
    assert load(SHIPPED, {}).instance == {}


def test_the_shipped_file_is_accepted_with_every_key_in_force(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(uncommented(), encoding="utf-8")

    assert list(load(path, {}).instance) == ["example"]


def test_every_key_of_every_table_is_in_the_file_with_its_default():
    written = tomllib.loads(uncommented())
    example = written["instance"]["example"]

    for table, model in (
        (written["daemon"], DaemonSettings),
        (written["api"], ApiSettings),
        (example, InstanceSettings),
        (example["adapt"], AdaptSettings),
        (example["restart"], RestartSettings),
    ):
        assert set(table) == set(model.model_fields) - NO_DEFAULT
        for name, field in model.model_fields.items():
            if not field.is_required() and name not in NO_DEFAULT | {"adapt", "restart"}:
                assert table[name] == field.default, name
    for name in NO_DEFAULT:
        assert re.search(rf"(?m)^# {name} = ", uncommented())
