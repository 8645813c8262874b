"""Options that vLLM or its libraries refuse, each by its mechanism."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Phase

_CONFIGURATION = Failure.CONFIGURATION_INVALID
_OWN = "Says what vLLM refused, not what was meant."

SIGNATURES = (
    Signature(
        id="model-runner-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "", "", re.compile(r"[Mm]odel [Rr]unner [Vv][12] does not (?:yet )?support: ")
        ),
        summary="The model runner that was asked for cannot do what other options ask for.",
        caution="The warning that ends in 'using the V1 model runner instead' is no failure.",
        phase=Phase.ARGS,
        since="0.22.0",
    ),
    Signature(
        id="expandable-segments-refused",
        failure=_CONFIGURATION,
        detect=Raises("", "Expandable segments are not compatible with memory pool"),
        summary="Sleep mode's memory pool does not work with PyTorch's expandable segments.",
        caution="The setting is an environment variable (PYTORCH_CUDA_ALLOC_CONF), not an option.",
        until="0.20.0",
    ),
    Signature(
        id="no-attention-backend",
        failure=_CONFIGURATION,
        detect=Raises(
            "",
            "",
            re.compile(
                r"No valid (?:MLA )?(?:attention|prefill) backend|is not valid for (?:this|the) configuration\.? ?Reason"
                r"|not valid for this configuration|Invalid attention backend|[Aa]ttention backend [^\n]{1,60} (?:is not supported|has been removed|does not support)"
                r"|[Hh]ead size \d{1,5} is not supported by|Unsupported (?:kv|KV)[ _]cache[ _](?:d?type)|kv_cache_dtype[^\n]{0,60} (?:is not supported|not supported)"
            ),
        ),
        summary="No attention backend takes this combination of type, head size and cache type.",
        caution="May be the model's own shape on this GPU rather than an option.",
    ),
    Signature(
        id="remote-code-not-allowed",
        failure=_CONFIGURATION,
        detect=Raises(
            "",
            "",
            re.compile(
                r"contains custom code which must be executed|pass the (?:argument|option) `?(?:--)?trust[_-]remote[_-]code|requires you to execute the configuration file"
            ),
        ),
        summary="The model brings code of its own, and running it was not allowed.",
        caution="Allowing it runs the model publisher's code.",
    ),
    Signature(
        id="environment-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Invalid value '[^'\n]{0,80}' for VLLM_\w{2,60}|Invalid (?:value|type) for VLLM_\w{2,60}"
            ),
        ),
        summary="An environment variable of vLLM has a value that it does not know.",
        caution=_OWN,
    ),
    Signature(
        id="gpu-names-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "ValueError", "invalid literal for int()", re.compile(r"with base 10: '(?:GPU|MIG)-")
        ),
        summary="CUDA_VISIBLE_DEVICES holds names of GPUs where vLLM reads numbers.",
        caution="Other tools accept the same names.",
    ),
    Signature(
        id="forked-after-cuda",
        failure=_CONFIGURATION,
        detect=Raises("RuntimeError", "Cannot re-initialize CUDA in forked subprocess"),
        summary="A worker was forked from a process that had used the GPU already.",
        caution="A plugin or a wrapper around vLLM may have touched the GPU first.",
    ),
    Signature(
        id="address-refused",
        failure=_CONFIGURATION,
        detect=RaisedUnder(
            ("PermissionError", "OSError", "gaierror"),
            functions=frozenset({"create_server_socket", "setup_server", "bind", "create_server"}),
            pattern=re.compile(
                r"Permission denied|Cannot assign requested address|not known|Invalid argument"
            ),
        ),
        summary="The host or port that was asked for cannot be listened on.",
        caution="A port below 1024 needs a right that engines do not have.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="parser-not-registered",
        failure=_CONFIGURATION,
        detect=Raises("", "which has not been registered"),
        summary="The parser for tool calls or reasoning that was asked for does not exist.",
        caution="A plugin that brings it may not have been loaded.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="chat-template-refused",
        failure=_CONFIGURATION,
        detect=Raises("", "The supplied chat template"),
        summary="The chat template cannot be read.",
        caution=_OWN,
        phase=Phase.ARGS,
    ),
    Signature(
        id="adapter-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "",
            "",
            re.compile(
                r"does not support LoRA|LoRA is not supported|No adapter found for|is greater than max_lora_rank|exceeds? max_lora_rank"
                r"|vLLM (?:does not yet|only) supports? [^\n]{0,40}(?:DoRA|modules_to_save|LoRA)|Loading lora [^\n]{0,200} failed"
            ),
        ),
        summary="The LoRA adapter, or LoRA with this model, was refused.",
        caution=_OWN,
    ),
    Signature(
        id="speculation-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "",
            "",
            re.compile(
                r"num_speculative_tokens|[Ss]peculative (?:decoding|model|method)[^\n]{0,120}(?:not supported|must|requires|Unsupported|only support)"
                r"|Unsupported speculative method|Draft model vocab_size"
            ),
        ),
        summary="The options for speculative decoding do not fit together or to the model.",
        caution=_OWN,
    ),
)

LAST = (
    Signature(
        id="configuration-refused",
        failure=_CONFIGURATION,
        detect=RaisedUnder(
            ("ValueError", "NotImplementedError", "TypeError", "AssertionError", "KeyError"),
            functions=frozenset(
                {
                    "create_engine_config",
                    "create_model_config",
                    "create_speculative_config",
                    "create_load_config",
                    "validate_parsed_serve_args",
                    "from_engine_args",
                    "from_cli_args",
                    "get_vllm_config",
                    "verify_and_update_config",
                    "check_and_update_config",
                    "try_verify_and_update_config",
                    "_verify_args",
                    "verify_with_parallel_config",
                }
            ),
            phases=frozenset({Phase.ARGS}),
        ),
        summary="vLLM refused its configuration while it put it together.",
        caution="Read from where it was raised; the message says what was refused. " + _OWN,
        phase=Phase.ARGS,
        likely=True,
    ),
)
