"""Imports systemd-python, the optional dependency of the journal backend."""

from __future__ import annotations

from types import ModuleType

INSTALL_HINT = (
    "install it with `apt-get install python3-systemd` (or libsystemd-dev and the extra "
    'vllm-warden[journal]), or set log_backend = "file"'
)


class JournalUnavailable(OSError):  # noqa: N818
    """The journal cannot be used; the text says why and what to do."""


def journal_module() -> ModuleType:
    """``systemd.journal``. Raises JournalUnavailable where systemd-python is not installed."""
    try:
        from systemd import journal  # noqa: PLC0415
    except ImportError as error:
        raise JournalUnavailable(
            f"cannot use the journal: systemd-python is not importable ({error}); {INSTALL_HINT}"
        ) from error
    if not hasattr(journal, "Reader"):  # another, dead package has the same import name
        raise JournalUnavailable(
            f"cannot use the journal: the installed `systemd` is not systemd-python; {INSTALL_HINT}"
        )
    module: ModuleType = journal
    return module
