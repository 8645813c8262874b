"""``vllm-wardend``: reads the settings file, runs the daemon, turns refusals into exit codes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import vllm_warden
from vllm_warden.config.errors import ConfigurationInvalid
from vllm_warden.config.load import DEFAULT_PATH
from vllm_warden.config.translate import translate
from vllm_warden.config.world import admin_uids
from vllm_warden.daemon.config_file import open_config_file
from vllm_warden.daemon.refusal import exit_code_of
from vllm_warden.daemon.run import Setup, run
from vllm_warden.daemon.wiring import connect_own_log, keep_files_private

USAGE_EXIT, OK_EXIT = 2, 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon; returns its exit code (docs/reference/cli.md)."""
    options = _parser().parse_args(arguments)
    try:
        config = open_config_file(options.config)
    except ConfigurationInvalid as invalid:
        print(invalid, file=sys.stderr)
        return USAGE_EXIT
    configuration = config.configuration
    keep_files_private()
    connect_own_log()
    uids, unknown = admin_uids(configuration.api.admins)
    for name in unknown:
        print(f"warning: api.admins: there is no user {name}", file=sys.stderr)
    instances = translate(configuration)
    for one in instances:
        if one.warning is not None:
            print(f"warning: instance.{one.spec.name}: {one.warning}", file=sys.stderr)
    setup = Setup(configuration.daemon, instances, admins=uids, config=config, engines_outlive=True)
    return run_to_the_end(setup)


def run_to_the_end(setup: Setup) -> int:
    """Run and return 0, or print one clear line and return the code of the refusal."""
    try:
        asyncio.run(run(setup))
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        print(error, file=sys.stderr)
        return code
    return OK_EXIT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vllm-wardend",
        description="Supervises vLLM: starts engines, finds why they die, relaunches them with "
        "the one change that helps.",
        epilog="example: vllm-wardend --config /etc/vllm-warden/config.toml",
    )
    parser.add_argument(
        "--config", type=Path, default=DEFAULT_PATH, help=f"settings file [{DEFAULT_PATH}]"
    )
    parser.add_argument("--version", action="version", version=vllm_warden.__version__)
    return parser


if __name__ == "__main__":
    sys.exit(main())
