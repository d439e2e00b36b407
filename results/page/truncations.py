"""Lists the truncations of replicas' logs in a run: by which node, where, and why."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from results.record.clock import seconds
from results.tables import RunTables

Line = tuple[float, int]
Logged = Mapping[str, Sequence[Line]]
"""For each node: (second, offset) of each line of its log that reports a truncation of a partition,
in order of time."""
SAME_CUT_S = 1.0
"""Two log lines about the same truncation are at most this many seconds apart."""
_BROKER = re.compile(r"\bbroker (\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A truncation of a replica's log.

    Attributes:
        node: The node with the log, `n2`.
        place: The partition, `log-0-1`.
        offset: The log end offset after the truncation.
        when: The time of the observation, or by the broker's own log; an empty string if neither is
            known.
        reason: The reason, with the names of nodes; an empty string if the record has none.
    """

    node: str
    place: str
    offset: int
    when: str
    reason: str


def truncations_of(tables: RunTables) -> list[Truncation]:
    """Return all truncations of a run, by partition, node and offset. Kafka's own topics are last.

    Only brokers' own logs tell of truncations, and many of their lines have no time in the record.
    """
    found = [
        Truncation(
            node=row["node"] or "?",
            place=f"{row['topic']}-{row['partition']}",
            offset=-1 if row["from_offset"] is None else row["from_offset"],
            when="" if row["observed_ns"] is None else seconds(row["observed_ns"]),
            reason=with_nodes(row["reason"] or ""),
        )
        for row in tables.record("truncations").to_pylist()
    ]
    return sorted(
        found, key=lambda each: (each.place[:2] == "__", each.place, each.node, each.offset)
    )


def with_times(truncations: Sequence[Truncation], logged: Mapping[str, Logged]) -> list[Truncation]:
    """Return truncations with the times from their brokers' own logs.

    A time is used only if the record and the log have one truncation of the log at this offset.

    Args:
        truncations: The truncations.
        logged: For each partition, the truncations that brokers logged.
    """
    alike = Counter(replace(each, reason="", when="") for each in truncations)
    found = []
    for each in truncations:
        lines = logged.get(each.place, {}).get(each.node, ())
        times = [at_s for at_s, offset in lines if offset == each.offset]
        alone = alike[replace(each, reason="", when="")] == 1
        known = alone and times and times[-1] - times[0] <= SAME_CUT_S
        found.append(replace(each, when=each.when or (f"{times[0]:.3f} s" if known else "")))
    return found


def with_nodes(reason: str) -> str:
    """Return the reason of a truncation with names of nodes: `broker 2` becomes `n2`."""
    return _BROKER.sub(r"n\1", reason)
