"""Order the entries of a suite's night: entries with large weights and long waits come first."""

from collections.abc import Iterable, Mapping, Sequence

from harness.suites.expansion import Entry, drawn


def ordered(entries: Iterable[Entry], *, waited: Mapping[str, int], night: str) -> list[Entry]:
    """Return entries in the order in which a night plays them.

    An entry's priority grows by its weight with each night in which the entry was not played. So
    even an entry of small weight is played in time. Between equal priorities, a random number from
    the night's id decides.

    Args:
        entries: The suite's entries.
        waited: For each entry's name: how many nights ago the entry was played; 1 means last night.
        night: The night's id.
    """
    return sorted(
        entries,
        key=lambda each: (-each.weight * waited.get(each.name, 1), drawn(night, "turn", each.name)),
    )


def waited_nights(entries: Iterable[Entry], nights: Sequence[Iterable[str]]) -> dict[str, int]:
    """Return how many nights ago each entry was last played.

    Args:
        entries: The suite's entries.
        nights: For each past night, the names of the entries played, the oldest night first.

    Returns:
        The number for each entry name: 1 for last night, and one more than the number of nights if
            the entry was never played.
    """
    last: dict[str, int] = {}
    for number, played in enumerate(nights):
        last |= dict.fromkeys(played, number)
    return {each.name: len(nights) - last.get(each.name, -1) for each in entries}
