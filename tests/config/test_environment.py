BASE = '[instance.minimax-m25]\nmodel = "/m"\ngpus = []\n'


def test_a_variable_wins_over_the_file(load_text):
    configuration = load_text(
        BASE + "port = 8000\n",
        {
            "WARDEN_DAEMON__LOG_BACKEND": "file",
            "WARDEN_INSTANCE__MINIMAX_M25__PORT": "8001",
            "WARDEN_INSTANCE__MINIMAX_M25__GPUS": "[0, 1]",
            "WARDEN_INSTANCE__MINIMAX_M25__ENGINE__MAX_NUM_SEQS": "256",
            "WARDEN_INSTANCE__MINIMAX_M25__ENVIRONMENT__HF_HOME": "/srv/hf",
        },
    )

    instance = configuration.instance["minimax-m25"]
    assert configuration.daemon.log_backend == "file"
    assert instance.port == 8001
    assert instance.gpus == [0, 1]
    assert instance.engine == {"max_num_seqs": 256}
    assert instance.environment == {"HF_HOME": "/srv/hf"}


def test_a_mistake_in_a_variable_names_the_variable(errors_of):
    errors = errors_of(BASE, {"WARDEN_INSTANCE__MINIMAX_M25__PORT": "eight"})

    error = errors["instance.minimax-m25.port"]
    assert error.file == "environment variable WARDEN_INSTANCE__MINIMAX_M25__PORT"
    assert error.line is None


def test_an_unknown_variable_is_an_error_like_an_unknown_key(errors_of):
    errors = errors_of("", {"WARDEN_DAEMON__SOCKT": "/x"})

    assert errors["daemon.sockt"].hint == "did you mean daemon.socket?"


def test_variables_of_others_are_left_alone(load_text):
    configuration = load_text(
        BASE, {"VLLM_DAEMON__SOCKET": "/x", "WARDEN_SOCKET": "/y", "HOME": "/root"}
    )

    assert configuration.daemon.socket == "/run/vllm-warden/api.sock"


def test_text_that_looks_like_a_number_is_written_with_quotes(load_text):
    configuration = load_text(BASE, {"WARDEN_INSTANCE__MINIMAX_M25__MODEL": '"7"'})

    assert configuration.instance["minimax-m25"].model == "7"
