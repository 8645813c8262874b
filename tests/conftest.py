"""Options that all suites share."""

from __future__ import annotations

import pytest
from hypothesis import settings

_ALLOWED_MARK = "gpu"

# The same examples in every run: a red run must mean a change. `make test-long` draws new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", derandomize=False, deadline=None)
settings.load_profile("same")
_left_out = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail the run when a test was skipped or expected to fail, unless it is marked gpu",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_left_out] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    is_left_out = report.skipped or hasattr(report, "wasxfail")
    if is_left_out and item.get_closest_marker(_ALLOWED_MARK) is None:
        item.config.stash[_left_out].append(f"{item.nodeid}: {_reason(report)}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    # A module that skips itself never shows its marks, so nothing excuses it.
    if report.skipped:
        collector.config.stash[_left_out].append(f"{collector.nodeid}: {report.longrepr}")
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if (
        session.config.getoption("--no-skips")
        and session.config.stash[_left_out]
        and not exitstatus
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    left_out = config.stash[_left_out]
    if config.getoption("--no-skips") and left_out:
        terminalreporter.section("tests left out, and not marked gpu")
        for line in left_out:
            terminalreporter.line(line)


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
