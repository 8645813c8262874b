"""The call stacks of each failure in the two model runners, outermost frame first.

A row is ``file:line:function:source``; read from vLLM 0.9.2 to 0.33. Line numbers are of one
release: nothing that reads a log may depend on them.
"""

from __future__ import annotations

from benchmarks.convergence.eras import Era
from benchmarks.convergence.scenario import Wall

SITE = "/opt/venv/lib/python3.11/site-packages/"
_RUNNER = "vllm/v1/worker/gpu_model_runner.py"
_SECOND = "vllm/v1/worker/gpu/model_runner.py"
_WORKER = "vllm/v1/worker/gpu_worker.py"
_NO_GRAD = "torch/utils/_contextlib.py:120:decorate_context:return func(*args, **kwargs)"
_CALL = (
    "torch/nn/modules/module.py:1776:_wrapped_call_impl:return self._call_impl(*args, **kwargs)",
    "torch/nn/modules/module.py:1787:_call_impl:return forward_call(*args, **kwargs)",
)
_MODEL = (
    *_CALL,
    "vllm/model_executor/models/llama.py:581:forward:model_output = self.model(",
    "vllm/compilation/decorators.py:239:__call__:return self.forward(*args, **kwargs)",
    "vllm/model_executor/models/llama.py:392:forward:hidden_states, residual = layer(",
    *_CALL,
    "vllm/model_executor/models/llama.py:311:forward:hidden_states = self.mlp(hidden_states)",
    "vllm/model_executor/layers/activation.py:77:forward_cuda:out = torch.empty(",
)
_SAMPLE = (
    *_CALL,
    "vllm/v1/sample/sampler.py:96:forward:sampled, processed_logprobs = self.sample(",
    "vllm/v1/sample/sampler.py:171:sample:random_sampled, _ = self.topk_topp_sampler(",
    *_CALL,
    "vllm/v1/sample/ops/topk_topp_sampler.py:110:forward_native:logits = apply_top_k_top_p(",
    (
        "vllm/v1/sample/ops/topk_topp_sampler.py:234:apply_top_k_top_p:logits_sort, logits_idx = "
        "logits.sort(dim=-1, descending=False)"
    ),
)
_LOGITS = (
    f"{_RUNNER}:4790:_dummy_sampler_run:logits = self.model.compute_logits(hidden_states)",
    "vllm/model_executor/layers/logits_processor.py:64:forward:logits = self._get_logits(",
)
_SECOND_SAMPLE = (
    *_CALL,
    "vllm/v1/worker/gpu/sample/sampler.py:88:__call__:sampled = self.sample(",
    (
        "vllm/v1/worker/gpu/sample/sampler.py:141:sample:logits = torch.empty_like(logits, "
        "dtype=torch.float32).copy_(logits)"
    ),
)
_WEIGHTS = (
    "vllm/model_executor/model_loader/base_loader.py:50:load_model:model = initialize_model(",
    "vllm/model_executor/model_loader/utils.py:48:initialize_model:return model_class(",
    "vllm/model_executor/models/llama.py:485:__init__:self.layers = make_layers(",
    "vllm/model_executor/layers/linear.py:479:__init__:self.quant_method.create_weights(",
    "vllm/model_executor/layers/linear.py:219:create_weights:torch.empty(",
)
_PROFILE = f"{_WORKER}:322:determine_available_memory:self.model_runner.profile_run()"
_WARM = f"{_WORKER}:530:compile_or_warm_up_model"

_FIRST = {
    Wall.INIT: (
        (
            f"{_WORKER}:235:init_device:self.requested_memory = request_memory(init_snapshot, "
            "self.cache_config)"
        ),
        "vllm/v1/worker/utils.py:260:request_memory:raise ValueError(",
    ),
    Wall.LOAD: (
        f"{_WORKER}:275:load_model:self.model_runner.load_model(eep_scale_up=eep_scale_up)",
        f"{_RUNNER}:4052:load_model:self.model = model_loader.load_model(",
        *_WEIGHTS,
    ),
    Wall.PROFILE_FORWARD: (
        _NO_GRAD,
        _PROFILE,
        f"{_RUNNER}:4986:profile_run:hidden_states, last_hidden_states = self._dummy_run(",
        _NO_GRAD,
        f"{_RUNNER}:4697:_dummy_run:outputs = self.model(",
        *_MODEL,
    ),
    Wall.PROFILE_SAMPLER: (
        _NO_GRAD,
        _PROFILE,
        f"{_RUNNER}:4993:profile_run:output = self._dummy_sampler_run(last_hidden_states)",
        _NO_GRAD,
    ),
    Wall.DISTURBED: (
        _NO_GRAD,
        (
            f"{_WORKER}:340:determine_available_memory:assert self.init_snapshot.free_memory > "
            "free_gpu_memory, ("
        ),
    ),
    Wall.STATE_BLOCKS: (
        f"{_WORKER}:412:initialize_from_config:self.model_runner.initialize_kv_cache(",
        f"{_RUNNER}:6798:initialize_kv_cache:self.initialize_attn_backend(kv_cache_config)",
        (
            f"{_RUNNER}:6851:_check_and_update_cudagraph_mode:cudagraph_mode = "
            "self.compilation_config.resolve_cudagraph_mode_and_sizes("
        ),
        "vllm/config/compilation.py:1519:resolve_cudagraph_mode_and_sizes:raise ValueError(",
    ),
    Wall.KV_ALLOC: (
        f"{_WORKER}:412:initialize_from_config:self.model_runner.initialize_kv_cache(",
        f"{_RUNNER}:5887:initialize_kv_cache:kv_caches = self.initialize_kv_cache_tensors(",
        (
            f"{_RUNNER}:5760:initialize_kv_cache_tensors:kv_cache_raw_tensors = "
            "self._allocate_kv_cache_tensors(kv_cache_config)"
        ),
        f"{_RUNNER}:5561:_allocate_kv_cache_tensors:tensor = torch.zeros(",
    ),
    Wall.CAPTURE: (
        f"{_WARM}:cuda_graph_memory_bytes = self.model_runner.capture_model()",
        f"{_RUNNER}:5030:capture_model:self._capture_cudagraphs(",
        f"{_RUNNER}:5111:_capture_cudagraphs:self._dummy_run(",
        _NO_GRAD,
        f"{_RUNNER}:4697:_dummy_run:outputs = self.model(",
        *_MODEL,
    ),
    Wall.WARMUP: (
        f"{_WARM}:self.model_runner._dummy_sampler_run(hidden_states=last_hidden_states)",
        _NO_GRAD,
    ),
    Wall.FULL_BATCH: (
        f"{_WORKER}:601:execute_model:output = self.model_runner.execute_model(",
        _NO_GRAD,
        f"{_RUNNER}:3312:execute_model:model_output = self._model_forward(",
        f"{_RUNNER}:2894:_model_forward:return self.model(",
        *_MODEL,
    ),
    Wall.SPIKE: (
        f"{_WORKER}:601:execute_model:output = self.model_runner.execute_model(",
        _NO_GRAD,
        f"{_RUNNER}:3340:execute_model:prompt_logprobs_dict = self._get_prompt_logprobs_dict(",
        (
            f"{_RUNNER}:4110:_get_prompt_logprobs_dict:logprobs = self.sampler.compute_logprobs("
            "logits)"
        ),
        (
            "vllm/v1/sample/sampler.py:190:compute_logprobs:return logits.log_softmax(dim=-1, "
            "dtype=torch.float32)"
        ),
    ),
}
_SECOND_FORWARD = (
    f"{_SECOND}:930:_dummy_run:self.execute_model(",
    _NO_GRAD,
    f"{_SECOND}:2040:execute_model:model_output = self.model(**model_inputs)",
    *_MODEL,
)
_SECOND_RUNNER = {
    **_FIRST,
    Wall.LOAD: (
        f"{_WORKER}:275:load_model:self.model_runner.load_model(load_dummy_weights=False)",
        f"{_SECOND}:398:load_model:self.model = model_loader.load_model(",
        *_WEIGHTS,
    ),
    Wall.PROFILE_FORWARD: (
        _NO_GRAD,
        _PROFILE,
        _NO_GRAD,
        f"{_SECOND}:1003:profile_run:hidden_states, sample_hidden_states = self._dummy_run(",
        *_SECOND_FORWARD,
    ),
    Wall.PROFILE_SAMPLER: (
        _NO_GRAD,
        _PROFILE,
        _NO_GRAD,
        f"{_SECOND}:1014:profile_run:self._dummy_sampler_run(sample_hidden_states)",
        f"{_SECOND}:980:_dummy_sampler_run:self.sampler(logits, input_batch)",
        *_SECOND_SAMPLE,
    ),
    Wall.STATE_BLOCKS: (
        f"{_WORKER}:665:initialize_from_config:self.model_runner.initialize_kv_cache(",
        (
            f"{_SECOND}:735:initialize_kv_cache:cudagraph_mode = "
            "self.compilation_config.resolve_cudagraph_mode_and_sizes("
        ),
        "vllm/config/compilation.py:1519:resolve_cudagraph_mode_and_sizes:raise ValueError(",
    ),
    Wall.KV_ALLOC: (
        f"{_WORKER}:665:initialize_from_config:self.model_runner.initialize_kv_cache(",
        f"{_SECOND}:770:initialize_kv_cache:kv_caches_dict = init_kv_cache(",
        "vllm/v1/worker/gpu/attn_utils.py:120:_allocate_kv_cache:tensor = torch.zeros(",
    ),
    Wall.CAPTURE: (
        f"{_WARM}:cuda_graph_memory_bytes = self.model_runner.capture_model()",
        _NO_GRAD,
        f"{_SECOND}:1098:capture_model:self.cudagraph_manager.capture(",
        "vllm/v1/worker/gpu/cudagraph_utils.py:240:capture:self._capture_full_graph(",
        "vllm/v1/worker/gpu/cudagraph_utils.py:181:_capture_full_graph:model_output = model(",
        *_MODEL,
    ),
    Wall.WARMUP: (
        f"{_WARM}:warmup_kernels(self.model_runner, self.execute_model, self.sample_tokens)",
        _NO_GRAD,
        "vllm/v1/worker/gpu/warmup.py:376:warmup_kernels:worker_sample_tokens(None)",
        f"{_WORKER}:820:sample_tokens:return self.model_runner.sample_tokens(grammar_output)",
        _NO_GRAD,
        f"{_SECOND}:2120:sample_tokens:sampler_output, num_sampled, num_rejected = self.sample(",
        f"{_SECOND}:1640:sample:sampler_output = self.sampler(",
        *_SECOND_SAMPLE,
    ),
    Wall.FULL_BATCH: (
        f"{_WORKER}:790:execute_model:output = self.model_runner.execute_model(",
        _NO_GRAD,
        f"{_SECOND}:2040:execute_model:model_output = self.model(**model_inputs)",
        *_MODEL,
    ),
    Wall.SPIKE: (
        f"{_WORKER}:820:sample_tokens:return self.model_runner.sample_tokens(grammar_output)",
        _NO_GRAD,
        (
            f"{_SECOND}:2140:sample_tokens:prompt_logprobs_dict = "
            "self.prompt_logprobs_worker.compute_prompt_logprobs("
        ),
        (
            "vllm/v1/worker/gpu/sample/prompt_logprob.py:160:compute_prompt_logprobs:logprobs = "
            "compute_topk_logprobs("
        ),
    ),
}
RAISES_SAMPLER = (f"{_RUNNER}:4817:_dummy_sampler_run:raise RuntimeError(",)
SAMPLER_CAUSE = (f"{_RUNNER}:4812:_dummy_sampler_run:sampler_output = self.sampler(", *_SAMPLE)
SAMPLER_LOGITS = _LOGITS

RPC = (
    "vllm/v1/executor/multiproc_executor.py:847:worker_busy_loop:output = func(*args, **kwargs)",
)
WORKER_INIT = (
    "vllm/v1/executor/multiproc_executor.py:743:worker_main:worker = WorkerProc(*args, **kwargs)",
)
CORE = (
    (
        "vllm/v1/engine/core.py:937:run_engine_core:engine_core = EngineCoreProc(*args, "
        "engine_index=dp_rank, **kwargs)"
    ),
    "vllm/v1/engine/core.py:691:__init__:super().__init__(",
    (
        "vllm/v1/engine/core.py:112:__init__:num_gpu_blocks, num_cpu_blocks, kv_cache_config = "
        "self._initialize_kv_caches("
    ),
)
CORE_PLAN = (
    *CORE,
    "vllm/v1/engine/core.py:244:_initialize_kv_caches:kv_cache_configs = get_kv_cache_configs(",
    "vllm/v1/core/kv_cache_utils.py:1480:get_kv_cache_configs:check_enough_kv_cache_memory(",
    "vllm/v1/core/kv_cache_utils.py:672:check_enough_kv_cache_memory:raise ValueError(",
)
CORE_WAITS = (
    (
        "vllm/v1/engine/core.py:937:run_engine_core:engine_core = EngineCoreProc(*args, "
        "engine_index=dp_rank, **kwargs)"
    ),
    (
        "vllm/v1/executor/multiproc_executor.py:155:_init_executor:self.workers = "
        "WorkerProc.wait_for_ready(unready_workers)"
    ),
    "vllm/v1/executor/multiproc_executor.py:680:wait_for_ready:raise e from None",
)
_RESPONSE = "vllm/v1/executor/multiproc_executor.py:357:get_response:raise RuntimeError("
CORE_PROFILES = (
    *CORE,
    (
        "vllm/v1/engine/core.py:240:_initialize_kv_caches:available_gpu_memory = "
        "self.model_executor.determine_available_memory()"
    ),
    _RESPONSE,
)
CORE_WARMS_UP = (
    *CORE,
    (
        "vllm/v1/engine/core.py:269:_initialize_kv_caches:"
        "self.model_executor.initialize_from_config(kv_cache_configs)"
    ),
    (
        "vllm/v1/executor/abstract.py:116:initialize_from_config:"
        'self.collective_rpc("compile_or_warm_up_model")'
    ),
    _RESPONSE,
)
CORE_SERVES = (
    "vllm/v1/engine/core.py:946:run_engine_core:engine_core.run_busy_loop()",
    "vllm/v1/engine/core.py:973:run_busy_loop:self._process_engine_step()",
    "vllm/v1/engine/core.py:1006:_process_engine_step:outputs, model_executed = self.step_fn()",
    "vllm/v1/engine/core.py:371:step:model_output = future.result()",
)
API = (
    "vllm/entrypoints/cli/main.py:73:main:args.dispatch_function(args)",
    "vllm/entrypoints/cli/serve.py:60:cmd:uvloop.run(run_server(args))",
    "vllm/v1/engine/utils.py:1057:wait_for_engine_startup:raise RuntimeError(",
)


def frames_of(era: Era, wall: Wall) -> tuple[str, ...]:
    return (_SECOND_RUNNER if era.second_runner else _FIRST)[wall]


def traceback(rows: tuple[str, ...], last: str) -> list[str]:
    """A traceback as Python prints it, ending in the exception's own text."""
    lines = ["Traceback (most recent call last):"]
    for row in rows:
        path, number, function, source = row.split(":", 3)
        lines += [f'  File "{SITE}{path}", line {number}, in {function}', f"    {source}"]
    return [*lines, *last.split("\n")]
