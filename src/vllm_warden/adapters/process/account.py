"""Looks up the account that an engine runs as."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from vllm_warden.adapters.process.errors import SpawnError


@dataclass(frozen=True, slots=True)
class Account:
    """What setuid needs: user, group, supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def account_for(user: str | None) -> Account | None:
    """None when the engine runs as the daemon's own user, so that nothing has to change.

    Raises SpawnError for an unknown user and for one that we have no right to become.
    """
    if user is None:
        return None
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise SpawnError(
            f"cannot start the engine as user {user}: no such user; create it or change `user`",
            hopeless=True,
        ) from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise SpawnError(
            f"cannot start the engine as user {user}: the daemon is not root; "
            "run it as root or leave out `user`",
            hopeless=True,
        )
    groups = tuple(os.getgrouplist(user, entry.pw_gid))
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, groups=groups)
