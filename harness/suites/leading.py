"""Open a night of a suite: begin a new one, or resume one that was killed."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from harness.suites.conductor import Conductor
from harness.suites.estimates import estimate, refresh
from harness.suites.expansion import Entry, entries_of, plans_of, suite_named
from harness.suites.hunting.families import families_of
from harness.suites.hunting.hunter import Hunter, refuse_unplayable
from harness.suites.hunting.parts import differences, keep
from harness.suites.journal import Begun, CutShort, Dropped, Line, Planned, Reached, Resumed
from harness.suites.night import NightState, Phase
from harness.suites.nights import NightFolder, SuiteLock, nights_of, suite_folder
from harness.suites.ordering import ordered, waited_nights
from harness.suites.playing import heal, note_cut_short
from harness.suites.reports import causes_until, parts_before, write_results
from harness.suites.retention import retire
from harness.suites.slots import slots
from harness.suites.source import Entries, Source
from harness.suites.suite import Suite, SuiteError, dump_suite, load_suite
from harness.suites.webhook import post
from results.export.contents import MANIFEST
from results.index import open_index
from results.index.reading import lasts_s
from results.nights import read_night
from results.record.atomic import StoreError, write_atomically
from results.record.clock import WaitTimeoutError, unix_s, utc_now_text, wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.store import Store, hold_run, is_alive
from results.trust import refuse_unless_own

DEAD_TIMEOUT_S = 60.0
"""How long a run's processes may survive after the night's main process has died."""

_NIGHT = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
"""The names of nights, as `_fresh_folder` gives them."""

Change = Callable[[NightState, Line], None]


class Resumption(StrEnum):
    """Whether an unfinished night resumes."""

    AUTO = "auto"
    RESUME = "resume"
    NEW = "new"


@dataclass(slots=True, kw_only=True)
class Lead:
    """An open night of a suite, ready to be played.

    Attributes:
        suite: The suite as it was when the night began.
        conductor: The object that controls the night.
        store: The folder of runs.
        resumed: Whether this is a resumed night.
        wound_up: If the previous night had to be closed first: the result of the webhook's message
            about it.
    """

    suite: Suite
    conductor: Conductor
    store: Path
    resumed: bool
    wound_up: str = ""
    listeners: list[Change] = field(default_factory=list)

    def play(self) -> NightState:
        """Play the night until its end, or until the user stops it. Then write the results."""
        try:
            self.conductor.lead()
            if self.conductor.state.ended:
                self._retire()
        finally:
            write_results(self.store, self.suite.name, self.conductor.folder)
        return self.conductor.state

    def changed(self, state: NightState, line: Line) -> None:
        """Pass a line of the journal to all listeners."""
        for listener in self.listeners:
            listener(state, line)
        if isinstance(line, Reached):  # A part of a hunt may exceed the size limit.
            self._retire()

    def _retire(self) -> None:
        gone = retire(self.store, self.suite, now_s=unix_s())
        self.conductor.write(*([Dropped(run_ids=tuple(gone))] if gone else []))


@contextmanager
def opened(
    path: Path,
    store: Path,
    *,
    mode: Resumption = Resumption.AUTO,
    only: Callable[[Entry], bool] | None = None,
    before: Sequence[Path] = (),
    changed: Suite | None = None,
) -> Iterator[Lead]:
    """Open a night: resume the last one if it was killed and has budget left, else begin a new one.

    A killed night that does not resume is closed first. Its dead runs are healed, its played runs
    are judged, and the webhook gets a message about that night.

    Args:
        path: `SUITE.toml`.
        store: The folder of runs.
        mode: Whether to resume.
        only: The function that selects the entries of a new night; None means all entries.
        before: For a hunt: the journals of parts that are in other stores.
        changed: The suite, changed by the user's options. None means the suite in the file.

    Raises:
        SuiteError: The suite cannot be played, or the hunt's unfinished part has other values.
        StoreError: The store cannot be used, another process leads the suite, or there is no night
            to resume.
    """
    suite = changed or suite_named(path)
    text = dump_suite(suite) if changed else path.read_text(encoding="utf-8")
    entries = _entries(suite)
    Store(store).check_usable()
    lock = SuiteLock(store, suite.name)
    try:
        _remove_unbegun(store, suite.name)
        last = _unfinished(store, suite.name)
        if mode is Resumption.RESUME and last is None:
            raise StoreError(f"{store} has no unfinished night of {suite.name}")
        if last is not None and _goes_on(last.state(), mode):
            _refuse_another(last, suite)
            yield _resumed(last, store, mode, before)
            return
        said = _wind_up(last, store, suite) if last is not None else ""
        if suite.hunt is not None:
            refuse_unplayable(suite)
        wanted = [each for each in entries if only is None or only(each)]
        lead = _new(suite, wanted, text, store, before=before)
        lead.wound_up = said
        yield lead
    finally:
        lock.release()


def _remove_unbegun(store: Path, suite: str) -> None:
    """Delete the nights without a journal. Each such night was killed before its first line.

    Folders with other names stay, because a user made them.
    """
    for root in suite_folder(store, suite).iterdir():
        is_night = root.is_dir() and _NIGHT.fullmatch(root.name)
        if is_night and not NightFolder(root=root).journal.exists():
            shutil.rmtree(root)


def _unfinished(store: Path, suite: str) -> NightFolder | None:
    """Return the last night if it is unfinished. If it never began, delete it."""
    for folder in reversed(nights_of(store, suite)):
        state = folder.state()
        if state.night:
            return None if state.ended else folder
        if not any(item.run_id or item.cut_short for item in state.items.values()):
            shutil.rmtree(folder.root)
    return None


def _goes_on(state: NightState, mode: Resumption) -> bool:
    return mode is Resumption.RESUME or (mode is Resumption.AUTO and unix_s() < state.deadline)


def _refuse_another(folder: NightFolder, asked: Suite) -> None:
    """Raise an error if the values of an unfinished part of a hunt have changed."""
    if asked.hunt is None:
        return
    if others := differences(load_suite(folder.suite), asked):
        raise SuiteError(
            f"the part {folder.night} of {asked.name} is unfinished and began with other values:"
            f" {'; '.join(others)}. Continue with its values ({folder.suite}), start another part"
            " with --new, or start another hunt with --name"
        )


def _new(
    suite: Suite, entries: list[Entry], text: str, store: Path, *, before: Sequence[Path]
) -> Lead:
    past = [folder.state() for folder in nights_of(store, suite.name)]
    folder = _fresh_folder(store, suite.name)
    write_atomically(folder.suite, text)
    keep(before, folder)
    deadline = unix_s() + suite.budget
    lead = _lead(suite, entries, store, folder, deadline=deadline)
    played = [[item.entry for item in night.having(Phase.JUDGED)] for night in past]
    waited = waited_nights(entries, played)
    turn = ordered(entries, waited=waited, night=folder.night)
    # `Begun` comes last. If a crash cuts the list of plans, the night does not count.
    lead.conductor.write(
        *_planned(turn, lead, night=folder.night),
        Begun(
            suite=suite.name,
            night=folder.night,
            budget_s=suite.budget,
            guided=suite.hunt.guided if suite.hunt else None,
        ),
    )
    return lead


def _planned(entries: list[Entry], lead: Lead, *, night: str) -> list[Planned]:
    """Return the journal's lines that plan the entries of a night, in the order of the entries."""
    lines = []
    with open_index(Store(lead.store)) as index:
        refresh(index)
        for number, entry in enumerate(entries, 1):
            seed = entry.seed_of(night)
            plan = entry.plan(seed)
            at_once = lead.conductor.slots.runs
            takes = estimate(entry, plan, index, suite=lead.suite.name, at_once=at_once)
            lines.append(
                Planned(
                    item=number,
                    entry=entry.name,
                    seed=seed,
                    lasts_s=lasts_s(plan),
                    takes_s=takes.takes_s,
                    measured=takes.measured,
                )
            )
    return lines


def _wind_up(folder: NightFolder, store: Path, suite: Suite) -> str:
    """Close a night that does not resume: judge its runs, call the webhook, and return its result.

    Args:
        folder: The night's folder.
        store: The folder of runs.
        suite: The current suite. It is used if the night's own suite cannot be read.
    """
    try:
        begun = load_suite(folder.suite)
        entries = _entries(begun)
    except SuiteError:
        begun, entries = suite, _entries(suite)
    lead = _lead(begun, entries, store, folder, deadline=0, resumed=True)
    _go_on(lead)
    state = lead.play()
    said = post(state, causes_until(store, begun.name, folder)) if state.ended else ""
    return said and f"the unfinished night {folder.night}: {said}"


def _resumed(folder: NightFolder, store: Path, mode: Resumption, before: Sequence[Path]) -> Lead:
    """Open an unfinished night."""
    suite = load_suite(folder.suite)
    state = folder.state()
    left_s = suite.budget - state.active_s
    deadline = unix_s() + left_s if mode is Resumption.RESUME else state.deadline
    keep(before, folder)
    lead = _lead(suite, _entries(suite), store, folder, deadline=deadline, resumed=True)
    _go_on(lead)
    return lead


def _go_on(lead: Lead) -> None:
    store = lead.store
    lead.conductor.write(Resumed())
    lead.conductor.write(*_cut_short(lead.conductor.state, store))


def _lead(
    suite: Suite,
    entries: list[Entry],
    store: Path,
    folder: NightFolder,
    *,
    deadline: float,
    resumed: bool = False,
) -> Lead:
    if not entries and suite.hunt is None:
        raise SuiteError(f"no entry of {suite.name} was selected")
    plans = [each.plan(0) for each in entries] or plans_of(suite).values()
    conductor = Conductor(
        suite=suite,
        source=_source(suite, entries, store, folder),
        store=store,
        folder=folder,
        slots=slots(suite.parallel, plans),
        deadline=deadline,
    )
    lead = Lead(suite=suite, conductor=conductor, store=store, resumed=resumed)
    conductor.changed = lead.changed
    return lead


def _entries(suite: Suite) -> list[Entry]:
    """Return the entries of a suite; a hunt has none."""
    return [] if suite.hunt else list(entries_of(suite))


def _source(suite: Suite, entries: list[Entry], store: Path, folder: NightFolder) -> Source:
    if suite.hunt is None:
        return Entries({each.name: each for each in entries}, suite.repeat, store)
    before = parts_before(store, folder, folder.state())
    return Hunter(suite, partial(families_of, suite), before)


def _cut_short(state: NightState, store: Path) -> list[CutShort]:
    """Heal the runs that died with their night; they will be played again."""
    started = {item.run_id: item.number for item in state.having(Phase.UNDER_WAY)}
    lost = {**started, **_unknown_to(state, store)}
    return [_cut(store, run_id, item=number) for run_id, number in lost.items()]


def _cut(store: Path, run_id: str, *, item: int) -> CutShort:
    paths = RunPaths(store / run_id)
    if not paths.root.is_dir():
        return CutShort(item=item, run_id=run_id, healed=("its folder was deleted",))
    try:
        wait_until(lambda: not is_alive(paths), timeout_s=DEAD_TIMEOUT_S, what="its end")
    except WaitTimeoutError as alive:
        raise SuiteError(
            f"{run_id} is still running, although its night's process has died: end it, or type:"
            " logquake heal"
        ) from alive
    try:
        refuse_unless_own(paths)
        held = hold_run(paths)
    except StoreError as refused:
        return CutShort(item=item, run_id=run_id, left=(str(refused),))
    with held:
        healed = heal(store, run_id)
        at_ns = max((each.at_ns for each in load_milestones(paths.milestones)), default=0)
        note_cut_short(paths, at_ns=at_ns)
    return CutShort(item=item, run_id=run_id, healed=healed.done, left=healed.failed)


def _unknown_to(state: NightState, store: Path) -> dict[str, int]:
    """Return the runs that died with the night before the journal had their ids."""
    known = {run for item in state.items.values() for run in (item.run_id, *item.cut_short)}
    found: dict[str, int] = {}
    for paths in Store(store).runs():
        if paths.run_id in known or (paths.root / MANIFEST).exists():
            continue
        try:
            night = read_night(paths.night)
        except StoreError:
            continue  # Its night is unknown; this night goes on.
        if night is None or (night.suite, night.night) != (state.suite, state.night):
            continue
        waiting = [
            each.number
            for each in state.having(Phase.WAITING)
            if (each.entry, each.planned.why) == (night.entry, night.why)
        ]
        if waiting:
            found[paths.run_id] = waiting[0]
    return found


def _fresh_folder(store: Path, suite: str) -> NightFolder:
    """Make the folder of a new night. Two nights may begin in the same second."""
    stem = utc_now_text()
    for name in (stem, *(f"{stem}-{number}" for number in range(2, 100))):
        root = suite_folder(store, suite) / name
        try:
            root.mkdir(parents=True)
        except FileExistsError:
            continue
        return NightFolder(root=root)
    raise StoreError(
        f"{suite_folder(store, suite)} already has a hundred nights with this start time"
    )
