"""Puts compile caches aside that may be damaged: moved and named, never deleted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

SUFFIX = ".aside-"


def compile_caches(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where an engine with this environment keeps compiled code, of torch and of vLLM itself.

    What vLLM downloads lies beside its own compile cache and is not meant.
    """
    found = []
    if inductor := environment.get("TORCHINDUCTOR_CACHE_DIR"):
        found.append(Path(inductor))
    base = environment.get("XDG_CACHE_HOME")
    if base is None and "HOME" in environment:
        base = f"{environment['HOME']}/.cache"
    if root := environment.get("VLLM_CACHE_ROOT") or (base and f"{base}/vllm"):
        found.append(Path(root) / "torch_compile_cache")
    return tuple(path for path in found if path.is_absolute())


def put_aside(caches: Iterable[Path], mark: str) -> tuple[list[Path], list[str]]:
    """Rename each cache that exists; the new names, and what could not be moved. Blocks."""
    moved, problems = [], []
    for cache in caches:
        aside = cache.with_name(f"{cache.name}{SUFFIX}{mark}")
        try:
            if _rename(cache, aside.name):
                moved.append(aside)
        except OSError as error:
            problems.append(f"cannot move {cache}: {error.strerror}")
    return moved, problems


def _rename(cache: Path, name: str) -> bool:
    """False where there is none. Raises OSError.

    The engine's user may own the directories on the way and we may be root, so none of them may be
    a link: it could lead to anybody's directory of that name.
    """
    try:
        parent = os.open(cache.parent, os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        if Path(f"/proc/self/fd/{parent}").readlink() != cache.parent:
            raise OSError(errno.ELOOP, "a link leads to it; move it by hand")
        os.rename(cache.name, name, src_dir_fd=parent, dst_dir_fd=parent)
    except FileNotFoundError:
        return False
    finally:
        os.close(parent)
    return True
