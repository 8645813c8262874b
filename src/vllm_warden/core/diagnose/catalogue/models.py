"""Models that cannot be fetched, read, or run by this vLLM on this GPU."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase

_UNAVAILABLE = Failure.MODEL_UNAVAILABLE
_UNSUPPORTED = Failure.MODEL_UNSUPPORTED
_FETCHING = frozenset({Phase.ARGS, Phase.DOWNLOAD, Phase.INIT_DEVICE, Phase.LOAD})
_NEWER = "A newer vLLM, or another checkpoint of the same model, may work."

SIGNATURES = (
    Signature(
        id="model-not-allowed",
        failure=_UNAVAILABLE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"GatedRepoError|gated repo|40[13] Client Error|Access to model [^\n]{1,200} is restricted"
                r"|Invalid (?:username or password|credentials in Authorization header)|Invalid user token"
            ),
        ),
        summary="The model hub refuses access to the model.",
        caution="Hubs answer the same for a name that does not exist.",
    ),
    Signature(
        id="model-file-missing",
        failure=_UNAVAILABLE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"404 Client Error|^(?:[\w.]{0,80}\.)?(?:Remote|Local)?EntryNotFoundError|RevisionNotFoundError"
                r"|does not appear to have (?:a file named|files named)|(?:No such file or directory|Permission denied): ['\"][^'\"\n]{1,300}\.(?:json|safetensors|bin|pt|gguf|model|txt)['\"]"
                r"|No model weights found|Could not find [^\n]{0,60}\.safetensors|not found in path|file \S{1,200}\.gguf (?:not found|does not exist)"
            ),
        ),
        summary="A file of the model does not exist.",
        caution="A download may have been cut off, or the directory be another one.",
    ),
    Signature(
        id="download-failed",
        failure=_UNAVAILABLE,
        detect=RaisedUnder(
            (
                "ConnectionError",
                "ConnectError",
                "ConnectTimeout",
                "ConnectTimeoutError",
                "ReadTimeout",
                "ReadTimeoutError",
                "ReadError",
                "RemoteProtocolError",
                "ProxyError",
                "SSLError",
                "ChunkedEncodingError",
                "ProtocolError",
                "IncompleteRead",
                "MaxRetryError",
                "NameResolutionError",
                "HTTPError",
                "HTTPStatusError",
                "HfHubHTTPError",
                "LocalEntryNotFoundError",
                "OSError",
                "RuntimeError",
            ),
            phases=_FETCHING,
            pattern=re.compile(
                r"^(?:requests|urllib3|httpx|httpcore|http\.client|aiohttp|huggingface_hub|modelscope)\.[\w.]{1,80}: (?![^\n]{0,200}\b40[0-9] Client Error)"
                r"|HTTPSConnectionPool|\b50[0-9] Server Error|\b429 Client Error|Consistency check failed"
                r"|CAS service error|Data processing error: |IncompleteRead"
            ),
        ),
        summary="Fetching the model's files broke off.",
        caution="The network, a proxy or the hub may be at fault; the model itself need not be.",
        passing=True,
    ),
    Signature(
        id="disk-full",
        failure=_UNAVAILABLE,
        detect=RaisedUnder(
            (),
            phases=_FETCHING,
            pattern=re.compile(r"No space left on device(?![^\n]{0,200}/dev/shm)"),
        ),
        summary="The disk is full where the model's files belong.",
        caution="Caches of compiled code fill the same disk.",
    ),
    Signature(
        id="model-config-unreadable",
        failure=_UNAVAILABLE,
        detect=Raises("", "Expecting value: line 1 column 1 (char 0)"),
        summary="A file that describes the model is empty or no JSON.",
        caution="A hub or a proxy may have answered with a page of its own.",
        phase=Phase.ARGS,
    ),
    Signature(
        id="storage-failed",
        failure=_UNAVAILABLE,
        detect=RaisedUnder(
            ("OSError", "SafetensorError", "RuntimeError"),
            phases=_FETCHING,
            pattern=re.compile(
                r"Input/output error|Stale file handle|Transport endpoint is not connected"
                r"|\[Errno (?:5|107|116|121)\]"
            ),
        ),
        summary="The file system that holds the model failed.",
        caution="A network file system that is just coming back looks the same.",
        passing=True,
    ),
    Signature(
        id="weights-damaged",
        failure=_UNAVAILABLE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^(?:[\w.]{0,40}\.)?SafetensorError\b|HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|PytorchStreamReader failed"
                r"|UnpicklingError|unexpected EOF, expected \d|invalid load key"
            ),
        ),
        summary="A weight file is damaged or incomplete.",
        caution="A pointer file of Git LFS in place of the weights looks the same.",
        phase=Phase.LOAD,
    ),
    Signature(
        id="type-unsupported-by-gpu",
        failure=_UNSUPPORTED,
        detect=Raises(
            "",
            "",
            re.compile(
                r"is only supported on GPUs with compute capability|(?:FP8|fp8|NVFP4|MXFP4|nvfp4|mxfp4)[^\n]{0,80} (?:is not supported on this|requires (?:SM|sm|compute capability|a GPU))"
                r"|requires (?:compute capability|CUDA compute capability|SM\d{2,3})|fp8e4nv not supported"
            ),
        ),
        summary="The GPU cannot compute in the model's number format.",
        caution="Another dtype or quantization of the same model may run.",
    ),
    Signature(
        id="quantization-not-for-device",
        failure=_UNSUPPORTED,
        detect=Raises(
            "",
            "",
            re.compile(
                r"quantization is (?:currently )?not supported (?:in|on|for)|quantization method [^\n]{1,80} is not supported"
                r"|is not supported for quantization method|Cannot find the config file for"
                r"|No compatible (?:quantization )?scheme|Unsupported (?:weight|activation) (?:strategy|quant)"
            ),
        ),
        summary="This kind of quantization does not run on this device.",
        caution=_NEWER,
    ),
    Signature(
        id="weights-do-not-match",
        failure=_UNSUPPORTED,
        detect=RaisedUnder(
            ("ValueError", "KeyError", "AssertionError", "RuntimeError", "AttributeError"),
            phases=frozenset({Phase.LOAD}),
            pattern=re.compile(
                r"There is no module or parameter named|Attempted to load weight"
                r"|^KeyError: '[^'\n]{0,200}(?:weight|bias|proj|scale|layers|experts|blocks)"
                r"|has no attribute 'weight_loader'|size mismatch for|The size of tensor a"
                r"|exceeds dimension size|Some weights are not initialized"
            ),
        ),
        summary="The checkpoint's tensors are not those that this vLLM's model expects.",
        caution=_NEWER,
    ),
    Signature(
        id="model-type-unknown",
        failure=_UNSUPPORTED,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Unrecognized model in |Should have a `model_type` key|No model architectures are specified"
                r"|Cannot find model module|does not support (?:generate|embed|pooling|the transcription) |is not a multimodal model"
                r"|This model does not support the '?--?(?:runner|task|convert)|Unsupported (?:model|GGUF|architecture)"
            ),
        ),
        summary="The model is of a type, or for a task, that this vLLM does not run.",
        caution=_NEWER,
    ),
    Signature(
        id="tokenizer-unreadable",
        failure=Failure.DEPENDENCY_MISMATCH,
        detect=Raises(
            "",
            "",
            re.compile(
                r"data did not match any variant of untagged enum|Couldn't instantiate the backend tokenizer"
                r"|Tokenizer class \w{1,80} does not exist|Converting from (?:SentencePiece|Tiktoken) failed"
                r"|Error parsing line [^\n]{0,80} in /[^\n]{1,200}tokenizer\.model"
            ),
        ),
        summary="The installed tokenizer library cannot read the model's tokenizer.",
        caution="The tokenizer's file may be damaged instead.",
        weight=Weight.ROOT,
    ),
)
