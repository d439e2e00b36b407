"""Group a suite's failures by signature: in which nights each appeared, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.suites.night import Item, NightState
from harness.suites.repeats import trials
from results.repeats import Repeats, Trial, repeats_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """All failures with one signature, in all nights.

    Attributes:
        key: The signature's key.
        sentence: A description of the failure.
        valid: `invalid` or `unknown`.
        nights: The nights with this failure, the oldest first.
        runs: All runs with this failure, the oldest first.
        tonight: The runs of the last night.
        repeats: How often the failure recurred, in all nights up to the last.
    """

    key: str
    sentence: str
    valid: str
    nights: tuple[str, ...]
    runs: tuple[str, ...]
    tonight: tuple[Item, ...]
    repeats: Repeats

    @property
    def new(self) -> bool:
        """Whether the failure first appeared in the last night."""
        return len(self.nights) == 1 and bool(self.tonight)

    @property
    def entries(self) -> tuple[str, ...]:
        """The entries of the last night's runs with this failure."""
        return tuple(dict.fromkeys(each.entry for each in self.tonight))


def causes_of(nights: Sequence[NightState]) -> list[Cause]:
    """Return the causes of failures in a suite's nights, the new causes of the last night first.

    Args:
        nights: The nights, the oldest first; the last is tonight.
    """
    filed: dict[str, list[tuple[str, Item]]] = {}
    for night in nights:
        for item in sorted(night.items.values(), key=lambda each: (each.judged_at, each.number)):
            if item.judged and item.judged.signature:
                filed.setdefault(item.judged.signature, []).append((night.night, item))
    tonight = nights[-1].night if nights else ""
    everything = trials(nights)
    found = [_cause(key, seen, everything, tonight) for key, seen in filed.items()]
    return sorted(found, key=lambda each: (not each.new, not each.tonight, each.valid != "invalid",
                                           -len(each.tonight), each.key))  # fmt: skip


def _cause(
    key: str, seen: Sequence[tuple[str, Item]], runs: Sequence[Trial], tonight: str
) -> Cause:
    last = seen[-1][1].judged
    assert last is not None
    return Cause(
        key=key,
        sentence=last.sentence,
        valid=last.valid.value,
        nights=tuple(dict.fromkeys(night for night, _ in seen)),
        runs=tuple(item.run_id for _, item in seen),
        tonight=tuple(item for night, item in seen if night == tonight),
        repeats=repeats_of(runs, key),
    )
