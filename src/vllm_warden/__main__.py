"""``python -m vllm_warden``: the command line."""

import sys

from vllm_warden.cli.main import main

sys.exit(main())
