"""Whether a failure was seen before, and how often it comes: asked of the store's index.

A store that has no index is asked only if it is small, so that no page waits for thousands of runs.
"""

from dataclasses import dataclass

from results.atomic import StoreError
from results.index import Index, Occurrence, Rate, RunQuery, Seen, open_index
from results.nights import read_night
from results.page.faults import FaultLine
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.story import load_story
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.samples import is_sample
from results.signature import Signature, signature_of
from results.store import LATEST, Store

INDEX_FILE = ".index.sqlite"
MAX_UNREAD = 100
"""So many runs are read for one page; more are left to `logquake reindex`."""

_UNKNOWN = (
    "Whether it was seen before is not known: its store has no index of all runs"
    " (`logquake reindex` makes it)."
)
_SAMPLE = "It is a sample: whether a failure was seen before is told of the runs of a store."


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """How often a failure came, in the store that its run lies in.

    Attributes:
        signature: What it is filed under; None: nothing failed.
        seen: Where its signature was seen; None: nowhere, or nobody knows.
        repeated: How often it came back in runs that a suite made to repeat this one.
        same_seed, any_seed: How often runs of the same settings had it, this one among them.
        night: Which night this run was played for, None if no suite played it.
        known: Whether the store was asked at all.
        run_id: Of this run.
        sample: Whether it is one that comes with Logquake.
    """

    signature: Signature | None
    seen: Seen | None = None
    repeated: Rate | None = None
    same_seed: Rate | None = None
    any_seed: Rate | None = None
    night: Night | None = None
    known: bool = False
    run_id: str = ""
    sample: bool = False

    @property
    def before(self) -> bool:
        """Whether an earlier run had it, too."""
        return self.seen is not None and self.seen.first.run_id != self.run_id

    def sightings(self) -> list[str]:
        """Return whether and where it was seen before, in sentences; none if nothing failed."""
        if self.signature is None:
            return []
        if not self.known or self.seen is None:
            return [_SAMPLE if self.sample else _UNKNOWN]
        seen = self.seen
        if seen.times == 1 and not self.before:
            return ["It was not seen in any other run of this store when this was written."]
        first, last = _run(seen.first), _run(seen.last)
        told = [f"It was seen in {seen.times} runs: first in {first}, last in {last}."]
        if seen.first_night:
            told.append(f"First night: {seen.first_night}; last night: {seen.last_night}.")
        return told

    def rates(self) -> list[str]:
        """Return how often it came back, in sentences; none if it was never repeated."""
        told = []
        if self.repeated is not None and self.repeated.of:
            told.append(f"Repeated by its suite, it came back in {rate_words(self.repeated)}.")
        if self.same_seed is not None and self.same_seed.of > 1:
            words = rate_words(self.same_seed)
            told.append(f"Of the runs with these settings and this seed, {words} had it.")
        if self.any_seed is not None and self.any_seed.of > 1:
            told.append(f"Of the runs with these settings, {rate_words(self.any_seed)} had it.")
        return told


def rate_words(rate: Rate) -> str:
    """Return `3 of 10 (11 % to 60 % with 95 % confidence)`."""
    low, high = (f"{100 * each:.0f} %" for each in rate.interval)
    return f"{rate.times} of {rate.of} ({low} to {high} with 95 % confidence)"


def recurrence(
    paths: RunPaths, verdict: Verdict | None, plan: Plan | None, faults: list[FaultLine]
) -> Recurrence:
    """Ask the store how often this run's failure came."""
    confirmed = sorted({each.kind for each in faults if each.confirmed_s is not None})
    signature = None
    if verdict is not None:
        signature = signature_of(verdict, plan, confirmed, as_told=_as_told(paths))
    night = _night(paths)
    store = Store(paths.root.parent.parent)
    if is_sample(paths):
        return Recurrence(signature=signature, night=night, sample=True)
    if signature is None or not _is_store(store):
        return Recurrence(signature=signature, night=night)
    try:
        return _asked(store, paths, signature, night)
    except StoreError:
        return Recurrence(signature=signature, night=night)


def _asked(store: Store, paths: RunPaths, signature: Signature, night: Night | None) -> Recurrence:
    runs = len(store.runs())
    if runs > MAX_UNREAD and not (store.root / INDEX_FILE).exists():
        return Recurrence(signature=signature, night=night)
    with open_index(store) as index:
        if runs - index.count() > MAX_UNREAD:
            return Recurrence(signature=signature, night=night)
        index.refresh()
        mine = index.run(paths.run_id)
        setting = mine.setting if mine else ""
        seed = mine.seed if mine else None
        return Recurrence(
            signature=signature,
            seen=index.seen(signature.key),
            repeated=index.came_back(paths.run_id),
            same_seed=_rate(index, signature, setting, seed),
            any_seed=_rate(index, signature, setting, None),
            night=night,
            known=True,
            run_id=paths.run_id,
        )


def _rate(index: Index, signature: Signature, setting: str, seed: int | None) -> Rate | None:
    if not setting:
        return None

    def count(verdict: str, key: str = "") -> int:
        asked = RunQuery(setting=setting, seed=seed, verdict=verdict, signature=key)
        return index.count(asked)

    # A run that came to no verdict says nothing about another one's failure.
    others = count(Validity.UNKNOWN.value, signature.key)
    of = count(Validity.VALID.value) + count(Validity.INVALID.value) + others
    return Rate(times=count("", signature.key), of=of)


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
    """A run's folder may have been copied to anywhere; only stores have these."""
    return (store.root / LATEST).exists() or (store.root / INDEX_FILE).exists()


def _run(occurrence: Occurrence) -> str:
    night = f" (night {occurrence.night})" if occurrence.night else ""
    return f"{occurrence.run_id}{night}"
