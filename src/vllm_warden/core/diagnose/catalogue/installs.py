"""Installations whose parts do not fit together."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Phase

_MISMATCH = Failure.DEPENDENCY_MISMATCH
_START = frozenset(Phase) - {Phase.SERVING, Phase.SHUTDOWN}
_WHICH = "Says what is missing, not which package to change."

SIGNATURES = (
    Signature(
        id="driver-too-old",
        failure=_MISMATCH,
        detect=Raises(
            "",
            "",
            re.compile(
                r"The NVIDIA driver on your system is too old|CUDA driver version is insufficient|forward compatibility was attempted"
                r"|cudaErrorInsufficientDriver|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
            ),
        ),
        summary="The GPU's driver is older than what PyTorch was built for.",
        caution="Another build of PyTorch may work with the same driver.",
    ),
    Signature(
        id="module-missing",
        failure=_MISMATCH,
        detect=RaisedUnder(
            ("ModuleNotFoundError", "ImportError", "PackageNotFoundError"), phases=_START
        ),
        summary="A Python module, or a name in one, that the engine needs is missing.",
        caution=_WHICH,
    ),
    Signature(
        id="module-missing-early",
        failure=_MISMATCH,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^(?:ModuleNotFoundError: No module named '|ImportError: cannot import name '|(?:importlib\.metadata\.)?PackageNotFoundError: )"
            ),
        ),
        summary="A Python module, or a name in one, that the engine needs is missing.",
        caution=_WHICH,
        phase=Phase.ARGS,
    ),
    Signature(
        id="operator-missing",
        failure=_MISMATCH,
        detect=Raises(
            "",
            "",
            re.compile(
                r"'_OpNamespace' '\w{1,40}' object has no attribute|Could not run '_\w{1,40}::|operator \S{1,60} does not exist"
                r"|Torch not compiled with CUDA enabled|Failed to import from vllm\._|No such operator |has no registered implementation"
                r"|module '(?:torch|transformers|flashinfer|vllm|triton|numpy)[\w.]{0,80}' has no attribute"
            ),
        ),
        summary="vLLM's compiled part lacks an operation that its Python part calls.",
        caution="Two versions may be installed over each other, or the build be for another device.",
    ),
    Signature(
        id="binary-incompatible",
        failure=_MISMATCH,
        detect=Raises(
            "",
            "",
            re.compile(
                r"may indicate binary incompatibility|compiled using NumPy 1\.x|Numpy is not available|numpy\.core\.multiarray failed to import"
                r"|GLIBCXX_|CXXABI_|incompatible function arguments\b|requires Python [<>=!~]"
            ),
        ),
        summary="A compiled package was built for another version of what it uses.",
        caution=_WHICH,
    ),
    Signature(
        id="library-too-old",
        failure=_MISMATCH,
        detect=Raises(
            "",
            "",
            re.compile(
                r"is required for a normal functioning of this module, but found|[Pp]lease (?:upgrade|update|install)[^\n]{0,60}(?:transformers|torch|flashinfer|vllm|tokenizers|mistral)"
                r"|requires? transformers ?[<>=]|'\w{1,60}Config' object has no attribute|requires the following packages that were not found|object has no attribute 'all_special_tokens_extended'"
                r"|flashinfer[^\n]{0,80}version[^\n]{0,40}(?:does not match|mismatch)|is not installed\. Please install|Please install \w{2,40}|pip install \S{2,80}"
            ),
        ),
        summary="An installed library is too old, too new or missing.",
        caution=_WHICH,
    ),
)
