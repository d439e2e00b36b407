"""Numbers for the transitions that runs reached, and for pairs of successive transitions.

The index stores numbers instead of names, because a store of a thousand runs has a hundred thousand
entries.
"""

from collections.abc import Iterable

from results.reached import Reached
from results.record.transitions import TRANSITIONS

_NAMES = tuple(TRANSITIONS)
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
PAIRS_FROM = len(_NAMES)
"""Numbers below this number mean transitions. All other numbers mean pairs of transitions."""


def numbered(reached: Reached) -> list[int]:
    """Return the numbers of the transitions and pairs that a run reached, ascending."""
    pairs = (
        PAIRS_FROM * (1 + _NUMBERS[before]) + _NUMBERS[after]
        for before, after in reached.successions
    )
    return sorted([*(_NUMBERS[name] for name in reached.transitions), *pairs])


def named(numbers: Iterable[int]) -> Reached:
    """Return the transitions and pairs that the given numbers stand for."""
    told = list(numbers)
    pairs = (divmod(number - PAIRS_FROM, PAIRS_FROM) for number in told if number >= PAIRS_FROM)
    return Reached(
        transitions=frozenset(_NAMES[number] for number in told if number < PAIRS_FROM),
        successions=frozenset((_NAMES[before], _NAMES[after]) for before, after in pairs),
    )


def name_of(number: int) -> str:
    """Return the name of the transition with the given number, which is below `PAIRS_FROM`."""
    return _NAMES[number]
