"""Turns an instance and its settings into the words and the environment of ``vllm serve``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_warden.core.model import Settings, SettingValue
from vllm_warden.core.plan.option_names import flag_of
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec
from vllm_warden.core.secrets import mask_words

INHERITED_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "XDG_CACHE_HOME", "SSL_CERT_FILE"),
        *("SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "DO_NOT_TRACK"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    }
)
INHERITED_PREFIXES = (
    *("LC_", "CUDA_", "NVIDIA_", "NCCL_", "HF_", "HUGGING_FACE_", "TRANSFORMERS_", "VLLM_"),
    *("TORCH", "PYTORCH_", "TRITON_", "FLASHINFER_", "OMP_", "MKL_", "GLOO_", "UCX_"),
)
"""What an engine may inherit from the daemon. Everything else (NOTIFY_SOCKET, LISTEN_FDS,
credentials, the daemon's own WARDEN_ settings) stays with the daemon."""

_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
SHUTDOWN_TIMEOUT_SINCE = (0, 18)
"""vLLM 0.18 introduced ``--shutdown-timeout``; before, SIGTERM drops the running requests."""


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What the host contributes to a launch.

    ``gpu_indices`` are NVML indices, empty for a CPU engine. ``cache_directory`` persists between
    attempts; ``temporary_directory`` is this attempt's own and short (Unix socket paths end at
    107 bytes, and vLLM adds 37 to it).
    """

    gpu_indices: tuple[int, ...]
    inherited: Mapping[str, str] = field(repr=False)
    temporary_directory: str
    cache_directory: str
    home_directory: str | None = None


def version_of(facts: EngineFacts) -> tuple[int, int] | None:
    """(major, minor) of the engine, None when unknown."""
    found = _VERSION.match(facts.version or "")
    return (int(found[1]), int(found[2])) if found else None


def build_argv(spec: InstanceSpec, settings: Settings, facts: EngineFacts) -> tuple[str, ...]:
    """The whole command line: the command, the model, host and port, the options, the extras."""
    words = [*spec.command, spec.model, "--host", spec.host, "--port", str(spec.port)]
    for name, value in settings.items():
        words.extend(option_words(name, value, facts.flags))
    if "shutdown_timeout" not in settings and drains_itself(spec, settings, facts):
        words.extend(("--shutdown-timeout", str(int(spec.drain_seconds))))
    words.extend(spec.extra_args)
    return tuple(words)


def drains_itself(spec: InstanceSpec, settings: Settings, facts: EngineFacts) -> bool:
    """Whether the engine finishes its requests after a SIGTERM, as its own option tells it.

    Older versions, and those that nobody knows, drop them.
    """
    version = version_of(facts)
    has_option = version is not None and version >= SHUTDOWN_TIMEOUT_SINCE
    return "shutdown_timeout" in settings or (has_option and spec.drain_seconds >= 1)


def option_words(name: str, value: SettingValue, known_flags: frozenset[str]) -> Iterator[str]:
    """The words of one option.

    True is the bare flag. False is ``--no-x`` only where the engine is known to have it, else
    nothing: leaving a switch out is what False means to an engine without the negative form.
    """
    flag = flag_of(name)
    if value is True:
        yield flag
    elif value is False:
        negative = "--no-" + flag.removeprefix("--")
        if negative in known_flags:
            yield negative
    elif isinstance(value, list):
        yield flag
        yield from (_word(item) for item in value)
    else:
        yield flag
        yield _word(value)


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, float):
        return format(value, ".10g")
    return str(value)


def build_environment(spec: InstanceSpec, context: LaunchContext) -> dict[str, str]:
    """The engine's complete environment.

    Order: what may be inherited, our defaults, what the operator wrote, what only we may set.
    """
    inherited = {
        name: value
        for name, value in context.inherited.items()
        if name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES)
    }
    home = {} if context.home_directory is None else {"HOME": context.home_directory}
    defaults = {
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": f"{context.cache_directory}/torchinductor",
        # a start is ended by our stall limit, which sees progress, not by vLLM's fixed 600 s
        "VLLM_ENGINE_READY_TIMEOUT_S": str(int(max(spec.stall_seconds * 6, 3600))),
    }
    ours = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in context.gpu_indices),
        "TMPDIR": context.temporary_directory,
        "NO_COLOR": "1",
    }
    return {
        **defaults,
        **inherited,
        **home,
        **spec.environment,
        **spec.secret_environment,
        **ours,
    }


def printable(argv: Sequence[str]) -> str:
    """The command line as a person would type it, with secrets masked."""
    return " ".join(
        word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\\''") + "'"
        for word in mask_words(argv)
    )
