import pytest

CPU = '[instance.a]\nmodel = "/m"\ngpus = []\n'


@pytest.mark.parametrize(
    ("line", "key", "reason"),
    [
        ('command = ["docker", "run", "vllm"]', "command[0]", "outside the warden's cgroup"),
        ('command = ["nice", "/usr/bin/podman"]', "command[1]", "outside the warden's cgroup"),
        ('command = ["env", "HF_TOKEN=k", "vllm"]', "command[1]", "readable by every user"),
        ('command = ["vllm", "serve", "--api-key", "k"]', "command[2]", "readable by every user"),
        ('environment.VLLM_KEEP_ALIVE_ON_ENGINE_DEATH = "1"', None, "503 for ever"),
        ('environment.VLLM_CONFIGURE_LOGGING = "0"', None, "no failure can be diagnosed"),
        ('environment.VLLM_LOGGING_CONFIG_PATH = "/x.json"', None, "undiagnosed"),
        ('environment.VLLM_PORT = "8000"', None, "the API port is taken"),
        ('environment.CUDA_VISIBLE_DEVICES = "0"', None, "the warden sets it"),
        ('environment.NOTIFY_SOCKET = "@x"', None, "never to an engine"),
        ('environment.VLLM_API_KEY = "k"', None, "everyone may read"),
        ('environment."A B" = "k"', "environment.A B", "no name for"),
        ('engine.model = "/other"', None, "a key of its own"),
        ('engine.host = "0.0.0.0"', None, "a key of its own"),
        ("engine.port = 1", None, "a key of its own"),
        ('engine.api_key = "k"', None, "readable by every user"),
        ("engine.max-num-seqs = 4", None, "written with underscores"),
        ('engine."--x" = 4', "engine.--x", "written with underscores"),
        ('engine."" = 4', "engine.", "written with letters, digits and underscores"),
        ('engine."\u00e9" = 4', "engine.\u00e9", "written with letters, digits and underscores"),
        ('engine.distributed_executor_backend = "ray"', None, "Ray executor"),
        ('engine.data_parallel_backend = "ray"', None, "Ray executor"),
        ("engine.enable_fault_tolerance = true", None, "instead of ending"),
        ("engine.nnodes = 2", None, "on one node only"),
        ("engine.headless = true", None, "on one node only"),
        ('engine.data_parallel_address = "10.0.0.1"', None, "on one node only"),
        ('engine.uds = "/run/v.sock"', None, "over TCP"),
        ('extra_args = ["--port", "9"]', "extra_args[0]", "a key of its own"),
        ('extra_args = ["--api-key=k"]', "extra_args[0]", "readable by every user"),
        ('extra_args = ["-x", "--nnodes=2"]', "extra_args[1]", "on one node only"),
        ('extra_args = ["--distributed-executor-backend", "ray"]', "extra_args[0]", "Ray"),
        ('extra_args = ["--seed", "1", "--seed=2"]', "extra_args[2]", "seed is given before"),
        (
            'engine.tensor_parallel_size = 2\nextra_args = ["-tp", "2"]',
            "extra_args[0]",
            "tensor_parallel_size is given in instance.a.engine already",
        ),
        (
            'engine.enable_prefix_caching = true\nextra_args = ["--no-enable-prefix-caching"]',
            "extra_args[0]",
            "enable_prefix_caching is given in instance.a.engine already",
        ),
    ],
)
def test_what_cannot_be_supervised_is_refused_with_its_reason(errors_of, line, key, reason):
    errors = errors_of(CPU + line + "\n")

    (where,) = errors
    assert where == f"instance.a.{key or line.partition(' = ')[0]}"
    assert reason in errors[where].reason
    assert errors[where].hint


@pytest.mark.parametrize(
    "line",
    [
        'environment.VLLM_KEEP_ALIVE_ON_ENGINE_DEATH = "0"',
        'environment.VLLM_CONFIGURE_LOGGING = "1"',
        'environment.VLLM_PORT = "9000"',
        "engine.nnodes = 1",
        "engine.headless = false",
        "engine.enable_fault_tolerance = false",
        'engine.distributed_executor_backend = "mp"',
        'extra_args = ["--middleware", "a.b", "--middleware", "c.d"]',
        'extra_args = ["--compilation-config.level", "3", "--compilation-config.x", "1"]',
        'command = ["prlimit", "--as=6442450944", "--", "vllm", "serve"]',
        'command = ["env", "TOKENIZERS_PARALLELISM=false", "HF_TOKEN=", "vllm", "serve"]',
    ],
)
def test_what_only_looks_like_a_refused_setting_is_accepted(load_text, line):
    configuration = load_text(CPU + line + "\n")

    assert list(configuration.instance) == ["a"]


def test_a_secret_is_not_repeated_in_its_own_error(errors_of):
    text = CPU + 'engine.api_key = "sk-1"\nextra_args = ["--hf-token=hf_2"]\n'
    text += 'command = ["env", "MY_PASSWORD=hunter2", "vllm", "serve"]\n'
    errors = errors_of(text + 'environment = { VLLM_API_KEY = "sk-3", OTHER = 4711 }\n')

    said = "\n".join(f"{error} {error.to_document()}" for error in errors.values())
    assert len(errors) == 5
    assert "put MY_PASSWORD into environment_file" in said
    for secret in ("sk-1", "hf_2", "sk-3", "4711", "hunter2"):
        assert secret not in said


@pytest.mark.parametrize(
    ("adapt", "end", "reason"),
    [
        ("max_num_seqs = { min = 300, max = 200 }", "min", "it is above max = 200"),
        ("max_num_seqs = { min = 512 }", "min", "it is above the asked 256"),
        ("max_num_seqs = { max = 128 }", "max", "it is below the asked 256"),
        ("gpu_memory_utilization = { min = 1.2 }", "min", "out of bounds"),
        ('kv_cache_memory_bytes = { min = "much" }', "min", "this is no size"),
        ('kv_cache_memory_bytes = { min = "2G", max = "1G" }', "min", "it is above max = 1G"),
    ],
)
def test_bounds_that_contradict_are_refused(errors_of, adapt, end, reason):
    errors = errors_of(CPU + f"engine.max_num_seqs = 256\nadapt.{adapt}\n")

    knob = adapt.partition(" ")[0]
    assert errors[f"instance.a.adapt.{knob}.{end}"].reason == reason


def test_asked_values_that_the_engine_itself_refuses_are_refused_here(errors_of):
    errors = errors_of(CPU + "engine.gpu_memory_utilization = 95\n")

    assert errors["instance.a.engine.gpu_memory_utilization"].allowed == "0.01 to 1"


def test_the_longest_context_that_fits_may_be_asked_for(load_text):
    configuration = load_text(CPU + "engine.max_model_len = -1\n")

    assert configuration.instance["a"].engine == {"max_model_len": -1}
