"""Ways to spread a model over GPUs that cannot work."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Phase

_PARALLEL = Failure.PARALLELISM_INVALID
_OTHER = "Other sizes may fail for other reasons."
_HIDDEN = "GPUs may be hidden by CUDA_VISIBLE_DEVICES rather than missing."

SIGNATURES = (
    Signature(
        id="layout-exceeds-host",
        failure=_PARALLEL,
        detect=RaisedUnder(
            (),
            phases=frozenset({Phase.ARGS}),
            pattern=re.compile(
                r"is larger than the number of available GPUs|cannot be larger than the number of available GPUs"
            ),
        ),
        summary="The layout needs more GPUs than the host shows.",
        caution=_HIDDEN,
        phase=Phase.ARGS,
        since="0.11.2",
    ),
    Signature(
        id="layout-exceeds-gpus",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"cannot be larger than the number of available GPUs|must be less than or equal to the number of visible devices"
                r"|--device-ids (?:index|provides|must)|The number of required \w{1,12}s? exceeds the total number of available"
                r"|Cannot provide a placement group|Current node has no \w{1,12} available"
            ),
        ),
        summary="The layout needs more GPUs than the engine was given.",
        caution=_HIDDEN,
    ),
    Signature(
        id="size-not-divisible",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^(?:AssertionError|ValueError): (?:\w{1,40}[ =])?\(?\d{1,9}\)? (?:is not|must be) divisible by \(?\d"
                r"|is not divisible by group_size|not (?:evenly )?divisible by (?:the )?(?:tensor|TP|tp_size|tp\b|world)"
                r"|must be divisible by (?:tp_size|the tensor parallel|tensor_parallel|world_size|tensor model parallel)"
            ),
        ),
        summary="A size of the model cannot be split over that many GPUs.",
        caution=_OTHER,
    ),
    Signature(
        id="no-experts-to-spread",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Number of experts in the model must be greater than 0|enable_expert_parallel must be True"
                r"|EPLB requires|(?<!Async )EPLB is only supported|Expert parallelism load balancing is only supported|num_redundant_experts"
                r"|Non-MoE models do not support external data parallel"
            ),
        ),
        summary="Experts were to be spread, but the model or the layout has none to spread.",
        caution=_OTHER,
    ),
    Signature(
        id="context-parallel-refused",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"greater than total num kv heads|must be divisible by dcp_size|valid DCP sizes are"
                r"|[Dd]ecode[ _]context[ _]parallel(?:ism|_size)?[^\n]{0,120}(?:requires|exceeds|must|not support|only support)"
            ),
        ),
        summary="The context cannot be split over GPUs in that way.",
        caution=_OTHER,
    ),
    Signature(
        id="pipeline-refused",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"[Pp]ipeline parallelism is (?:not supported|only supported)|[Pp]ipeline parallel(?:ism)?[^\n]{0,60} not supported"
                r"|Supported models implement the `SupportsPP`"
            ),
        ),
        summary="The model cannot be cut into pipeline stages.",
        caution=_OTHER,
    ),
    Signature(
        id="data-parallel-refused",
        failure=_PARALLEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Invalid data[- ]parallel (?:configuration|launch options)|data_parallel_(?:rank|size)\w{0,10}[^\n]{0,60} must be"
                r"|Offline data parallel mode is not supported|--data-parallel-size[^\n]{0,80}(?:must|exceeds)|exceed(?:s|ed)? --data-parallel-size"
            ),
        ),
        summary="The data parallel ranks do not add up.",
        caution=_OTHER,
    ),
    Signature(
        id="constructor-refused-split",
        failure=_PARALLEL,
        detect=RaisedUnder(
            ("AssertionError",),
            functions=frozenset({"construct_model"}),
            phases=frozenset({Phase.LOAD}),
            pattern=re.compile(r"^AssertionError$"),
        ),
        summary="A part of the model cannot be split over that many GPUs.",
        caution="Bare: read from where it was raised; a model that is not quite supported does it too.",
        likely=True,
    ),
)
