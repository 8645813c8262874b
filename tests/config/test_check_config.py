import json
import sys

import click
import pytest
from click.testing import CliRunner

from vllm_warden.cli.commands.check_config import register


@pytest.fixture
def check(tmp_path):
    """Run the command on a text; the result as click's runner gives it."""
    app = click.Group()
    register(app)

    def run(text, *options):
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return CliRunner().invoke(app, ["check-config", str(path), *options])

    return run


def settings(model, port=0):
    return (
        f'[daemon]\nstate_directory = "{model}"\nlog_backend = "file"\n[instance.a]\n'
        f'model = "{model}"\ngpus = []\nport = {port or 45673}\nuser = "root"\n'
        f'command = ["{sys.executable}", "serve"]\nengine.max_num_seqs = 256\n'
    )


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}", encoding="utf-8")
    return directory


def test_a_right_file_in_a_fitting_world_exits_0(check, model):
    result = check(settings(model))

    assert result.exit_code == 0, result.stderr
    assert "the text is fine (a)" in result.stdout


def test_a_world_that_does_not_fit_is_listed_apart_and_exits_1(check, tmp_path, model):
    result = check(settings(model).replace(f'model = "{model}"', f'model = "{tmp_path}/later"'))

    assert result.exit_code == 1
    assert "the text is fine (a)" in result.stdout
    assert f"would wait: cannot use instance.a.model = {tmp_path}/later" in result.stderr


def test_a_wrong_text_exits_2_with_every_error(check, model):
    result = check(settings(model) + "sleep = 1\n[deamon]\n")

    assert result.exit_code == 2
    assert "cannot use instance.a.sleep" in result.stderr
    assert "did you mean daemon?" in result.stderr
    assert result.stderr.endswith("errors; nothing was used\n")


def test_json_lists_the_errors_with_their_fields(check):
    result = check("[daemon]\nsockt = 3\n", "--json")

    (error,) = json.loads(result.stdout)["errors"]
    assert result.exit_code == 2
    assert (error["key"], error["line"]) == ("daemon.sockt", 2)


def test_commands_are_shown_as_they_would_be_executed(check, model):
    result = check(settings(model), "--show-commands")

    assert f"a: {sys.executable} serve {model} --host 127.0.0.1" in result.stdout
    assert "--max-num-seqs 256" in result.stdout


def test_no_secret_is_shown(check, model, tmp_path):
    secrets = tmp_path / "a.env"
    secrets.write_text("VLLM_API_KEY=sk-secret\n", encoding="utf-8")
    secrets.chmod(0o644)
    line = f'environment_file = "{secrets}"\nengine.max_num_seqs'

    result = check(
        settings(model).replace("engine.max_num_seqs", line), "--show-commands", "--json"
    )

    assert result.exit_code == 1
    assert "its mode 0644 lets others in" in result.stdout
    assert "sk-secret" not in result.output


def test_what_the_file_holds_cannot_steer_a_terminal(check, model):
    missing = f"{model}/\\u001b]0;owned\\u0007gone"
    result = check(settings(model).replace(f'model = "{model}"', f'model = "{missing}"'))

    assert result.exit_code == 1
    assert f"{model}/gone" in result.output
    assert not {"\x1b", "\x07"} & set(result.output)
