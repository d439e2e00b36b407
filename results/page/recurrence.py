"""Ask the store's index whether a failure occurred before, and how often it recurs.

Without an index, only a small store is searched, so that no page waits for thousands of runs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from results.index import Index, Occurrence, RunRow, Seen, open_index
from results.nights import read_night
from results.record.atomic import StoreError
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.story import load_story
from results.record.verdict import Verdict
from results.repeats import RANGE, Rate
from results.samples import is_sample
from results.signature import Signature, signature_of
from results.store import LATEST, Store
from results.wording.faults import FaultLine
from results.wording.plural import many

INDEX_FILE = ".index.sqlite"
MAX_UNREAD = 100
"""At most this many new runs are read for one page. If there are more, use `logquake reindex`."""

_UNKNOWN = (
    "It is not known whether this failure was seen before, because the store has no index of all"
    " runs (`logquake reindex` creates one)."
)
_SAMPLE = "This is a sample: only a store with runs shows whether a failure was seen before."


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """How often a failure occurred in the store of its run.

    Attributes:
        signature: Signature of the failure; None if the run did not fail.
        seen: Runs and nightly runs with this signature, and how often it recurred in reruns. None
            if there are no such runs, or if this is unknown.
        alike: A run with the same settings, and the rate of the failure in runs with these
            settings; None if unknown.
        night: The nightly run that this run belongs to; None if no suite started the run.
        known: Whether the store was searched.
        run_id: Id of this run.
        sample: Whether the run is a sample that comes with Logquake.
    """

    signature: Signature | None
    seen: Seen | None = None
    alike: tuple[RunRow, Rate] | None = None
    night: Night | None = None
    known: bool = False
    run_id: str = ""
    sample: bool = False

    @property
    def before(self) -> bool:
        """Whether an earlier run had the same failure."""
        return self.seen is not None and self.seen.first.run_id != self.run_id

    def sightings(self) -> list[str]:
        """Return sentences about earlier runs with the failure; empty if the run did not fail."""
        if self.signature is None:
            return []
        if not self.known or self.seen is None:
            return [_SAMPLE if self.sample else _UNKNOWN]
        seen = self.seen
        if seen.times == 1 and not self.before:
            return ["When this page was written, no other run of this store had this failure."]
        first, last = _run(seen.first), _run(seen.last)
        told = [
            (
                f"This failure was seen in {many(seen.times, 'run')}: first in {first}, last in"
                f" {last}."
            )
        ]
        if seen.first_night:
            told.append(f"First night: {seen.first_night}; last night: {seen.last_night}.")
        return told

    def rates(self) -> list[str]:
        """Return sentences about how often the failure occurs. Empty if this is unknown."""
        said = []
        if self.seen is not None and self.seen.repeats.any:
            said.append(f"Reruns with this failure: {self.seen.repeats.words}.")
        if self.alike is not None and self.alike[1].of:
            row, rate = self.alike
            faults = f"story {row.scenario}" if row.scenario else f"faults {row.nemesis or 'none'}"
            told = (row.system, row.hosts, row.workload, faults, row.settings)
            what = ", ".join(filter(None, told))
            said.append(
                f"Other runs with the same settings ({what}), reruns included: {rate.words} had"
                " this failure."
            )
        return [*said[:-1], f"{said[-1]} {RANGE}"] if said else []


def recurrence(
    paths: RunPaths,
    verdict: Verdict | None,
    plan: Plan | None,
    faults: list[FaultLine],
    *,
    index: Index | None,
) -> Recurrence:
    """Return how often this run's failure occurred in its store, if the store can be searched."""
    confirmed = sorted({each.kind for each in faults if each.confirmed_s is not None})
    signature = None
    if verdict is not None:
        signature = signature_of(verdict, plan, confirmed, as_told=_as_told(paths))
    night = _night(paths)
    if is_sample(paths):
        return Recurrence(signature=signature, night=night, sample=True)
    if signature is None or index is None:
        return Recurrence(signature=signature, night=night)
    mine = index.run(paths.run_id)
    rates = index.rates(signature.key) if mine else ()
    return Recurrence(
        signature=signature,
        seen=index.seen(signature.key),
        alike=next((each for each in rates if mine and each[0].setting == mine.setting), None),
        night=night,
        known=True,
        run_id=paths.run_id,
    )


@contextmanager
def index_beside(paths: RunPaths) -> Iterator[Index | None]:
    """Open the index of the store that contains a run.

    Yields:
        The index, or None. The result is None for a sample, for a folder that is not a store, for
        an unreadable store, and for a large store without an index.
    """
    with ExitStack() as opened:
        try:
            index = None if is_sample(paths) else _opened(Store(paths.root.parent.parent), opened)
        except StoreError:
            index = None
        yield index


def _opened(store: Store, opened: ExitStack) -> Index | None:
    runs = store.runs() if _is_store(store) else ()
    if not runs or (len(runs) > MAX_UNREAD and not (store.root / INDEX_FILE).exists()):
        return None
    index = opened.enter_context(open_index(store))
    if len(runs) - index.count() > MAX_UNREAD:
        return None
    index.refresh(runs)
    return index


def _as_told(paths: RunPaths) -> bool | None:
    try:
        story = load_story(paths.story)
    except (OSError, ValueError, RecursionError):
        return None
    return story.as_expected if story else None


def _night(paths: RunPaths) -> Night | None:
    try:
        return read_night(paths.night)
    except StoreError:
        return None


def _is_store(store: Store) -> bool:
    """Return whether a folder has files that only a store has. A run may be in any folder."""
    return (store.root / LATEST).exists() or (store.root / INDEX_FILE).exists()


def _run(occurrence: Occurrence) -> str:
    night = f" (night {occurrence.night})" if occurrence.night else ""
    return f"{occurrence.run_id}{night}"
