"""Starts processes that can never gain rights by executing a setuid or capable program."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

PR_SET_NO_NEW_PRIVS = 38
"""prctl(2), linux/prctl.h."""

Result = TypeVar("Result")


def without_new_privileges(start: Callable[[], Result]) -> Result:
    """The result of ``start``, whose children have no_new_privs set. Raises OSError.

    The flag belongs to a thread, which can never take it back, and children inherit it from the
    thread that forks them. So a thread of its own forks, and ends.
    """

    def work() -> Result:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return start()

    with ThreadPoolExecutor(1, thread_name_prefix="spawn") as thread:
        return thread.submit(work).result()
