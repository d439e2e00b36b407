"""Asks partition leaders for the ends of their logs, until all leaders have answered."""

from collections.abc import Callable, Iterable

from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_offsets.v7.response import ListOffsetsResponse

from cluster.kafka import questions, rows
from cluster.kafka.lines import Lines
from cluster.kafka.questions import Place
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterView
from results.record.clock import pause_until, stopwatch_s

RETRY_S = 0.2


def leader_ends(
    lines: Lines,
    view: Callable[[], ClusterView | None],
    places: Iterable[Place],
    *,
    committed: bool,
    of_replicas: bool = True,
    timeout_s: float,
) -> dict[Place, int]:
    """Ask the leaders for high watermarks or last stable offsets, and return them by partition.

    A last stable offset is requested again until it is at the leader's log end. This may take some
    time, because with acks=1 a record is acknowledged before it is committed.

    Args:
        lines: Connections to the brokers.
        view: Returns a view of the cluster with the current leaders.
        places: The partitions, as (topic, partition).
        committed: True for last stable offsets, False for high watermarks.
        of_replicas: Whether leaders report the log end offsets of their own replicas. If False, a
            last stable offset only has to be at the high watermark.
        timeout_s: The time limit in seconds, after which the latest responses are returned.
    """
    missing = set(places)
    found: dict[Place, int] = {}
    deadline_s = stopwatch_s() + timeout_s
    while missing:
        for node, led in by_leader(view(), missing).items():
            own = questions.replica_ends(led) if of_replicas else questions.leader_ends(led)
            logs = _ends_at(lines, node, own) if committed else {}
            ends = _ends_at(lines, node, questions.leader_ends(led, committed=committed))
            found |= ends
            missing -= {
                place
                for place, end in ends.items()
                if not committed or (place in logs and end >= logs[place])
            }
        if stopwatch_s() >= deadline_s:
            break
        if missing:
            pause_until(min(deadline_s, stopwatch_s() + RETRY_S))
    return found


def by_leader(view: ClusterView | None, places: Iterable[Place]) -> dict[str, list[Place]]:
    """Group partitions by the node of the leader; leave out partitions without a leader."""
    grouped: dict[str, list[Place]] = {}
    for place in sorted(places):
        state = view.partitions.get(place) if view else None
        if state is not None and state.leader is not None:
            grouped.setdefault(state.leader, []).append(place)
    return grouped


def _ends_at(lines: Lines, node: str, request: ListOffsetsRequest) -> dict[Place, int]:
    try:
        return rows.log_ends(lines.ask(node, request, ListOffsetsResponse))
    except WireError:
        return {}
