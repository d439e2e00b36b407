"""Settings of all tests, and what several folders of tests share."""

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

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
    with reader() as somebody:
        yield somebody


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no skip hide a test: root can try whatever there is, and CI is root."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.geteuid() == 0:
        report.outcome = "failed"
        report.longrepr = f"skipped, though root can try it: {report.longrepr}"
    return report
