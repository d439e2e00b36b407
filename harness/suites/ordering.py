"""Whose turn it is: who weighs most and waited longest comes first."""

from collections.abc import Iterable, Mapping, Sequence

from harness.suites.expansion import Entry, drawn


def ordered(entries: Iterable[Entry], *, waited: Mapping[str, int], night: str) -> list[Entry]:
    """Return entries in the order of a night.

    An entry's turn grows by its weight with each night that it was not played, so that none waits
    for ever, however little it weighs. The night decides between equals.

    Args:
        entries: Of a suite.
        waited: For how many nights each was not played, by name; 1: it was last night.
        night: The night's id.
    """
    return sorted(
        entries,
        key=lambda each: (-each.weight * waited.get(each.name, 1), drawn(night, "turn", each.name)),
    )


def waited_nights(entries: Iterable[Entry], nights: Sequence[Iterable[str]]) -> dict[str, int]:
    """Return for how many nights each entry was not played.

    Args:
        entries: Of a suite.
        nights: The names of those that were played, of each past night, the oldest first.

    Returns:
        By name: 1 if it was played last night; one more than there were nights if it never was.
    """
    last: dict[str, int] = {}
    for number, played in enumerate(nights):
        last |= dict.fromkeys(played, number)
    return {each.name: len(nights) - last.get(each.name, -1) for each in entries}
