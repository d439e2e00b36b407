"""Order the entries of a suite's night. Entries with large weights and long waits come first."""

from collections.abc import Iterable, Mapping, Sequence

from harness.suites.expansion import Entry, drawn


def ordered(entries: Iterable[Entry], *, waited: Mapping[str, int], night: str) -> list[Entry]:
    """Return entries in the order in which a night plays them.

    An entry's priority grows by its weight with each night in which the entry was not played. So
    even an entry of small weight is played in time. If priorities are equal, random numbers from
    the night's id decide the order.

    Args:
        entries: The suite's entries.
        waited: How many nights ago each entry was played, by its name; 1 means last night.
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
        nights: The names of the entries that each past night played, the oldest night first.

    Returns:
        A number for the name of each entry. It is 1 for last night. If the entry was never played,
            it is one more than the number of past nights.
    """
    last: dict[str, int] = {}
    for number, played in enumerate(nights):
        last |= dict.fromkeys(played, number)
    return {each.name: len(nights) - last.get(each.name, -1) for each in entries}
