"""Configurations that cannot work: refused arguments, options, models and layouts."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Prints, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase

_CONFIGURATION = Failure.CONFIGURATION_INVALID
_PARALLEL = Failure.PARALLELISM_INVALID
_OWN = "Says what vLLM refused, not what was meant."

SIGNATURES = (
    Signature(
        id="argument-refused",
        failure=_CONFIGURATION,
        detect=Prints(
            (
                "vllm: error: ",
                "vllm serve: error: ",
                "api_server.py: error: ",
                "vllm [serve]: error: ",
            ),
            re.compile(
                r"error: (?:unrecognized arguments|argument |the following arguments|ambiguous option)"
            ),
            levels=(None,),
        ),
        summary="vLLM's command line parser refused an argument.",
        caution="An option may exist in another version of vLLM.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="max-model-len-too-large",
        failure=_CONFIGURATION,
        detect=Raises("", "is greater than the derived max_model_len"),
        summary="max_model_len is larger than the model's configuration allows.",
        caution="The model's configuration may be wrong; then vLLM needs to be told so.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="swap-space-too-large",
        failure=_CONFIGURATION,
        detect=Raises("ValueError", "Too large swap space"),
        summary="The swap space asked for is larger than the host's memory.",
        caution=_OWN,
        phase=Phase.ARGS,
        until="0.17.1",
    ),
    Signature(
        id="heads-not-divisible",
        failure=_PARALLEL,
        detect=Raises("", "must be divisible by tensor parallel size"),
        summary="The model's attention heads cannot be split over that many GPUs.",
        caution="Other sizes may fail for other reasons.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="weights-not-divisible",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"is not divisible by (?:weight quantization block_n|weight quantization block_k|min_thread_n|min_thread_k|tensor parallel|tp_size)"
                r"|This can be caused by too large tensor parallel size|Consider reducing tensor_parallel_size"
            ),
        ),
        summary="A weight cannot be split over that many GPUs in its quantized form.",
        caution="Another quantization of the same model may split.",
        usual=Phase.LOAD,
    ),
    Signature(
        id="world-larger-than-host",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"world[_ ]size \(\d{1,6}\) is (?:less than than|larger than)|is larger than the number of available GPUs|please ensure that world_size"
            ),
        ),
        summary="The layout needs more GPUs than the engine can see.",
        caution="GPUs may be hidden by CUDA_VISIBLE_DEVICES rather than missing.",
        phase=Phase.INIT_DEVICE,
    ),
    Signature(
        id="rank-without-gpu",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"(?:DP adjusted )?local rank \d{1,5} is out of bounds|Not enough allowed NUMA nodes to bind threads"
            ),
        ),
        summary="A rank has no GPU (or no CPU cores) of its own.",
        caution="GPUs may be hidden by CUDA_VISIBLE_DEVICES rather than missing.",
        phase=Phase.INIT_DEVICE,
    ),
    Signature(
        id="architecture-unknown",
        failure=Failure.MODEL_UNSUPPORTED,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Model architectures \[[^\]]{0,200}\] (?:are not supported|failed to be inspected)|has no vLLM implementation and the Transformers implementation"
                r"|The Transformers implementation of \S{1,100} is not compatible with vLLM"
                r"|Unknown quantization method|Found unknown quantization"
                r"|does not match the quantization method specified in the `quantization` argument"
                r"|is not supported for the current GPU\. Minimum capability"
            ),
        ),
        summary="This vLLM (or this GPU) does not support the model.",
        caution="A newer vLLM may.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="transformers-too-old",
        failure=Failure.DEPENDENCY_MISMATCH,
        detect=Raises("", "Transformers does not recognize this architecture"),
        summary="The installed transformers library does not know the model's type.",
        caution="The model directory may be damaged instead.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="model-not-found",
        failure=Failure.MODEL_UNAVAILABLE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^(?:[\w.]{0,80}(?:LocalEntryNotFoundError|HFValidationError|RepositoryNotFoundError|GatedRepoError|OfflineModeIsEnabled|RevisionNotFoundError)\b)"
                r"|Invalid repository ID or local directory specified|is not a local folder and is not a valid model identifier"
                r"|We couldn't connect to 'https://huggingface.co'|Can't load (?:the )?(?:configuration|tokenizer)|Repo id must (?:be in the form|use alphanumeric)"
            ),
        ),
        summary="The model could not be found or fetched.",
        caution="A missing directory is taken for a name on a model hub, so the text may speak of one.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="weights-not-found",
        failure=Failure.MODEL_UNAVAILABLE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Cannot find any model weights with|Error while deserializing header|Following weights were not initialized from checkpoint"
            ),
        ),
        summary="The model directory holds no (complete) weights that vLLM can read.",
        caution="A download may have been cut off.",
        phase=Phase.LOAD,
    ),
    Signature(
        id="port-in-use",
        failure=Failure.PORT_IN_USE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Errno 98\] Address already in use|ZMQError: Address already in use|EADDRINUSE"
            ),
        ),
        summary="The port is held by another process.",
        caution="The holder may be an earlier engine that has not let go yet.",
    ),
    Signature(
        id="port-in-use-uvicorn",
        failure=Failure.PORT_IN_USE,
        detect=Prints(
            ("[Errno 98] error while attempting to bind on address",), levels=("ERROR", None)
        ),
        summary="The port is held by another process.",
        caution="The HTTP server's own words: it binds once the engine is up, vLLM itself before.",
        phase=Phase.SERVING,
    ),
    Signature(
        id="combination-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "",
            "",
            re.compile(
                r"must be greater than or equal to max_num_seqs|is smaller than max_model_len|--enable-auto-tool-choice requires|invalid (?:tool call|reasoning) parser"
                r"|Hybrid KV cache manager is disabled but|Model Runner V[12] does not (?:yet )?support|is greater than max_lora_rank"
            ),
        ),
        summary="vLLM refused a combination of options.",
        caution=_OWN,
    ),
)

LAST = (
    Signature(
        id="options-refused",
        failure=_CONFIGURATION,
        detect=Raises(
            "ValidationError",
            "validation error",
            re.compile(r"validation errors? for (?:\w{0,60}Config|\w{0,60}Args)\b"),
        ),
        summary="vLLM refused a value or a combination of values of its configuration.",
        caution=_OWN,
        weight=Weight.ROOT,
        phase=Phase.ARGS,
    ),
)
