"""The real daemon, with one wait shortened that no configuration key tells: half an hour."""

from __future__ import annotations

import sys

from vllm_warden.core.plan import gate
from vllm_warden.daemon.main import main

FOREIGN_HOLD_SECONDS = 18.0
"""A neighbour that stays is waited for so long here, instead of 1,800 s."""

if __name__ == "__main__":
    gate.FOREIGN_HOLD_SECONDS = FOREIGN_HOLD_SECONDS
    sys.exit(main())
