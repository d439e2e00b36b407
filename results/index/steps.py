"""What runs reached, as numbers: transitions by their place in the catalogue, and pairs of these.

A store of a thousand runs has a hundred thousand of them: a name each would be megabytes.
"""

from collections.abc import Iterable

from results.reached import Reached
from results.record.transitions import TRANSITIONS

_NAMES = tuple(TRANSITIONS)
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
PAIRS_FROM = len(_NAMES)
"""Numbers below are of transitions."""


def numbered(reached: Reached) -> list[int]:
    """Return the numbers of what a run reached, ascending."""
    pairs = (
        PAIRS_FROM * (1 + _NUMBERS[before]) + _NUMBERS[after]
        for before, after in reached.successions
    )
    return sorted([*(_NUMBERS[name] for name in reached.transitions), *pairs])


def named(numbers: Iterable[int]) -> Reached:
    """Return what some numbers mean."""
    told = list(numbers)
    pairs = (divmod(number - PAIRS_FROM, PAIRS_FROM) for number in told if number >= PAIRS_FROM)
    return Reached(
        transitions=frozenset(_NAMES[number] for number in told if number < PAIRS_FROM),
        successions=frozenset((_NAMES[before], _NAMES[after]) for before, after in pairs),
    )


def name_of(number: int) -> str:
    """Return the transition of a number below `PAIRS_FROM`."""
    return _NAMES[number]
