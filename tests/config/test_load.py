from pathlib import Path

import pytest

from vllm_warden.config.errors import ConfigurationInvalid
from vllm_warden.config.load import load

CPU = '[instance.a]\nmodel = "/m"\ngpus = []\n'


def test_five_errors_are_reported_at_once_in_file_order(errors_of):
    errors = errors_of("""
        [daemon]
        sockt = "/run/x.sock"
        max_concurrent_starts = 0
        [instance.a]
        model = "/m"
        gpus = [0]
        port = "8000"
        [instance.a.adapt]
        mode = "brave"
        [instance.b]
        model = "/n"
    """)

    assert [(error.key, error.line) for error in errors.values()] == [
        ("daemon.sockt", 3),
        ("daemon.max_concurrent_starts", 4),
        ("instance.a.port", 8),
        ("instance.a.adapt.mode", 10),
        ("instance.b.gpus", 11),
    ]


def test_an_error_names_file_line_key_value_and_what_is_allowed(load_text, tmp_path):
    with pytest.raises(ConfigurationInvalid) as raised:
        load_text(CPU + "port = 99999\n")

    assert str(raised.value) == (
        f"{tmp_path}/config.toml:4: cannot use instance.a.port = 99999: out of bounds "
        "(allowed: 1 to 65535)"
    )


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        (CPU + 'host = "a\\u0000b"\n', "instance.a.host", "it holds a NUL character"),
        (CPU + 'extra_args = ["--x", "\\u0000"]\n', "instance.a.extra_args[1]", "a NUL character"),
        (CPU + 'environment_file = "/\\u0000"\n', "instance.a.environment_file", "a NUL character"),
        ('daemon.socket = "/\\u0000"\n' + CPU, "daemon.socket", "a NUL character"),
        (CPU + "[instance.a.engine]\nx = [nan]\n", "instance.a.engine.x[0]", "no finite number"),
        (CPU + "port = " + "9" * 5000, "", "a number in it is too long to be one"),
        (CPU + "engine.x = " + "[" * 40 + "]" * 40, "", "it is nested deeper than 32 tables"),
        (CPU + "engine.x = " + "[" * 5000 + "]" * 5000, "", "nested deeper than 32 tables"),
        ("a." * 5000 + "b = 1\n", "", "nested deeper than 32 tables"),
        ("\ufeff" + CPU, "", "it begins with a byte order mark; save it as UTF-8 without one"),
    ],
)
def test_what_nothing_can_be_done_with_is_a_mistake_in_the_text(text, key, reason, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(text)

    with pytest.raises(ConfigurationInvalid) as raised:
        load(path, {})

    (error,) = raised.value.errors
    assert error.key == key
    assert reason in error.reason


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("drain_seconds = 1e10", "0 to 1000000000"),
        ("stall_seconds = 1e308", "more than 0, at most 1000000000"),
        ("restart.soak_seconds = 1e308", "0 to 1000000000"),
        ("restart.crash_window_seconds = 1e308", "more than 0, at most 1000000000"),
    ],
)
def test_times_that_no_clock_holds_are_out_of_bounds(line, allowed, errors_of):
    (error,) = errors_of(CPU + line + "\n").values()

    assert (error.reason, error.allowed) == ("out of bounds", allowed)


def test_a_mistake_cannot_steer_a_terminal(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CPU + '"a\\u001b]0;x\\u0007\\n\\u009b" = "\\u009b"\n')

    with pytest.raises(ConfigurationInvalid) as raised:
        load(path, {})

    assert all(line.isprintable() for line in str(raised.value).splitlines())
    assert str(raised.value).count("\n") == 1  # the hint


def test_an_unknown_key_is_answered_with_the_nearest_known_one(errors_of):
    errors = errors_of(CPU + "autostrat = true\n")

    assert errors["instance.a.autostrat"].hint == "did you mean instance.a.autostart?"


def test_an_engine_option_beside_the_instance_keys_is_sent_to_its_table(errors_of):
    errors = errors_of(CPU + "max_model_len = 4096\n")

    assert errors["instance.a.max_model_len"].hint == (
        "an option of vllm serve belongs into [instance.a.engine]"
    )


@pytest.mark.parametrize(
    ("line", "allowed", "hint"),
    [
        ('port = "8000"', "a whole number", "write it without quotes: 8000"),
        ("port = true", "a whole number", ""),
        ('command = "vllm serve"', "a list", 'write the words as a list: ["vllm", "serve"]'),
        ("command = []", "a list of at least 1", ""),
        ("drain_seconds = -1", "0 to 1000000000", ""),
        ("port = 0", "1 to 65535", ""),
        ("restart.crashes_max = -1", "at least 0", ""),
        ("adapt.max_num_seqs.min = 0", "1 to 281474976710656", ""),
        ("adapt.max_num_seqs.max = 1e300", "1 to 281474976710656", ""),
        ("engine.max_num_seqs = 1e300", "1 to 281474976710656", ""),
        ("engine.gpu_memory_utilization = 1.4", "0.01 to 1", ""),
        ("drain_seconds = inf", "a finite number", ""),
        ('environment_file = "secrets"', "an absolute path", ""),
        ("extra_args = [1]", "text", ""),
        ("adapt = { max_num_seqs = 3 }", "true, false or a table with min and max", ""),
        ("adapt = { min_concurrency_fraction = 1.5 }", "0 to 1", ""),
    ],
)
def test_a_wrong_type_or_bound_says_what_is_allowed(errors_of, line, allowed, hint):
    (error,) = errors_of(CPU + line + "\n").values()

    assert (error.allowed, error.hint) == (allowed, hint)


def test_a_mig_slice_is_refused_with_its_reason(errors_of):
    errors = errors_of('[instance.a]\nmodel = "/m"\ngpus = ["MIG-12ab"]\n')

    assert "MIG slices are not supported" in errors["instance.a.gpus[0]"].hint


def test_an_instance_name_outside_the_rule_is_refused(errors_of):
    errors = errors_of('[instance."A_b"]\nmodel = "/m"\ngpus = []\n')

    assert errors["instance.A_b"].allowed == "1 to 32 characters of a-z, 0-9 and -"


def test_two_instances_on_one_port_are_refused_also_when_it_is_the_default(errors_of):
    errors = errors_of(CPU + '[instance.b]\nmodel = "/n"\ngpus = []\n')

    assert errors["instance.b.port"].reason == "instance.a listens on this port as well"


def test_one_port_on_two_addresses_is_fine(load_text):
    configuration = load_text(CPU + '[instance.b]\nmodel = "/n"\ngpus = []\nhost = "127.0.0.2"\n')

    assert configuration.instance["b"].port == 8000


def test_a_gpu_named_twice_is_refused(errors_of):
    errors = errors_of('[instance.a]\nmodel = "/m"\ngpus = [0, 1, 0]\n')

    assert errors["instance.a.gpus[2]"].reason == "this GPU is named twice"


def test_a_toml_mistake_is_reported_with_line_and_column(load_text):
    with pytest.raises(ConfigurationInvalid) as raised:
        load_text('[daemon]\nsocket = "/run/x\n')

    (error,) = raised.value.errors
    assert (error.line, error.column) == (2, 17)
    assert error.reason.startswith("it is no TOML: ")


def test_a_file_cut_off_in_the_middle_is_reported_at_its_end(load_text):
    with pytest.raises(ConfigurationInvalid) as raised:
        load_text("[daemon]\nx = [1,\n")

    (error,) = raised.value.errors
    assert error.line == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "no such file or directory"), (b"\xff\xfe", "it is not UTF-8 text")],
)
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, content, reason):
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigurationInvalid) as raised:
        load(path, {})

    assert [error.reason for error in raised.value.errors] == [reason]


def test_an_empty_file_is_a_daemon_without_instances(load_text):
    configuration = load_text("")

    assert configuration.instance == {}
    assert configuration.daemon.socket == "/run/vllm-warden/api.sock"


def test_a_top_level_key_that_pydantic_settings_reserves_is_refused(errors_of):
    errors = errors_of('_env_file = "/etc/shadow"\n')

    assert errors["_env_file"].reason == "there is no such table"


def test_a_key_inside_a_multi_line_text_is_not_taken_for_its_line(errors_of):
    errors = errors_of('[daemon]\ngroup = """\nsocket = 3"""\nsocket = 5\n')

    assert errors["daemon.socket"].line == 4
