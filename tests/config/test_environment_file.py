from pathlib import Path

import pytest

from vllm_warden.config.environment_file import read_environment_file
from vllm_warden.config.errors import ConfigurationInvalid


@pytest.fixture
def secrets(tmp_path):
    path = tmp_path / "a.env"
    path.write_text("# keys\n\nexport HF_TOKEN=hf_x\nVLLM_API_KEY='sk=1 2'\n", encoding="utf-8")
    path.chmod(0o640)
    return path


def test_pairs_are_read_with_quotes_and_export_removed(secrets):
    held = read_environment_file(secrets)

    assert held.values == {"HF_TOKEN": "hf_x", "VLLM_API_KEY": "sk=1 2"}
    assert held.warning is None
    assert "sk=1" not in repr(held)


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o644, True), (0o660, True)])
def test_a_mode_wider_than_0640_is_warned_about(secrets, mode, warns):
    secrets.chmod(mode)

    assert (read_environment_file(secrets).warning is not None) is warns


def test_a_missing_file_says_so_and_holds_nothing(tmp_path):
    held = read_environment_file(tmp_path / "none")

    assert held.unreadable == "no such file or directory"
    assert held.values == {}


def test_a_device_is_not_read():
    assert read_environment_file(Path("/dev/null")).unreadable == "it is no regular file"


def test_a_file_that_is_no_list_of_secrets_is_not_read_whole(tmp_path):
    log = tmp_path / "engine.log"
    log.write_bytes(b"A=1\n" * 20_000)

    assert read_environment_file(log).unreadable == "it is larger than 65536 bytes"


def test_refused_variables_and_broken_lines_in_the_file_are_text_errors(load_text, secrets):
    secrets.write_text("VLLM_CONFIGURE_LOGGING=0\nsk-no-name\n", encoding="utf-8")

    with pytest.raises(ConfigurationInvalid) as raised:
        load_text(f'[instance.a]\nmodel = "/m"\ngpus = []\nenvironment_file = "{secrets}"\n')

    assert {(error.file, error.key, error.line) for error in raised.value.errors} == {
        (str(secrets), "instance.a.environment_file", 2),
        (str(secrets), "VLLM_CONFIGURE_LOGGING", None),
    }
    assert "sk-no-name" not in str(raised.value)
