"""Short names: `p22#132` is the 132nd op of process 22, `log-0-0:v785` a value that was sent there.

The record's own numbers are unique over all workers, and so too long to read: the op is
1099511637417, the value 4295098761. A process's ops are counted from 1 by their ids, which grow
along a process. A value is named by the partition that it was sent to and by its sequence number;
the `v` keeps it apart from an offset.
"""

import re
from collections.abc import Sequence

from results.record.values import SEQUENCE_BITS, pack_value, partition_number_of

_OP = re.compile(r"p(\d{1,18})#(\d{1,18})")
_VALUE = re.compile(r"(.+)-(\d{1,9}):v(\d{1,10})")
_SEQUENCES = (1 << SEQUENCE_BITS) - 1


def op_name(process: int, ordinal: int) -> str:
    """Return an op's name.

    Args:
        process: Whose it is.
        ordinal: Which of that process's ops, from 1.
    """
    return f"p{process}#{ordinal}"


def op_named(name: str) -> tuple[int, int] | None:
    """Return (process, ordinal) of an op's name; None: it is none."""
    found = _OP.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def sequence_of(value: int) -> int:
    """Return a value's sequence number in its partition."""
    return value & _SEQUENCES


def value_name(value: int, places: Sequence[tuple[str, int]]) -> str | None:
    """Return a value's name; None: no such value can have been sent.

    Args:
        value: As recorded.
        places: The plan's topic-partitions, in order.
    """
    number = partition_number_of(value)
    if not 0 < number <= len(places):
        return None
    topic, partition = places[number - 1]
    return f"{topic}-{partition}:v{sequence_of(value)}"


def value_named(name: str, places: Sequence[tuple[str, int]]) -> int | None:
    """Return the value of a name; None: it is none, or of no partition of the plan."""
    found = _VALUE.fullmatch(name)
    if found is None:
        return None
    place, sequence = (found[1], int(found[2])), int(found[3])
    known = place in places and sequence <= _SEQUENCES
    return pack_value(places.index(place) + 1, sequence) if known else None
