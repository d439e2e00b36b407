"""The pytest plugin for `--logquake nightly.toml`: it plays a suite's entries as test items.

An item has the name of its entry. All items together are one night of the suite. As with `logquake
suite run`, several runs are in progress at once, there is one judge, failures are rerun, and the
results are in the store. An item waits for the verdict of its entry. An unknown verdict makes the
item fail, with the reason of the verdict.

`logquake_pytest` defines the options. That module registers this plugin only in sessions that name
a suite, so other sessions do not import the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import TracebackStyle as _Style

    from harness.suites.pytest_night import PytestNight

NIGHTS: pytest.StashKey[dict[Path, PytestNight]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Collect the suites that the user named; if the user named only suites, nothing else."""
    suites = [str(Path(each).resolve()) for each in config.getoption("--logquake")]
    if not suites:
        return
    if any(getattr(config.option, name, None) for name in ("numprocesses", "tx")):
        raise pytest.UsageError(
            "--logquake already runs several entries at once: remove pytest-xdist's -n"
        )
    for suite in suites:
        if not Path(suite).is_file():
            raise pytest.UsageError(f"--logquake: there is no file {suite}")
    config.stash[NIGHTS] = {}
    asked_for = config.args_source is pytest.Config.ArgsSource.ARGS
    named = [each for each in config.args if each.split("::")[0] not in suites] if asked_for else []
    ours = [each for each in config.args if each not in named] if asked_for else []
    config.args[:] = [*named, *(ours or suites)]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a suite that the user named."""
    if file_path.suffix != ".toml" or NIGHTS not in parent.config.stash:
        return None
    asked_for = {Path(each).resolve() for each in parent.config.getoption("--logquake")}
    if file_path.resolve() not in asked_for:
        return None
    return SuiteFile.from_parent(parent, path=file_path)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Wait for the reruns; after Ctrl-C or with `-x`, end the runs in progress.

    If the night is not valid, the session fails even if no item failed, because the budget may have
    been too small for all items.
    """
    hurry = bool(session.shouldstop or session.shouldfail)
    for night in session.config.stash.get(NIGHTS, {}).values():
        night.close(hurry=hurry or session.exitstatus == pytest.ExitCode.INTERRUPTED)
        if session.exitstatus == pytest.ExitCode.OK and not night.valid:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the new failures, and the paths of the results."""
    for night in config.stash.get(NIGHTS, {}).values():
        terminalreporter.section("logquake")
        for line in night.told():
            terminalreporter.write_line(line)


class SuiteFile(pytest.File):
    """A suite's file, with its entries as test items."""

    def collect(self) -> Iterable[EntryItem]:
        """Yield an item for each entry.

        Raises:
            CollectError: The suite cannot be played.
        """
        from harness.suites.expansion import entries_of  # noqa: PLC0415 - only for --logquake
        from harness.suites.suite import SuiteError, load_suite  # noqa: PLC0415 - as above

        try:
            names = [each.name for each in entries_of(load_suite(self.path))]
        except SuiteError as refused:
            raise self.CollectError(str(refused)) from refused
        return list(self._items(names))

    def _items(self, names: Iterable[str]) -> Iterator[EntryItem]:
        for name in names:
            yield EntryItem.from_parent(self, name=name)


class EntryItem(pytest.Item):
    """One entry of a suite."""

    def runtest(self) -> None:
        """Wait for the entry's verdict.

        Raises:
            EntryFailed: The verdict is not valid.
        """
        from harness.suites.pytest_night import EntryFailed  # noqa: PLC0415 - as above

        outcome = self._night().outcome(self.name)
        for name, value in outcome.properties:
            self.user_properties.append((name, value))
        if outcome.skipped:
            pytest.skip(outcome.skipped)
        if outcome.failure:
            raise EntryFailed(outcome.failure)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: _Style | None = None
    ) -> str:
        """Return the reason without a stack trace, because the test code did not fail."""
        from harness.suites.pytest_night import EntryFailed  # noqa: PLC0415 - as above

        if isinstance(excinfo.value, EntryFailed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the item's file and its name in reports."""
        # If this equals the end of the item's id, pytest prints each `.` as `::`.
        return self.path, None, f"entry {self.name}"

    def _night(self) -> PytestNight:
        """Return the night of the item's suite. The first item begins this night."""
        from harness.suites.leading import Resumption  # noqa: PLC0415 - as above
        from harness.suites.pytest_night import PytestNight  # noqa: PLC0415 - as above

        nights = self.config.stash[NIGHTS]
        if self.path not in nights:
            names = frozenset(
                each.name for each in self.session.items
                if isinstance(each, EntryItem) and each.path == self.path
            )  # fmt: skip
            mode = Resumption.NEW if self.config.getoption("--logquake-new") else Resumption.AUTO
            store = Path(self.config.getoption("--logquake-store"))
            night = PytestNight(self.path, store, mode, names)
            night.start()
            nights[self.path] = night
        return nights[self.path]
