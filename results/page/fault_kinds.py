"""The faults of a run by kind: how many were planned, took effect, and were undone."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from results.wording.faults import FaultLine


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLine:
    """A line of the table.

    Attributes:
        kind: A kind of fault; empty: all of them.
        family: What a plan's `nemesis` calls it; empty: the record does not say.
        planned: How many should have been by the time at which the main phase ended.
        confirmed: Of these: how many had an effect that was measured.
        without_effect: How many had none; `planned` is the sum of both.
        healed: Of those confirmed: how many were seen to be over.
        not_healed: How many were not, with those that had no effect and whose undoing failed.
    """

    kind: str
    family: str
    planned: int
    confirmed: int
    without_effect: int
    healed: int
    not_healed: int


def kind_lines(faults: Iterable[FaultLine]) -> list[KindLine]:
    """Return a line a kind, families together, and one of all at the end; none if none is there."""
    kinds: dict[tuple[str, str], list[FaultLine]] = defaultdict(list)
    for fault in faults:
        kinds[fault.family, fault.kind].append(fault)
    lines = [_line(kind, family, ours) for (family, kind), ours in sorted(kinds.items())]
    every = [fault for ours in kinds.values() for fault in ours]
    return [*lines, _line("", "", every)] if every else []


def _line(kind: str, family: str, faults: list[FaultLine]) -> KindLine:
    confirmed = [fault for fault in faults if fault.confirmed_s is not None]
    return KindLine(
        kind=kind,
        family=family,
        planned=len(faults),
        confirmed=len(confirmed),
        without_effect=len(faults) - len(confirmed),
        healed=sum(fault.healed_s is not None for fault in confirmed),
        not_healed=sum(
            fault.healed_s is None and (fault.confirmed_s is not None or fault.heal_failed)
            for fault in faults
        ),
    )
