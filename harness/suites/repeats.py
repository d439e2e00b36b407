"""How often a failure comes back: what is owed to a failed run, and what came of it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.suites.expansion import drawn
from harness.suites.journal import Planned
from harness.suites.night import OVER, Item, NightState, Phase
from harness.suites.suite import Repeat
from results.record.night import Why
from results.record.terms import Validity
from results.wilson import wilson_interval

NEVER = "not repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often a signature came again.

    Attributes:
        count: So often.
        of: In so many repeats that came to a verdict.
    """

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of its probability (Wilson)."""
        return wilson_interval(self.count, self.of)

    @property
    def words(self) -> str:
        """`2 of 5 (12 % to 77 %)`; or that nothing was repeated."""
        low, high = self.interval
        return f"{self.count} of {self.of} ({low:.0%} to {high:.0%})" if self.of else NEVER


def owed(state: NightState, repeat: Repeat) -> list[Planned]:
    """Return the repeats that failed runs are owed and that are not planned yet.

    Of each signature one run is repeated, the first: what fails everywhere for one reason is
    measured once. What a repeat finds is filed, and not repeated in its turn.

    Args:
        state: The night.
        repeat: How often.
    """
    held = Counter((each.planned.repeats, each.planned.why) for each in state.items.values())
    number = max(state.items, default=0)
    lines: list[Planned] = []
    for item in _measured(state.planned, repeat):
        for why, seed, copy in _wanted(item, repeat, state.night):
            if copy < held[item.run_id, why]:
                continue
            lines.append(
                Planned(
                    item=number + len(lines) + 1,
                    entry=item.entry,
                    seed=seed,
                    why=why,
                    repeats=item.run_id,
                    lasts_s=item.planned.lasts_s,
                )
            )
    return lines


def _measured(items: Iterable[Item], repeat: Repeat) -> Iterator[Item]:
    """Yield the first failed run of each signature."""
    seen: set[str] = set()
    failed = [each for each in items if failing(each, unknown=repeat.unknown)]
    for item in sorted(failed, key=lambda each: (each.judged_at, each.number)):
        key = item.judged.signature if item.judged else ""
        if key not in seen:
            seen.add(key)
            yield item


def measured(state: NightState) -> set[str]:
    """Return the runs whose repeats are all over: their pages can tell how often they came back."""
    repeats = [each for each in state.items.values() if each.planned.repeats]
    open_ = {each.planned.repeats for each in repeats if each.phase not in OVER}
    return {each.planned.repeats for each in repeats} - open_


def failing(item: Item, *, unknown: bool) -> bool:
    """Tell whether a run failed."""
    failures = {Validity.INVALID, Validity.UNKNOWN} if unknown else {Validity.INVALID}
    return item.phase is Phase.JUDGED and item.outcome in failures


def _wanted(item: Item, repeat: Repeat, night: str) -> Iterator[tuple[Why, int, int]]:
    for copy in range(repeat.same_seed):
        yield Why.SAME_SEED, item.planned.seed, copy
    for copy in range(repeat.fresh_seeds):
        yield Why.FRESH_SEED, drawn(night, item.run_id, copy), copy


def rate(items: Iterable[Item], signature: str, why: Why) -> Rate:
    """Return how often a signature came again in the repeats of the runs that had it.

    A repeat without a verdict says nothing about a broken promise, and is not counted.

    Args:
        items: Of one night or more.
        signature: Its key.
        why: Of the repeats: with the same seed, or with fresh ones.
    """
    known = list(items)
    first = {each.run_id for each in known if each.judged and each.judged.signature == signature}
    verdicts = [
        each.judged
        for each in known
        if each.planned.why is why and each.planned.repeats in first and each.judged
    ]
    again = sum(each.signature == signature for each in verdicts)
    told = sum(
        each.valid is not Validity.UNKNOWN or each.signature == signature for each in verdicts
    )
    return Rate(count=again, of=told)
