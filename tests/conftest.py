"""The settings of all tests, and fixtures for several test folders."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import machine
from tests.side_by_side import ByFile, long_first, spread

if TYPE_CHECKING:
    from xdist.remote import Producer  # type: ignore[import-untyped]  # It has no types.

    from tests.results.browser import Reader

# A shell makes background jobs ignore Ctrl-C, and their child processes inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine is sometimes slow, so no test may fail because of the time it takes.
# On CI, Hypothesis would use the same examples each time, even in this profile.
settings.register_profile(
    "search",
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples each time, so that a change never fails by chance. For new examples, run
# `pytest --hypothesis-profile search`.
settings.register_profile("logquake", settings.get_profile("search"), derandomize=True)
settings.load_profile("logquake")

CI = os.environ.get("CI") == "true"
SESSION_OF_CI_S = 3_900
"""The longest session with `CI=true`, in seconds: then it ends and lists its failures. If CI itself
ends the session, there is no list, but each failure was told when it happened."""


@pytest.fixture(scope="module")
def browser() -> Iterator["Reader"]:
    """Return a reader with a real browser, which is started once for each test file.

    Playwright keeps an event loop running in this thread while the browser is open. So tests that
    run an event loop of their own must not start before the browser has ended.
    """
    from tests.results.browser import reader  # noqa: PLC0415 - sessions inside of hubs need none

    machine.require("chromium")
    with reader() as somebody:
        yield somebody


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test that this machine cannot run."""
    machine.require_marked(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failure, unless `tests/machine.py` has left the test out."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        raised = call.excinfo and call.excinfo.value
        if why := machine.wrongly_skipped(raised, report.longrepr):
            report.outcome, report.longrepr = "failed", why
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that selects the second tier of tests."""
    words = "run all tests: also those marked `everything`, which a newcomer can do without"
    parser.addoption("--everything", action="store_true", help=words)
    parser.addoption(
        "--night", action="store_true", help="with --everything: the night's tests too"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run a session of whole folders with several workers, unless the user chose otherwise."""
    option = config.option
    if not all(Path(each).is_dir() for each in config.args):
        # If the user names tests, all of them run, in a worker, too.
        option.everything = option.night = True
    elif hasattr(config, "workerinput") or getattr(option, "logquake", None):
        return  # A worker starts no workers. A suite plays several runs at once by itself.
    elif getattr(option, "numprocesses", 0) is None and option.dist == "no":
        spread(option)
        if CI:
            option.session_timeout = SESSION_OF_CI_S


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> ByFile | None:
    """Return the scheduler that distributes our units of work."""
    return ByFile(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Switch garbage collection off during the collection of tests.

    No object can be freed then, and the garbage collection would take a fifth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of the second tier and nightly tests, unless the user names them."""
    for tier in ("everything", "night"):
        if not config.getoption(tier):
            left_out = [item for item in items if item.get_closest_marker(tier)]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in set(left_out)]
    items[:] = long_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole module into a failure. Each test must state its own needs."""
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped as a whole: {report.longrepr}"
    return report


class Told:
    """Prints each failure when it happens, because a session on CI may be ended from outside."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        """Print to the terminal of this reporter."""
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the test, its phase, its duration and the last lines of the failure."""
        if report.failed:
            phase = f"{report.when} failed after {report.duration:.0f} s"
            last = [line for line in report.longreprtext.splitlines() if line.strip()][-4:]
            self._reporter.ensure_newline()
            self._reporter.write_line(f"{report.nodeid}: {phase}")
            for line in last:
                self._reporter.write_line(f"    {line[:300]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """On CI, tell of each failure at once. Workers have no terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if CI and reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Told(reporter), "told")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the reasons for tests that were left out, and the systems that no test plays."""
    named = terminalreporter.config.args_source is pytest.Config.ArgsSource.ARGS
    skipped = terminalreporter.stats.get("skipped", [])
    for sentence in machine.left_out(skipped, whole=not named):
        terminalreporter.write_line(sentence)
