"""Holds a rank's call stacks of vLLM 0.32.0 with Model Runner V2, the default on CUDA since 0.29.

It has no sentence of its own for a sampler that does not fit, and warms the sampler up with
requests (``warmup_kernels``) before the graphs are captured.
"""

from __future__ import annotations

from vllm_warden.simulation import frames

_RUNNER = "vllm/v1/worker/gpu/model_runner.py"
_WORKER = "vllm/v1/worker/gpu_worker.py"
_WARMUP = "vllm/v1/worker/gpu/warmup.py"
_GRAPHS = "vllm/v1/worker/gpu/cudagraph_utils.py"
_SAMPLER = "vllm/v1/worker/gpu/sample/sampler.py"
_TRACED = "vllm/tracing/otel.py:175:sync_wrapper:return func(*args, **kwargs)"
_NO_GRAD = "torch/utils/_contextlib.py:124:decorate_context:return func(*args, **kwargs)"
_MODULE = (
    "torch/nn/modules/module.py:1779:_wrapped_call_impl:return self._call_impl(*args, **kwargs)",
    "torch/nn/modules/module.py:1790:_call_impl:return forward_call(*args, **kwargs)",
)
_FORWARD = (
    *_MODULE,
    "vllm/model_executor/models/minimax_m2.py:512:forward:hidden_states = self.model(",
    "vllm/compilation/decorators.py:611:__call__:return self.forward(*args, **kwargs)",
    "vllm/model_executor/models/minimax_m2.py:362:forward:hidden_states, residual = layer(",
    *_MODULE,
)
_EXECUTE = (_NO_GRAD, f"{_RUNNER}:2044:execute_model:model_output = self.model(**model_inputs)")
_DUMMY_RUN = (_NO_GRAD, f"{_RUNNER}:899:_dummy_run:self.execute_model(", *_EXECUTE, *_FORWARD)

INIT_DEVICE = (
    "vllm/v1/worker/worker_base.py:351:init_device:self.worker.init_device()  # type: ignore",
    _TRACED,
    f"{_WORKER}:535:init_device:self.requested_memory = request_memory(",
    "vllm/v1/worker/utils.py:762:request_memory:raise ValueError(",
)
CREATE_WEIGHTS = (
    (
        f"{_WORKER}:594:load_model:"
        "self.model_runner.load_model(load_dummy_weights=load_dummy_weights)"
    ),
    f"{_RUNNER}:396:load_model:self.model = model or model_loader.load_model(",
    _TRACED,
    "vllm/model_executor/model_loader/base_loader.py:53:load_model:model = initialize_model(",
    (
        "vllm/model_executor/model_loader/utils.py:57:initialize_model:"
        "model = model_class(vllm_config=vllm_config, prefix=prefix)"
    ),
    "vllm/model_executor/models/utils.py:741:make_layers:+ [",
    *frames.CREATE_WEIGHTS,
)
_PROFILE = (
    _NO_GRAD,
    (
        f"{_WORKER}:693:determine_available_memory:"
        "self.model_runner.profile_run(randomize_inputs=self.randomize_dummy_inputs)"
    ),
    _NO_GRAD,
)
PROFILE_FORWARD = (
    *_PROFILE,
    f"{_RUNNER}:1003:profile_run:hidden_states, sample_hidden_states = self._dummy_run(",
    *_DUMMY_RUN,
)
PROFILE_SAMPLER = (
    *_PROFILE,
    f"{_RUNNER}:1014:profile_run:self._dummy_sampler_run(sample_hidden_states)",
    _NO_GRAD,
    f"{_RUNNER}:983:_dummy_sampler_run:self.sampler(logits, dummy_input_batch)",
)
PROFILE_LOGITS = (
    *PROFILE_SAMPLER[:-1],
    f"{_RUNNER}:974:_dummy_sampler_run:logits = self.model.compute_logits(hidden_states)",
)
SAMPLER_SORT = (
    f"{_SAMPLER}:154:__call__:sampled, processed_logits = self.sample(",
    f"{_SAMPLER}:290:sample:processed_logits = self.apply_sampling_params(",
    f"{_SAMPLER}:274:apply_sampling_params:return self.sampling_states.apply_top_k_top_p(",
    (
        "vllm/v1/worker/gpu/sample/states.py:118:apply_top_k_top_p:"
        "return apply_top_k_top_p(logits, top_k, top_p)"
    ),
    (
        "vllm/v1/sample/ops/topk_topp_sampler.py:494:apply_top_k_top_p_pytorch:"
        "logits_sort, logits_idx = logits.sort(dim=-1, descending=False)"
    ),
)
ALLOCATE_KV = (
    (
        "vllm/v1/worker/worker_base.py:344:initialize_from_config:"
        "self.worker.initialize_from_config(kv_cache_config)  # type: ignore"
    ),
    _TRACED,
    f"{_WORKER}:894:initialize_from_config:self.model_runner.initialize_kv_cache(",
    f"{_RUNNER}:775:initialize_kv_cache:kv_caches_dict = init_kv_cache(",
    "vllm/v1/worker/gpu/attn_utils.py:420:init_kv_cache:kv_caches = allocate_kv_cache(",
    (
        "vllm/v1/worker/utils.py:596:allocate_kv_cache:"
        "buf = torch.zeros(buf_size, dtype=torch.int8, device=device)"
    ),
)
KERNELS = (
    f"{_WORKER}:950:compile_or_warm_up_model:kernel_warmup(self)",
    (
        "vllm/model_executor/warmup/kernel_warmup.py:268:kernel_warmup:"
        "flashinfer_autotune(worker.model_runner)"
    ),
)
_WARM_UP = (
    f"{_WORKER}:955:compile_or_warm_up_model:warmup_kernels(",
    _NO_GRAD,
    (
        f"{_WARMUP}:240:warmup_kernels:"
        "_warmup_kernels(model_runner, worker_execute_model, worker_sample_tokens)"
    ),
    f"{_WARMUP}:381:_warmup_kernels:worker_sample_tokens(grammar_output)",
    f"{_WORKER}:1298:sample_tokens:return self.model_runner.sample_tokens(grammar_output)",
    _NO_GRAD,
    f"{_RUNNER}:2137:sample_tokens:sampler_output, num_sampled, num_rejected = self.sample(",
)
WARMUP_SAMPLER = (*_WARM_UP, f"{_RUNNER}:1642:sample:sampler_output = self.sampler(")
WARMUP_LOGITS = (
    *_WARM_UP,
    f"{_RUNNER}:1615:sample:logits = self.model.compute_logits(sample_hidden_states)",
)
CAPTURE = (
    (
        f"{_WORKER}:962:compile_or_warm_up_model:"
        "cuda_graph_memory_bytes = self.model_runner.capture_model()"
    ),
    _NO_GRAD,
    f"{_RUNNER}:1083:capture_model:self.cudagraph_manager.capture(",
    _NO_GRAD,
    f"{_GRAPHS}:768:capture:super().capture(create_forward_fn, progress_bar_desc)",
    _NO_GRAD,
    f"{_GRAPHS}:462:capture:forward_fn(CUDAGraphMode.NONE)",
    f"{_GRAPHS}:745:forward_fn:model_output = model(**model_inputs)",
    *_FORWARD,
)
EXECUTE_MODEL = (
    "vllm/v1/worker/worker_base.py:405:execute_model:return self.worker.execute_model(",
    _NO_GRAD,
    f"{_WORKER}:1328:execute_model:output = self.model_runner.execute_model(",
    *_EXECUTE,
    *_FORWARD,
)
