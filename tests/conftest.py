"""Settings of all tests, and what several folders of tests share."""

from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import machine
from tests.results.browser import Reader, reader

# A shared machine is slow now and then; no test may fail by the clock.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time, so that a change fails by what it does, and not by chance. New ones
# are looked for by `pytest --hypothesis-profile search`.
settings.register_profile("logquake", settings.get_profile("search"), derandomize=True)
settings.load_profile("logquake")


@pytest.fixture(scope="session")
def browser() -> Iterator[Reader]:
    """Return a reader with a real browser, started once for all tests that look at pages."""
    machine.require("chromium")
    with reader() as somebody:
        yield somebody


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what this machine cannot run."""
    machine.require_marked(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no skip hide a test: only `tests/machine.py` leaves tests out."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        raised = call.excinfo and call.excinfo.value
        if why := machine.wrongly_skipped(raised, report.longrepr):
            report.outcome, report.longrepr = "failed", why
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let no skip hide a whole module: what its tests need is for each of them to say."""
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped as a whole: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List why tests were left out, with how many."""
    for sentence in machine.left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(sentence)
