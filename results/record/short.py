"""Short names: `p22#132` is the 132nd op of process 22, `log-0-0:v785` a value that was sent there.

The record's own numbers are unique over all workers, and so too long to read: the op is
1099511637417, the value 4295098761. A process's ops are counted from 1 by their ids, which grow
along a process. A value is named by the partition that it was sent to and by its sequence number;
the `v` keeps it apart from an offset. Both come from what every record has, old ones included.
The number of a process is never used twice: after an op with `info` its thread goes on as another
process, so that a name means one op of a run.
"""

import re
from collections.abc import Sequence

from results.record.values import SEQUENCE_BITS, pack_value, partition_number_of

MESSAGE = "message"
"""A story calls the value with sequence k of its partition `message` and k."""
_OP = re.compile(r"p(\d{1,18})#(\d{1,18})")
_VALUE = re.compile(r"(.*\D)(\d{1,10})")
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


def value_prefixes(places: Sequence[tuple[str, int]], *, scripted: bool) -> tuple[str, ...]:
    """Return what stands before the sequence in values' names, by the place of their partition.

    Args:
        places: The plan's topic-partitions, in order.
        scripted: Whether it is a story: the values of its first partition are its messages.
    """
    prefixes = [f"{topic}-{partition}:v" for topic, partition in places]
    return tuple([MESSAGE, *prefixes[1:]] if scripted and prefixes else prefixes)


def value_name(value: int, prefixes: Sequence[str]) -> str | None:
    """Return a value's name; None: no such value can have been sent.

    Args:
        value: As recorded.
        prefixes: Of the run's partitions (`value_prefixes`).
    """
    number = partition_number_of(value)
    if not 0 < number <= len(prefixes):
        return None
    return f"{prefixes[number - 1]}{value & _SEQUENCES}"


def value_named(name: str, prefixes: Sequence[str]) -> int | None:
    """Return the value of a name; None: it is none, or of no partition of the plan."""
    found = _VALUE.fullmatch(name)
    if found is None or found[1] not in prefixes or int(found[2]) > _SEQUENCES:
        return None
    return pack_value(prefixes.index(found[1]) + 1, int(found[2]))
