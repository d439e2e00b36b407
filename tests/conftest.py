"""Settings of all tests, and what several folders of tests share."""

import gc
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

# Where tests are begun in the background a shell has Ctrl-C ignored, in all that they start, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine is slow now and then; no test may fail by the clock.
# On CI, Hypothesis would draw the same examples each time in this one, too.
settings.register_profile(
    "search",
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples each time, so that a change fails by what it does, and not by chance. New ones
# are looked for by `pytest --hypothesis-profile search`.
settings.register_profile("logquake", settings.get_profile("search"), derandomize=True)
settings.load_profile("logquake")


@pytest.fixture(scope="module")
def browser() -> Iterator["Reader"]:
    """Return a reader with a real browser, started once for a file of tests that look at pages.

    Playwright keeps its event loop running in this thread as long as the browser is there, so tests
    that run a loop of their own have to find it ended.
    """
    from tests.results.browser import reader  # noqa: PLC0415 - sessions inside of hubs need none

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that asks for the second tier."""
    words = "run all tests: also those marked `everything`, which a newcomer can do without"
    parser.addoption("--everything", action="store_true", help=words)
    parser.addoption(
        "--night", action="store_true", help="with --everything: the night's tests too"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Have several workers play a session of whole folders, unless the user chose already."""
    option = config.option
    if not all(Path(each).is_dir() for each in config.args):
        # Tests that are named are meant, in a worker, too.
        option.everything = option.night = True
    elif hasattr(config, "workerinput") or getattr(option, "logquake", None):
        return  # A worker starts none; a suite plays several runs at once by itself.
    elif getattr(option, "numprocesses", 0) is None and option.dist == "no":
        spread(option)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> ByFile | None:
    """Hand out our units of work."""
    return ByFile(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: all is kept, and a fifth of the time goes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the second tier, and the night's tests, unless they are asked for, or named."""
    for tier in ("everything", "night"):
        if not config.getoption(tier):
            left_out = [item for item in items if item.get_closest_marker(tier)]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in set(left_out)]
    items[:] = long_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let no skip hide a whole module: what its tests need is for each of them to say."""
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped as a whole: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List why tests were left out, with how many, and what no test plays."""
    named = terminalreporter.config.args_source is pytest.Config.ArgsSource.ARGS
    skipped = terminalreporter.stats.get("skipped", [])
    for sentence in machine.left_out(skipped, whole=not named):
        terminalreporter.write_line(sentence)
