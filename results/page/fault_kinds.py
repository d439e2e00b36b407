"""The number of planned, confirmed and healed faults of each fault kind."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from results.wording.faults import FaultLine


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLine:
    """A line of the table of fault kinds.

    Attributes:
        kind: The fault kind; empty for the total line.
        family: Name of the fault family in a plan's `nemesis`; empty if the record has none.
        planned: Number of faults that were scheduled before the main phase ended.
        confirmed: Number of planned faults with a measured effect.
        without_effect: Number of planned faults without a measured effect. `planned` is the sum of
            `confirmed` and `without_effect`.
        healed: Number of confirmed faults whose end was observed.
        not_healed: Number of faults whose end was not observed. A fault without an effect counts
            only if its heal failed.
    """

    kind: str
    family: str
    planned: int
    confirmed: int
    without_effect: int
    healed: int
    not_healed: int


def kind_lines(faults: Iterable[FaultLine]) -> list[KindLine]:
    """Return a line for each kind, sorted by family, and a total line. No faults: no lines."""
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
