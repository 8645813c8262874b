from vllm_warden.config.translate import translate
from vllm_warden.core.model import Mode
from vllm_warden.core.plan.spec import Bounds, InstanceSpec, RestartSpec


def test_an_instance_becomes_the_spec_that_it_says(load_text):
    configuration = load_text("""
        [instance.minimax-m25]
        model = "/srv/models/minimax-m2.5"
        gpus = [0, "GPU-0ab1"]
        port = 8001
        user = "vllm"
        command = ["/opt/vllm/bin/vllm", "serve"]
        environment = { HF_HUB_OFFLINE = "1" }
        extra_args = ["--seed", "1"]
        [instance.minimax-m25.engine]
        tensor_parallel_size = 4
        gpu_memory_utilization = 0.95
        [instance.minimax-m25.adapt]
        mode = "observe"
        max_num_seqs = { min = 128 }
        max_model_len = true
        gpu_memory_utilization = false
        kv_cache_memory_bytes = { min = "1G", max = 2000000000 }
        [instance.minimax-m25.restart]
        crashes_max = 9
    """)

    (one,) = translate(configuration)

    spec = one.spec
    assert (spec.name, spec.model, spec.port) == ("minimax-m25", "/srv/models/minimax-m2.5", 8001)
    assert spec.gpus == (0, "GPU-0ab1")
    assert spec.user == "vllm"
    assert spec.command == ("/opt/vllm/bin/vllm", "serve")
    assert spec.environment == {"HF_HUB_OFFLINE": "1"}
    assert spec.extra_args == ("--seed", "1")
    assert list(spec.engine) == ["tensor_parallel_size", "gpu_memory_utilization"]
    assert spec.adapt.mode is Mode.OBSERVE
    assert spec.adapt.knobs == {
        "max_num_seqs": Bounds(min=128),
        "gpu_memory_utilization": Bounds(allowed=False),
        "max_num_batched_tokens": Bounds(),
        "max_model_len": Bounds(),
        "kv_cache_memory_bytes": Bounds(min=1 << 30, max=2_000_000_000),
    }
    assert spec.restart == RestartSpec(crashes_max=9)


def test_defaults_of_the_file_are_the_defaults_of_the_core(load_text):
    """Whoever builds a spec without a file (`serve`) gets the same instance."""
    (one,) = translate(load_text('[instance.a]\nmodel = "/m"\ngpus = []\n'))

    plain = InstanceSpec(name="a", model="/m", gpus=())
    for field in InstanceSpec.__dataclass_fields__:
        if field != "adapt":
            assert getattr(one.spec, field) == getattr(plain, field), field
    assert one.spec.adapt.mode is plain.adapt.mode
    assert one.spec.adapt.min_concurrency_fraction == plain.adapt.min_concurrency_fraction


def test_a_size_that_vllm_reads_stays_as_written_and_others_become_bytes(load_text):
    text = """
        [instance.a]
        model = "/m"
        gpus = []
        engine.kv_cache_memory_bytes = "16M"
        [instance.b]
        model = "/m"
        gpus = []
        port = 8001
        engine.kv_cache_memory_bytes = "256MiB"
    """

    a, b = translate(load_text(text))

    assert a.spec.engine == {"kv_cache_memory_bytes": "16M"}
    assert b.spec.engine == {"kv_cache_memory_bytes": 268_435_456}


def test_secrets_come_from_the_environment_file_and_stay_out_of_repr(load_text, tmp_path):
    secrets = tmp_path / "a.env"
    secrets.write_text("VLLM_API_KEY=sk-secret\n", encoding="utf-8")
    secrets.chmod(0o600)
    text = f'[instance.a]\nmodel = "/m"\ngpus = []\nenvironment_file = "{secrets}"\n'

    (one,) = translate(load_text(text))

    assert one.spec.secret_environment == {"VLLM_API_KEY": "sk-secret"}
    assert one.problem is None
    assert "sk-secret" not in repr(one)


def test_an_environment_file_that_is_missing_is_a_problem_and_not_a_refusal(load_text, tmp_path):
    text = f'[instance.a]\nmodel = "/m"\ngpus = []\nenvironment_file = "{tmp_path}/none"\n'

    (one,) = translate(load_text(text))

    assert one.problem == "no such file or directory"
