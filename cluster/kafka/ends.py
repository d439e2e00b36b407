"""Asks the leaders of partitions where their logs end, until all have answered."""

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
    """Ask the leaders for their high watermarks or last stable offsets.

    A last stable offset is asked for again until it has caught up with the leader's log: with
    acks 1 a record is acknowledged before it is committed.

    Args:
        lines: To the brokers.
        view: Tells who leads.
        places: (topic, partition) each.
        committed: True: last stable offsets; False: high watermarks.
        of_replicas: Whether they tell where their own logs end, as replicas do; if not, a last
            stable offset has to catch up with the high watermark.
        timeout_s: After so long, what was answered last is returned.
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
    """Return which of the places each node leads, those without a leader left out."""
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
