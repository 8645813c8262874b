"""Holds a rank's call stacks of vLLM 0.9.2: older functions, no kernel warm-up."""

from __future__ import annotations

from vllm_warden.simulation import frames

_RUNNER = "vllm/v1/worker/gpu_model_runner.py"
_WORKER = "vllm/v1/worker/gpu_worker.py"
_NO_GRAD = "torch/utils/_contextlib.py:116:decorate_context:return func(*args, **kwargs)"
_MODULE = (
    "torch/nn/modules/module.py:1739:_wrapped_call_impl:return self._call_impl(*args, **kwargs)",
    "torch/nn/modules/module.py:1750:_call_impl:return forward_call(*args, **kwargs)",
)
_FORWARD = (
    *_MODULE,
    "vllm/model_executor/models/qwen2_moe.py:531:forward:hidden_states = self.model(input_ids,",
    "vllm/compilation/decorators.py:239:__call__:return self.forward(*args, **kwargs)",
    "vllm/model_executor/models/qwen2_moe.py:374:forward:hidden_states, residual = layer(",
    *_MODULE,
)
_DUMMY_RUN = (_NO_GRAD, f"{_RUNNER}:2057:_dummy_run:outputs = model(", *_FORWARD)
_LOAD = (
    f"{_WORKER}:185:load_model:self.model_runner.load_model()",
    f"{_RUNNER}:1776:load_model:self.model = model_loader.load_model(",
    (
        "vllm/model_executor/model_loader/base_loader.py:38:load_model:"
        "model = initialize_model(vllm_config=vllm_config,"
    ),
    (
        "vllm/model_executor/model_loader/utils.py:64:initialize_model:"
        "return model_class(vllm_config=vllm_config, prefix=prefix)"
    ),
    "vllm/model_executor/models/utils.py:625:make_layers:[PPMissingLayer() for _ in range(",
)

INIT_DEVICE = (
    "vllm/worker/worker_base.py:606:init_device:self.worker.init_device()  # type: ignore",
    f"{_WORKER}:145:init_device:raise ValueError(",
)
CREATE_WEIGHTS = (*_LOAD, *frames.CREATE_WEIGHTS)
_PROFILE = (_NO_GRAD, f"{_WORKER}:210:determine_available_memory:self.model_runner.profile_run()")
PROFILE_FORWARD = (
    *_PROFILE,
    f"{_RUNNER}:2276:profile_run:= self._dummy_run(self.max_num_tokens, is_profile=True)",
    *_DUMMY_RUN,
)
PROFILE_SAMPLER = (
    *_PROFILE,
    f"{_RUNNER}:2279:profile_run:output = self._dummy_sampler_run(last_hidden_states)",
    _NO_GRAD,
)
ALLOCATE_KV = (
    (
        "vllm/worker/worker_base.py:601:initialize_from_config:"
        "self.worker.initialize_from_config(kv_cache_config)  # type: ignore"
    ),
    f"{_WORKER}:250:initialize_from_config:self.model_runner.initialize_kv_cache(kv_cache_config)",
    (
        f"{_RUNNER}:2611:initialize_kv_cache:"
        "kv_caches = self.initialize_kv_cache_tensors(kv_cache_config)"
    ),
    (
        f"{_RUNNER}:2569:initialize_kv_cache_tensors:"
        "kv_cache_raw_tensors = self._allocate_kv_cache_tensors(kv_cache_config)"
    ),
    f"{_RUNNER}:2455:_allocate_kv_cache_tensors:tensor = torch.zeros(kv_cache_tensor.size,",
)
COMPILE = (
    f"{_WORKER}:265:compile_or_warm_up_model:self.model_runner._dummy_run(size)",
    *_DUMMY_RUN,
)
CAPTURE = (
    f"{_WORKER}:267:compile_or_warm_up_model:self.model_runner.capture_model()",
    f"{_RUNNER}:2314:capture_model:self._dummy_run(num_tokens, capture_attn_cudagraph=full_cg,",
    *_DUMMY_RUN,
)
WARMUP_SAMPLER = (
    (
        f"{_WORKER}:287:compile_or_warm_up_model:"
        "self.model_runner._dummy_sampler_run(hidden_states=last_hidden_states)"
    ),
    _NO_GRAD,
)
SAMPLER_RAISES = (f"{_RUNNER}:2124:_dummy_sampler_run:raise RuntimeError(",)
SAMPLER_LOGITS = (
    f"{_RUNNER}:2089:_dummy_sampler_run:logits = self.model.compute_logits(hidden_states, None)",
)
SAMPLER_SORT = (
    f"{_RUNNER}:2120:_dummy_sampler_run:sampler_output = self.sampler(logits=logits,",
    *_MODULE,
    "vllm/v1/sample/sampler.py:54:forward:sampled = self.sample(logits, sampling_metadata)",
    "vllm/v1/sample/sampler.py:124:sample:random_sampled = self.topk_topp_sampler(",
    *_MODULE,
    (
        "vllm/v1/sample/ops/topk_topp_sampler.py:95:forward_native:"
        "logits = apply_top_k_top_p(logits, k, p)"
    ),
    (
        "vllm/v1/sample/ops/topk_topp_sampler.py:194:apply_top_k_top_p:"
        "logits_sort, logits_idx = logits.sort(dim=-1, descending=False)"
    ),
)
EXECUTE_MODEL = (
    _NO_GRAD,
    f"{_WORKER}:293:execute_model:output = self.model_runner.execute_model(scheduler_output,",
    _NO_GRAD,
    f"{_RUNNER}:1352:execute_model:model_output = self.model(",
    *_FORWARD,
)
PLAN_KV = (
    "vllm/v1/engine/core.py:82:__init__:self._initialize_kv_caches(vllm_config)",
    "vllm/v1/engine/core.py:146:_initialize_kv_caches:kv_cache_configs = [",
    "vllm/v1/engine/core.py:147:<listcomp>:get_kv_cache_config(vllm_config,",
    (
        "vllm/v1/core/kv_cache_utils.py:943:get_kv_cache_config:"
        "check_enough_kv_cache_memory(vllm_config, kv_cache_spec, available_memory)"
    ),
    "vllm/v1/core/kv_cache_utils.py:555:check_enough_kv_cache_memory:raise ValueError(",
)
