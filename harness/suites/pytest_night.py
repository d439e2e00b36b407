"""Play a suite's night during a pytest session, in a thread, as `logquake suite run` does."""

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.exit_codes import VALID
from harness.suites.journal import Line
from harness.suites.leading import Lead, Resumption, opened
from harness.suites.night import OVER, Item, NightState, Phase
from harness.suites.reports import causes_until, exit_code
from harness.suites.webhook import post
from results.record.terms import Validity
from results.trust import closed_to_others
from results.wording.inert import inert


class EntryFailed(Exception):  # noqa: N818 - pytest prints the name
    """The verdict of an entry is not valid. The message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an entry.

    Attributes:
        failure: Why the entry is not valid; an empty string if the entry is valid.
        skipped: Why the entry was not played; an empty string if the entry was played.
        properties: The entry's run and seed, for reports.
    """

    failure: str = ""
    skipped: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class PytestNight:
    """The night of a pytest session, and the thread that plays the night.

    Args:
        suite: The suite's file.
        store: The folder of runs.
        mode: Whether a killed night resumes.
        wanted: The names of the entries that pytest has selected.
    """

    suite: Path
    store: Path
    mode: Resumption
    wanted: frozenset[str]
    _open: ExitStack = field(default_factory=ExitStack)
    _lead: Lead | None = None
    _thread: threading.Thread | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _failed: BaseException | None = None
    _over: bool = False

    def start(self) -> None:
        """Open the night, and start the thread that plays the night.

        Raises:
            SuiteError, StoreError: The night cannot be opened.
        """
        night = opened(
            self.suite, self.store, mode=self.mode, only=lambda each: each.name in self.wanted
        )
        self._open.enter_context(closed_to_others())
        self._lead = self._open.enter_context(night)
        self._lead.listeners.append(self._tell)
        self._thread = threading.Thread(target=self._play, name="night", daemon=True)
        self._thread.start()

    def outcome(self, entry: str) -> Outcome:
        """Wait for the result of an entry.

        Raises:
            EntryFailed: The night ended before the entry.
        """
        assert self._lead is not None
        with self._changed:
            while not self._over and self._item(entry).phase not in OVER:
                self._changed.wait(1.0)  # A timeout lets Ctrl-C through.
        if self._failed is not None:
            raise EntryFailed(f"the night ended: {self._failed}") from self._failed
        return outcome_of(self._item(entry))

    def close(self, *, hurry: bool) -> None:
        """Wait for the night's end, and release the suite.

        Args:
            hurry: Whether to end the night early: start no more runs, and end current main phases.
        """
        if self._lead is not None and self._thread is not None:
            if hurry:
                self._lead.conductor.finish()
                self._lead.conductor.finish()
            self._thread.join()
        self._open.close()

    @property
    def valid(self) -> bool:
        """Whether the night reached its end and all its outcomes are valid."""
        if self._lead is None or self._failed is not None:
            return False
        return exit_code(self._lead.conductor.state) == VALID

    def told(self) -> list[str]:
        """Return lines to print when the session ends: the new failures, and the results' paths."""
        if self._lead is None:
            return []
        folder = self._lead.conductor.folder
        causes = causes_until(self.store, self._lead.suite.name, folder)
        lines = [self._lead.wound_up] if self._lead.wound_up else []
        lines += [f"the night ended: {inert(self._failed)}"] if self._failed else []
        if not self.valid:
            lines.append(f"the night as a whole is {self._lead.conductor.state.worst.value}")
        lines.append(f"results: {folder.summary} and {folder.junit}")
        for cause in causes:
            if cause.tonight and cause.valid == Validity.INVALID:
                when = "new tonight" if cause.new else f"seen since {cause.nights[0]}"
                lines.append(
                    f"{when}: {inert(cause.sentence)} ({cause.key}); reruns: {cause.repeats.words}"
                )
        if self._lead.conductor.state.ended and (said := post(folder.state(), causes)):
            lines.append(said)
        return lines

    def _item(self, entry: str) -> Item:
        assert self._lead is not None
        for item in self._lead.conductor.state.planned:
            if item.entry == entry:
                return item
        raise EntryFailed(
            "the resumed night has no such entry; start a new night with --logquake-new"
        )

    def _play(self) -> None:
        assert self._lead is not None
        try:
            self._lead.play()
        except BaseException as failed:  # noqa: BLE001 - raised by `outcome`
            self._failed = failed
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _tell(self, _state: NightState, _line: Line) -> None:
        with self._changed:
            self._changed.notify_all()


def outcome_of(item: Item) -> Outcome:
    """Return the result of an entry's item in a night."""
    properties = [("logquake_seed", str(item.planned.seed))]
    if item.run_id:
        properties.append(("logquake_run", item.run_id))
    if item.outcome is None:
        if item.phase is not Phase.LEFT_OUT:
            return Outcome(
                failure=("the entry has no verdict, because the night was ended before it")
            )
        return Outcome(skipped=item.sentence)
    return Outcome(failure=_failure(item), properties=tuple(properties))


def _failure(item: Item) -> str:
    if item.outcome is Validity.VALID:
        return ""
    lines = [item.outcome.value if item.outcome else ""]
    if item.judged is None:
        lines.append(item.sentence)
    else:
        lines += [item.judged.sentence, item.judged.reason]
        lines.append(f"run {item.run_id}, signature {item.judged.signature}")
    return inert("\n".join(filter(None, lines)), keep="\n")
