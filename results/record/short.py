"""Short names: `p22#132` is op 132 of process 22; `log-0-0:v785` is a message to log-0-0.

The record's own numbers are unique over all workers, and therefore long: op 1099511637417, value
4295098761. The ops of a process are counted from 1 in the order of their ids. A value's name
consists of its partition and its sequence number; the `v` distinguishes it from an offset. All
records, including old ones, contain the data for these names. After each op with the outcome
`info`, a thread continues as a new process with a new number. So a name refers to only one op of a
run.
"""

import re
from collections.abc import Sequence

from results.record.values import SEQUENCE_BITS, pack_value, partition_number_of

MESSAGE = "message"
"""In a scripted run, the value with the sequence number 1 is named `message1`."""
_OP = re.compile(r"p(\d{1,18})#(\d{1,18})")
_VALUE = re.compile(r"(.*\D)(\d{1,10})")
_SEQUENCES = (1 << SEQUENCE_BITS) - 1


def op_name(process: int, ordinal: int) -> str:
    """Return the name of an op.

    Args:
        process: Number of the op's process.
        ordinal: Number of the op among the process's ops, from 1.
    """
    return f"p{process}#{ordinal}"


def op_named(name: str) -> tuple[int, int] | None:
    """Return (process, ordinal) of an op's name, or None if the text is not such a name."""
    found = _OP.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def value_prefixes(places: Sequence[tuple[str, int]], *, scripted: bool) -> tuple[str, ...]:
    """Return the prefix of values' names for each partition.

    Args:
        places: The plan's topic-partitions, in order.
        scripted: Whether it is a scripted run. Then values of the first partition are named
            `message1` etc.
    """
    prefixes = [f"{topic}-{partition}:v" for topic, partition in places]
    return tuple([MESSAGE, *prefixes[1:]] if scripted and prefixes else prefixes)


def value_name(value: int, prefixes: Sequence[str]) -> str | None:
    """Return a value's name, or None if the run cannot have sent the value.

    Args:
        value: The recorded value.
        prefixes: The prefixes of the run's partitions (`value_prefixes`).
    """
    number = partition_number_of(value)
    if not 0 < number <= len(prefixes):
        return None
    return f"{prefixes[number - 1]}{value & _SEQUENCES}"


def value_named(name: str, prefixes: Sequence[str]) -> int | None:
    """Return the value with this name, or None if no value of this plan has the name."""
    found = _VALUE.fullmatch(name)
    if found is None or found[1] not in prefixes or int(found[2]) > _SEQUENCES:
        return None
    return pack_value(prefixes.index(found[1]) + 1, int(found[2]))
