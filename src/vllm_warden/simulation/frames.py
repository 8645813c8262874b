"""Holds the call stacks that vLLM 0.15.1 prints for each failure, outermost frame first.

A row is ``file:line:function:source line``. Paths are below site-packages unless they start with
a slash or are the standard library's (``lib/``).
"""

from __future__ import annotations

SITE = "/opt/venv/lib/python3.11/site-packages/"
LIBRARY = "/usr/lib/python3.11/"

_NO_GRAD = "torch/utils/_contextlib.py:124:decorate_context:return func(*args, **kwargs)"
_MODULE = (
    "torch/nn/modules/module.py:1776:_wrapped_call_impl:return self._call_impl(*args, **kwargs)",
    "torch/nn/modules/module.py:1787:_call_impl:return forward_call(*args, **kwargs)",
)
_RUNNER = "vllm/v1/worker/gpu_model_runner.py"
_WORKER = "vllm/v1/worker/gpu_worker.py"
_MULTIPROC = "vllm/v1/executor/multiproc_executor.py"
_CORE = "vllm/v1/engine/core.py"
_API = "vllm/entrypoints/openai/api_server.py"

WORKER_INIT = (
    f"{_MULTIPROC}:743:worker_main:worker = WorkerProc(*args, **kwargs)",
    f"{_MULTIPROC}:569:__init__:self.worker.init_device()",
)
WORKER_LOAD = (
    f"{_MULTIPROC}:743:worker_main:worker = WorkerProc(*args, **kwargs)",
    f"{_MULTIPROC}:578:__init__:self.worker.load_model()",
)
WORKER_RPC = (f"{_MULTIPROC}:847:worker_busy_loop:output = func(*args, **kwargs)",)

DUMMY_FORWARD = (
    f"{_RUNNER}:4697:_dummy_run:outputs = self.model(",
    *_MODULE,
    "vllm/model_executor/models/minimax_m2.py:498:forward:hidden_states = self.model(",
    "vllm/compilation/decorators.py:390:__call__:return self.forward(*args, **kwargs)",
    "vllm/model_executor/models/minimax_m2.py:351:forward:hidden_states, residual = layer(",
    *_MODULE,
)
INIT_DEVICE = (
    "vllm/v1/worker/worker_base.py:326:init_device:self.worker.init_device()  # type: ignore",
    (
        f"{_WORKER}:235:init_device:"
        "self.requested_memory = request_memory(init_snapshot, self.cache_config)"
    ),
    "vllm/v1/worker/utils.py:260:request_memory:raise ValueError(",
)
LOAD_MODEL = (
    f"{_WORKER}:275:load_model:self.model_runner.load_model(eep_scale_up=eep_scale_up)",
    f"{_RUNNER}:4129:load_model:raise e",
    f"{_RUNNER}:4052:load_model:self.model = model_loader.load_model(",
    "vllm/model_executor/model_loader/base_loader.py:50:load_model:model = initialize_model(",
    (
        "vllm/model_executor/model_loader/utils.py:48:initialize_model:"
        "return model_class(vllm_config=vllm_config, prefix=prefix)"
    ),
    "vllm/model_executor/models/utils.py:706:make_layers:+ [",
)
CREATE_WEIGHTS = (
    (
        "vllm/model_executor/layers/fused_moe/layer.py:618:__init__:"
        "self.quant_method.create_weights(layer=self, **moe_quant_params)"
    ),
    "vllm/model_executor/layers/quantization/fp8.py:772:create_weights:torch.empty(",
)
CHECK_BLOCKS = (
    (
        "vllm/model_executor/layers/fused_moe/layer.py:618:__init__:"
        "self.quant_method.create_weights(layer=self, **moe_quant_params)"
    ),
    "vllm/model_executor/layers/quantization/fp8.py:738:create_weights:raise ValueError(",
)
KV_HEADS = (
    (
        "vllm/model_executor/models/minimax_m2.py:179:__init__:"
        "assert self.total_num_kv_heads % tp_size == 0"
    ),
)
PROFILE = (_NO_GRAD, f"{_WORKER}:322:determine_available_memory:self.model_runner.profile_run()")
PROFILE_FORWARD = (
    *PROFILE,
    f"{_RUNNER}:4986:profile_run:hidden_states, last_hidden_states = self._dummy_run(",
    _NO_GRAD,
    *DUMMY_FORWARD,
)
PROFILE_SAMPLER = (
    *PROFILE,
    f"{_RUNNER}:4993:profile_run:output = self._dummy_sampler_run(last_hidden_states)",
    _NO_GRAD,
)
ALLOCATE_KV = (
    (
        "vllm/v1/worker/worker_base.py:320:initialize_from_config:"
        "self.worker.initialize_from_config(kv_cache_config)  # type: ignore"
    ),
    f"{_WORKER}:412:initialize_from_config:self.model_runner.initialize_kv_cache(kv_cache_config)",
    f"{_RUNNER}:5887:initialize_kv_cache:kv_caches = self.initialize_kv_cache_tensors(",
    (
        f"{_RUNNER}:5812:initialize_kv_cache_tensors:"
        "kv_cache_raw_tensors = self._allocate_kv_cache_tensors(kv_cache_config)"
    ),
    f"{_RUNNER}:5580:_allocate_kv_cache_tensors:tensor = torch.zeros(",
)
KERNELS = (
    f"{_WORKER}:448:compile_or_warm_up_model:kernel_warmup(self)",
    (
        "vllm/model_executor/warmup/kernel_warmup.py:44:kernel_warmup:"
        "flashinfer_autotune(worker.model_runner)"
    ),
)
CAPTURE = (
    (
        f"{_WORKER}:452:compile_or_warm_up_model:"
        "cuda_graph_memory_bytes = self.model_runner.capture_model()"
    ),
    f"{_RUNNER}:5040:capture_model:self._capture_cudagraphs(",
    f"{_RUNNER}:5140:_capture_cudagraphs:dummy_run(",
    _NO_GRAD,
    *DUMMY_FORWARD,
)
WARMUP_SAMPLER = (
    (
        f"{_WORKER}:530:compile_or_warm_up_model:"
        "self.model_runner._dummy_sampler_run(hidden_states=last_hidden_states)"
    ),
    _NO_GRAD,
)
SAMPLER_RAISES = (f"{_RUNNER}:4817:_dummy_sampler_run:raise RuntimeError(",)
SAMPLER_LOGITS = (
    f"{_RUNNER}:4775:_dummy_sampler_run:logits = self.model.compute_logits(hidden_states)",
)
SAMPLER_SORT = (
    f"{_RUNNER}:4812:_dummy_sampler_run:sampler_output = self.sampler(",
    *_MODULE,
    (
        "vllm/v1/sample/sampler.py:96:forward:"
        "sampled, processed_logprobs = self.sample(logits, sampling_metadata)"
    ),
    (
        "vllm/v1/sample/sampler.py:187:sample:"
        "random_sampled, processed_logprobs = self.topk_topp_sampler("
    ),
    *_MODULE,
    (
        "vllm/v1/sample/ops/topk_topp_sampler.py:121:forward_native:"
        "logits = self.apply_top_k_top_p(logits, k, p)"
    ),
    (
        "vllm/v1/sample/ops/topk_topp_sampler.py:276:apply_top_k_top_p:"
        "logits_sort, logits_idx = logits.sort(dim=-1, descending=False)"
    ),
)
EXECUTE_MODEL = (
    (
        "vllm/v1/worker/worker_base.py:365:execute_model:"
        "return self.worker.execute_model(scheduler_output)"
    ),
    _NO_GRAD,
    f"{_WORKER}:630:execute_model:output = self.model_runner.execute_model(",
    _NO_GRAD,
    f"{_RUNNER}:3500:execute_model:model_output = self._model_forward(",
    f"{_RUNNER}:3013:_model_forward:return self.model(",
    *_MODULE,
    *DUMMY_FORWARD[3:],
)

CORE_START = (
    (
        f"{_CORE}:937:run_engine_core:"
        "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)"
    ),
    f"{_CORE}:691:__init__:super().__init__(",
)
CORE_EXECUTOR = (f"{_CORE}:105:__init__:self.model_executor = executor_class(vllm_config)",)
CORE_WAIT_WORKERS = (
    *CORE_EXECUTOR,
    f"{_MULTIPROC}:97:__init__:super().__init__(vllm_config)",
    "vllm/v1/executor/abstract.py:101:__init__:self._init_executor()",
    f"{_MULTIPROC}:165:_init_executor:self.workers = WorkerProc.wait_for_ready(unready_workers)",
    f"{_MULTIPROC}:678:wait_for_ready:raise e from None",
)
CORE_UNI_EXECUTOR = (
    *CORE_EXECUTOR,
    "vllm/v1/executor/abstract.py:101:__init__:self._init_executor()",
)
_CORE_KV = (
    f"{_CORE}:112:__init__:"
    "num_gpu_blocks, num_cpu_blocks, kv_cache_config = self._initialize_kv_caches("
)
CORE_STAGE = {
    "init_device": (
        "vllm/v1/executor/uniproc_executor.py:47:_init_executor:self.driver_worker.init_device()",
    ),
    "load_model": (
        "vllm/v1/executor/uniproc_executor.py:48:_init_executor:self.driver_worker.load_model()",
    ),
    "determine_available_memory": (
        _CORE_KV,
        (
            f"{_CORE}:242:_initialize_kv_caches:"
            "available_gpu_memory = self.model_executor.determine_available_memory()"
        ),
        (
            "vllm/v1/executor/abstract.py:126:determine_available_memory:"
            'return self.collective_rpc("determine_available_memory")'
        ),
    ),
    "initialize_from_config": (
        _CORE_KV,
        (
            f"{_CORE}:269:_initialize_kv_caches:"
            "self.model_executor.initialize_from_config(kv_cache_configs)"
        ),
        (
            "vllm/v1/executor/abstract.py:115:initialize_from_config:"
            'self.collective_rpc("initialize_from_config", args=(kv_cache_configs,))'
        ),
    ),
    "compile_or_warm_up_model": (
        _CORE_KV,
        (
            f"{_CORE}:269:_initialize_kv_caches:"
            "self.model_executor.initialize_from_config(kv_cache_configs)"
        ),
        (
            "vllm/v1/executor/abstract.py:116:initialize_from_config:"
            'self.collective_rpc("compile_or_warm_up_model")'
        ),
    ),
}
CORE_PLAN_KV = (
    _CORE_KV,
    f"{_CORE}:253:_initialize_kv_caches:kv_cache_configs = get_kv_cache_configs(",
    "vllm/v1/core/kv_cache_utils.py:1516:get_kv_cache_configs:_check_enough_kv_cache_memory(",
    "vllm/v1/core/kv_cache_utils.py:616:_check_enough_kv_cache_memory:raise ValueError(",
)
CORE_RPC_ERROR = (
    f"{_MULTIPROC}:374:collective_rpc:return aggregate(get_response())",
    f"{_MULTIPROC}:357:get_response:raise RuntimeError(",
)
CORE_RPC_UNI = (
    (
        "vllm/v1/executor/uniproc_executor.py:75:collective_rpc:"
        "result = run_method(self.driver_worker, method, args, kwargs)"
    ),
    "vllm/v1/serial_utils.py:461:run_method:return func(*args, **kwargs)",
)
CORE_STEP = (
    f"{_CORE}:939:run_engine_core:engine_core.run_busy_loop()",
    f"{_CORE}:966:run_busy_loop:self._process_engine_step()",
    f"{_CORE}:999:_process_engine_step:outputs, model_executed = self.step_fn()",
    f"{_CORE}:387:step:model_output = future.result()",
)
CORE_PROCESS = (
    "lib/multiprocessing/process.py:314:_bootstrap:self.run()",
    "lib/multiprocessing/process.py:108:run:self._target(*self._args, **self._kwargs)",
    f"{_CORE}:950:run_engine_core:raise e",
)

API_MAIN = (
    "/opt/venv/bin/vllm:8:<module>:sys.exit(main())",
    "vllm/entrypoints/cli/main.py:73:main:args.dispatch_function(args)",
    "vllm/entrypoints/cli/serve.py:111:cmd:uvloop.run(run_server(args))",
    "uvloop/__init__.py:92:run:return runner.run(wrapper())",
    "lib/asyncio/runners.py:118:run:return self._loop.run_until_complete(task)",
    "uvloop/__init__.py:48:wrapper:return await main",
)
API_BIND = (
    *API_MAIN,
    f"{_API}:918:run_server:listen_address, sock = setup_server(args)",
    f"{_API}:890:setup_server:sock = create_server_socket(sock_addr)",
    f"{_API}:839:create_server_socket:sock.bind(addr)",
)
_API_BUILD = (
    *API_MAIN,
    f"{_API}:919:run_server:await run_server_worker(listen_address, sock, args, **uvicorn_kwargs)",
    f"{_API}:938:run_server_worker:async with build_async_engine_client(",
    "lib/contextlib.py:210:__aenter__:return await anext(self.gen)",
)
API_MODEL_PATH = (
    *_API_BUILD,
    f"{_API}:139:build_async_engine_client:engine_args = AsyncEngineArgs.from_cli_args(args)",
    (
        "vllm/engine/arg_utils.py:600:__post_init__:"
        "self.model = get_model_path(self.model, self.revision)"
    ),
    (
        "vllm/transformers_utils/repo_utils.py:184:get_model_path:"
        "return snapshot_download(repo_id=model, **common_kwargs)"
    ),
    "huggingface_hub/utils/_validators.py:154:validate_repo_id:raise HFValidationError(",
)
API_CONFIG = (
    *_API_BUILD,
    f"{_API}:147:build_async_engine_client:async with build_async_engine_client_from_engine_args(",
    "lib/contextlib.py:210:__aenter__:return await anext(self.gen)",
    (
        f"{_API}:173:build_async_engine_client_from_engine_args:"
        "vllm_config = engine_args.create_engine_config(usage_context=usage_context)"
    ),
    "vllm/engine/arg_utils.py:1754:create_engine_config:config = VllmConfig(",
    (
        "pydantic/_internal/_dataclasses.py:121:__init__:"
        "s.__pydantic_validator__.validate_python(ArgsKwargs(args, kwargs), self_instance=s)"
    ),
)
API_ENGINE = (
    *_API_BUILD,
    f"{_API}:147:build_async_engine_client:async with build_async_engine_client_from_engine_args(",
    "lib/contextlib.py:210:__aenter__:return await anext(self.gen)",
    f"{_API}:188:build_async_engine_client_from_engine_args:async_llm = AsyncLLM.from_vllm_config(",
    "vllm/v1/engine/async_llm.py:228:from_vllm_config:return cls(",
    (
        "vllm/v1/engine/async_llm.py:155:__init__:"
        "self.engine_core = EngineCoreClient.make_async_mp_client("
    ),
    "vllm/v1/engine/core_client.py:122:make_async_mp_client:return AsyncMPClient(*client_args)",
    "vllm/v1/engine/core_client.py:819:__init__:super().__init__(",
    (
        "vllm/v1/engine/core_client.py:479:__init__:"
        "with launch_core_engines(vllm_config, executor_class, log_stats) as ("
    ),
    "lib/contextlib.py:144:__exit__:next(self.gen)",
    "vllm/v1/engine/utils.py:933:launch_core_engines:wait_for_engine_startup(",
    "vllm/v1/engine/utils.py:992:wait_for_engine_startup:raise RuntimeError(",
)
API_OUTPUT = (
    "vllm/v1/engine/async_llm.py:649:output_handler:outputs = await engine_core.get_output_async()",
    (
        "vllm/v1/engine/core_client.py:894:get_output_async:"
        "raise self._format_exception(outputs) from None"
    ),
)


def traceback(rows: tuple[str, ...], error: str, *, above: tuple[str, ...] = ()) -> list[str]:
    """The lines of a traceback, as Python prints it; ``above`` is put before it (its cause)."""
    lines = [*above, "Traceback (most recent call last):"]
    for row in rows:
        path, line, function, source = row.split(":", 3)
        lines += [f'  File "{_absolute(path)}", line {line}, in {function}', f"    {source}"]
    return [*lines, *error.splitlines()]


def caused_by(rows: tuple[str, ...], error: str) -> tuple[str, ...]:
    """The part of a chained traceback that names the cause."""
    joint = "The above exception was the direct cause of the following exception:"
    return (*traceback(rows, error), "", joint, "")


def _absolute(path: str) -> str:
    if path.startswith("/"):
        return path
    return LIBRARY + path.removeprefix("lib/") if path.startswith("lib/") else SITE + path
