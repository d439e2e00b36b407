"""Asks controllers of their own, as `cluster.kafka.controller_rounds` does on real hosts.

A controller tells by itself whom it takes for the leader, or nobody does; how far it is, that
leader tells.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kio.schema.errors import ErrorCode

from cluster.files.metadata import METADATA_TOPIC
from cluster.kafka.rows import Moment, QuorumState, RowMaker
from cluster.reference.machine import Answered, Effect, Event, Fired, Request, SetTimer
from cluster.reference.messages.data import FetchPartition, FetchRequest, FetchResponse
from cluster.reference.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from harness.simulated.watcher import LIMIT_NS, MS, quorum_state
from results.record.stream import StreamWriter

INTERVAL_NS = 500 * MS
_BELIEF = FetchRequest(
    max_wait_ms=0,
    min_bytes=0,
    max_bytes=1,
    partitions=(
        FetchPartition(topic=METADATA_TOPIC, partition=0, fetch_offset=0, partition_max_bytes=1),
    ),
)
"""Whatever a controller answers has the leader and the epoch that it knows (KIP-595)."""


class ControllerWatcher:
    """The machine that watches one controller.

    Args:
        node: Its name, `n101`.
        numbers: The ids of all controllers, by name.
        incarnation: Tells how often it was started.
        clock: Returns virtual time.
        live: The folder of the live streams.
    """

    def __init__(
        self,
        node: str,
        numbers: Mapping[str, int],
        *,
        incarnation: Callable[[], int],
        clock: Callable[[], int],
        live: Path,
    ) -> None:
        self._own, self._numbers = numbers[node], tuple(numbers.values())
        self._incarnation, self._clock = incarnation, clock
        self._maker = RowMaker(node, {})
        self._stream = StreamWriter(live, "quorum_states", f"observer-{node}")
        self._asked: set[int] = set()
        self._said: dict[int, DescribeQuorumResponse] = {}
        self._believed: tuple[QuorumState, int] | None = None
        self._began = (0, 0)
        self._last = 0

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        """Begin."""
        return self._ask()

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        """Take an answer, or ask again."""
        match event:
            case Answered(request=number, message=message):
                self._take(number, message)
                return []
            case Fired():
                return self._ask()
            case _:
                return []

    def close(self) -> None:
        """End the stream."""
        self._stream.close()

    def _ask(self) -> list[Effect]:
        out: list[Effect] = [SetTimer(timer="round", after_ns=INTERVAL_NS, at_most_ns=INTERVAL_NS)]
        if self._asked:
            return out  # Somebody has not answered yet, nor failed to.
        self._began = self._clock(), self._incarnation()
        self._said, self._believed = {}, None
        out.append(self._request(self._own, _BELIEF))
        out += (self._request(to, DescribeQuorumRequest()) for to in self._numbers)
        return out

    def _request(self, to: int, message: object) -> Request:
        self._last += 1
        self._asked.add(self._last)
        return Request(number=self._last, to=to, message=message, timeout_ns=LIMIT_NS)

    def _take(self, number: int, message: object) -> None:
        self._asked.remove(number)
        match message:
            case FetchResponse():
                self._believed = _belief(message, self._own), self._clock()
            case DescribeQuorumResponse(error_code=ErrorCode.none):
                self._said[message.leader_id] = message
            case _:
                pass  # It is down, stands still, or does not lead.
        asked_ns, incarnation = self._began
        if self._asked or self._believed is None or incarnation != self._incarnation():
            return
        state, observed_ns = self._believed
        at = Moment(
            asked_ns=asked_ns, observed_ns=observed_ns, incarnation=incarnation, snapshot=None
        )
        row = self._maker.quorum(self._with_ends(state), at)
        if row is not None:
            self._stream.append(row)

    def _with_ends(self, state: QuorumState) -> QuorumState:
        """Add how far the node is, if the leader in whom it believes tells of the same epoch."""
        said = self._said.get(state.leader)
        told = quorum_state(said, self._own) if said else None
        if told is None or told.epoch != state.epoch:
            return state
        return replace(
            state, high_watermark=told.high_watermark, log_end_offset=told.log_end_offset
        )


def _belief(message: FetchResponse, own: int) -> QuorumState:
    """Return whom a controller takes for the leader, as `cluster.kafka.rows.quorum_belief`."""
    (told,) = message.partitions
    leader = told.current_leader
    follows = "follower" if leader >= 0 else None
    role = "leader" if leader == own else follows
    return QuorumState(role=role, epoch=told.current_leader_epoch, leader=leader)
