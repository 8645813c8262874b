"""The settings file as pydantic models: one model per TOML table, every key with its meaning.

Units are in the names. ``docs/reference/configuration.md`` and the shipped ``etc/config.toml`` are
checked against these models, so a description here is what the operator reads.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

# Strict: TOML has types, so "8000" for a port is a mistake worth naming, not a spelling of 8000.
_TABLE = ConfigDict(extra="forbid", strict=True, frozen=True)

AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/")]
# sun_path holds 108 bytes with its NUL (unix(7)).
SocketPath = Annotated[str, StringConstraints(pattern=r"^/", max_length=107)]
InstanceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")]
NonEmptyText = Annotated[str, StringConstraints(min_length=1)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
SECONDS_MAX = 1e9
"""Thirty years: as good as never, and a number that clocks and vLLM's own options still hold."""
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, le=SECONDS_MAX, allow_inf_nan=False)]
GpuIndex = Annotated[int, Field(ge=0)]
GpuUuid = Annotated[str, StringConstraints(pattern=r"^GPU-[0-9A-Fa-f-]+$")]
# What an `[instance.NAME.engine]` option may hold; TOML dates have no meaning to the engine.
EngineValue = bool | int | float | str | list[object] | dict[str, object]


class DaemonSettings(BaseModel):
    """Where the daemon lives and how much it does at once."""

    model_config = _TABLE

    socket: SocketPath = Field(
        "/run/vllm-warden/api.sock",
        description="Unix socket of the API. Whoever can connect to it can read.",
    )
    state_directory: AbsolutePath = Field(
        "/var/lib/vllm-warden",
        description="History, learned settings and wanted states. One daemon per directory.",
    )
    log_backend: Literal["journal", "file"] = Field(
        "journal",
        description="Where engine output goes: the systemd journal, or files below "
        "state_directory where there is no journald.",
    )
    max_concurrent_starts: int = Field(
        2,
        ge=1,
        description="How many engines may load at once. Loading reads whole checkpoints; more at "
        "once mostly makes each of them slower.",
    )
    group: NonEmptyText = Field(
        "vllm-warden",
        description="Group that owns the socket (mode 0660), so its members can read.",
    )


class ApiSettings(BaseModel):
    """Who may change things over the socket."""

    model_config = _TABLE

    admins: list[Annotated[int, Field(ge=0)] | NonEmptyText] = Field(
        [],
        description="Uids or user names that may start, stop and change instances, beside root "
        "and the daemon's own user.",
    )


class KnobRange(BaseModel):
    """How far one knob may be moved."""

    model_config = _TABLE

    min: float | NonEmptyText | None = Field(None, description="Never below this.")
    max: float | NonEmptyText | None = Field(None, description="Never above this.")


def _knob_form(value: object) -> str:
    return "range" if isinstance(value, dict | KnobRange) else "switch"


Knob = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[KnobRange, Tag("range")],
    Discriminator(_knob_form),
]
KNOBS = (
    "max_num_seqs",
    "gpu_memory_utilization",
    "max_num_batched_tokens",
    "max_model_len",
    "kv_cache_memory_bytes",
)
"""The engine options that the warden may move, in the order of the file."""


class AdaptSettings(BaseModel):
    """What the warden may change by itself to bring a dead engine back.

    Each knob is false (never moved), true (within the default bounds) or a table with min and max.
    """

    model_config = _TABLE

    mode: Literal["adapt", "restart", "observe"] = Field(
        "adapt",
        description='"adapt" moves knobs; "restart" relaunches unchanged only; "observe" says '
        "what it would do and does nothing.",
    )
    max_num_seqs: Knob = Field(
        default=True,
        description="Sequences in one batch. Default bounds: from max(16, asked / 8) to asked.",
    )
    gpu_memory_utilization: Knob = Field(
        default=True,
        description="Share of each GPU that the engine plans with. Default bounds: from "
        "asked - 0.10 to asked; never above asked unless max says so.",
    )
    max_num_batched_tokens: Knob = Field(
        default=True,
        description="Tokens in one step. Default bounds: at least 2048 and at least max_num_seqs.",
    )
    max_model_len: Knob = Field(
        default=False,
        description="Context length. A promise to clients, so never lowered unless allowed here.",
    )
    kv_cache_memory_bytes: Knob = Field(
        default=True,
        description="Fixed size of the KV cache. Moved only where that lowers the "
        'total. Bounds are bytes, or text as vLLM reads it ("16G").',
    )
    min_concurrency_fraction: Fraction = Field(
        0.25,
        description="A remedy that leaves less than this share of the usable concurrency is "
        "not taken; the instance is held and the price shown.",
    )
    share_with_neighbours: bool = Field(
        default=False,
        description="Lower the utilization to fit beside a process of somebody else on the same "
        "GPU, instead of waiting for it.",
    )


class RestartSettings(BaseModel):
    """How often and how fast a dead engine is relaunched; a spent budget means held."""

    model_config = _TABLE

    startup_failures_max: int = Field(
        5,
        ge=0,
        description="Failed launches and deaths before ready within startup_window_seconds.",
    )
    startup_window_seconds: PositiveSeconds = Field(
        21600, description="The window of startup_failures_max: 6 hours."
    )
    unchanged_repeats_max: int = Field(
        2, ge=0, description="Of those, relaunches with nothing changed."
    )
    crashes_max: int = Field(5, ge=0, description="Deaths after ready within crash_window_seconds.")
    crash_window_seconds: PositiveSeconds = Field(
        3600, description="The window of crashes_max: 1 hour."
    )
    backoff_first_seconds: Seconds = Field(
        5, description="First delay before an unchanged relaunch; doubles each time."
    )
    backoff_max_seconds: Seconds = Field(300, description="The delay never grows beyond this.")
    soak_seconds: Seconds = Field(
        1800,
        description="Serving this long, with soak_requests answered, proves the settings and "
        "refills the budgets.",
    )
    soak_requests: int = Field(
        100, ge=0, description="Requests that must be answered within the soak."
    )
    load_probe: bool = Field(
        default=False,
        description="After the soak's time an idle engine without enough requests is sent one full "
        "batch of short ones, which proves its settings if all are answered. Off by default: no "
        "load comes that nobody asked for, and none that could kill an engine that serves.",
    )


class InstanceSettings(BaseModel):
    """One supervised `vllm serve`."""

    model_config = _TABLE

    model: NonEmptyText = Field(
        description="What to serve: a directory (absolute, or beginning with ./) or a Hugging "
        "Face id."
    )
    gpus: list[GpuIndex | GpuUuid] = Field(
        description="NVML indices or UUIDs. An empty list means a CPU engine: no gate, no GPU "
        "figures."
    )
    port: int = Field(8000, ge=1, le=65535, description="TCP port of the engine's HTTP API.")
    host: NonEmptyText = Field("127.0.0.1", description="Address that the engine listens on.")
    user: NonEmptyText | None = Field(
        None,
        description="User that the engine runs as. Default: `vllm` where a root daemon finds "
        "that user, else the daemon's own.",
    )
    command: list[NonEmptyText] = Field(
        ["vllm", "serve"],
        min_length=1,
        description="How vLLM is started, without the model. May begin with a wrapper "
        "(prlimit, numactl, nice, env).",
    )
    environment: dict[str, str] = Field(
        {},
        description="Added to the engine's environment. Not for secrets: use environment_file.",
    )
    environment_file: AbsolutePath | None = Field(
        None,
        description="File of KEY=VALUE lines with secrets (VLLM_API_KEY, HF_TOKEN), mode 0640 or "
        "stricter. Never shown anywhere.",
    )
    autostart: bool = Field(
        default=True, description="Start with the daemon, unless somebody stopped it before."
    )
    drain_seconds: Seconds = Field(
        30, description="How long a stopping engine may finish the requests it has."
    )
    stall_seconds: PositiveSeconds = Field(
        600, description="Start-up without any progress for this long counts as stalled."
    )
    extra_args: list[str] = Field(
        [], description="Arguments appended to the command line as they are written."
    )
    engine: dict[str, EngineValue] = Field(
        {},
        description="Options of `vllm serve`, with underscores. Unknown ones pass through. true "
        "becomes --x, false --no-x, a list several words, a table one JSON value.",
    )
    adapt: AdaptSettings = Field(
        AdaptSettings(), description="What the warden may change by itself."
    )
    restart: RestartSettings = Field(RestartSettings(), description="Budgets and delays.")


class Configuration(BaseSettings):
    """The whole settings file, with the environment laid over it."""

    model_config = SettingsConfigDict(extra="forbid", strict=True, frozen=True)

    daemon: DaemonSettings = Field(
        DaemonSettings(), description="Where the daemon lives and how much it does at once."
    )
    api: ApiSettings = Field(ApiSettings(), description="Who may change things over the socket.")
    instance: dict[InstanceName, InstanceSettings] = Field(
        {}, description="The supervised engines, by name (a-z, 0-9 and -, at most 32)."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 -- the name is pydantic-settings'
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- load() lays it over
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what load() passes in: it must know which file or variable each value came from."""
        return (init_settings,)
