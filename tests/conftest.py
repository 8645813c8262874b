"""Options that all suites share."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

_ALLOWED_MARK = "gpu"

# The same examples in every run: a red run must mean a change. `make test-long` draws new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", derandomize=False, deadline=None)
settings.load_profile("same")

# A shell's background jobs ignore SIGINT, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail the run when a test was skipped or expected to fail, unless it is marked gpu",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-skips"):
        config.pluginmanager.register(_NoSkips())


class _NoSkips:
    """Judges reports, not items, because with pytest-xdist only reports reach the main process."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (report.skipped or hasattr(report, "wasxfail")) and _ALLOWED_MARK not in report.keywords:
            self.left_out.append(f"{report.nodeid}: {_reason(report)}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A module that skips itself never shows its marks, so nothing excuses it.
        if report.skipped:
            self.left_out.append(f"{report.nodeid}: {report.longrepr}")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.left_out and not exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter) -> None:
        if self.left_out:
            terminalreporter.section("tests left out, and not marked gpu")
            for line in self.left_out:
                terminalreporter.line(line)


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
