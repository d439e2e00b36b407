"""Asks each broker by itself, as `cluster.kafka.observer` does on real hosts, and writes rows.

A client's machine for each broker: metadata, what it claims as a leader, the ends of all of its
replicas, four times a second; the quorum's state in every fourth round.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kio.schema.errors import ErrorCode

from cluster.kafka.rows import (
    Leadership,
    Moment,
    QuorumState,
    ReplicaEnds,
    Row,
    RowMaker,
)
from cluster.reference.machine import Answered, Effect, Event, Fired, Request, SetTimer
from cluster.reference.messages.clients import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from cluster.reference.messages.data import (
    LATEST,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from cluster.reference.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from results.record.stream import StreamWriter
from results.record.topics import CreatedTopic

MS = 1_000_000
INTERVAL_NS = 250 * MS
LIMIT_NS = 1_000 * MS
QUORUM_EVERY = 4
_CONSUMER, _ANY_REPLICA = -1, -2
_TABLES = ("leadership", "replica_states", "quorum_states")


class Watcher:
    """The machine that watches one broker.

    Args:
        node: Its name, `n1`.
        number: Its id.
        topics: What about.
        incarnation: Tells how often the broker was started.
        clock: Returns virtual time.
        live: The folder of the live streams.

    Attributes:
        metadata: What the broker said last of everything.
        answered_ns: When.
        of_incarnation: Which of its lives said it.
        noted: Whether the round that was wanted is written.
        claimed, claimed_ns: What it said last as a leader, and when it was asked.
        ends, ended_ns: Where its replicas' logs ended, and when it was asked.
    """

    def __init__(
        self,
        node: str,
        number: int,
        *,
        topics: Sequence[CreatedTopic],
        incarnation: Callable[[], int],
        clock: Callable[[], int],
        live: Path,
    ) -> None:
        self.metadata: MetadataResponse | None = None
        self.answered_ns: int | None = None
        self.of_incarnation = 0
        self.noted = False
        self.claimed: dict[tuple[str, int], Leadership] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.claimed_ns = self.ended_ns = -1
        self._number, self._incarnation, self._clock = number, incarnation, clock
        self._ids = {each.topic: each.topic_id for each in topics}
        self._places = [(each.topic, part) for each in topics for part in range(each.partitions)]
        self._maker = RowMaker(node, self._ids)
        self._streams = {table: StreamWriter(live, table, f"observer-{node}") for table in _TABLES}
        self._asked: dict[int, tuple[int, int, object, str | None]] = {}
        self._last = self._round = 0
        self._wanted: str | None = None
        self._noting: list[int] = []

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        """Begin."""
        return self._ask()

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        """Take an answer, or ask again."""
        match event:
            case Answered(request=number, message=message):
                self._answered(number, message)
                return []
            case Fired():
                return self._ask()
            case _:
                return []

    def want(self, snapshot: str) -> None:
        """Have the next round written whole."""
        self._wanted, self.noted = snapshot, False

    def close(self) -> None:
        """End the streams."""
        for stream in self._streams.values():
            stream.close()

    def _ask(self) -> list[Effect]:
        snapshot, self._wanted = self._wanted, None
        questions: list[object] = [
            self._metadata_question(),
            self._ends_question(_CONSUMER),
            self._ends_question(_ANY_REPLICA),
            self._starts_question(),
        ]
        if self._round % QUORUM_EVERY == 0 or snapshot is not None:
            questions.append(DescribeQuorumRequest())
        self._round += 1
        out: list[Effect] = [self._request(each, snapshot) for each in questions]
        if snapshot is not None:
            # The quorum's answer is no part of what has to be known of a broker.
            self._noting = [each.number for each in out if isinstance(each, Request)][:4]
        return [*out, SetTimer(timer="round", after_ns=INTERVAL_NS, at_most_ns=INTERVAL_NS)]

    def _request(self, question: object, snapshot: str | None) -> Request:
        self._last += 1
        self._asked[self._last] = (self._clock(), self._incarnation(), question, snapshot)
        return Request(number=self._last, to=self._number, message=question, timeout_ns=LIMIT_NS)

    def _metadata_question(self) -> MetadataRequest:
        return MetadataRequest(topics=tuple(MetadataRequestTopic(name=each) for each in self._ids))

    def _ends_question(self, who: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=who,
            partitions=tuple(
                ListOffsetsPartition(topic=topic, partition=part, timestamp=LATEST)
                for topic, part in self._places
            ),
        )

    def _starts_question(self) -> FetchRequest:
        """Fetch next to nothing: the answer has the replica's own high watermark."""
        return FetchRequest(
            replica_id=_ANY_REPLICA,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            partitions=tuple(
                FetchPartition(topic=topic, partition=part, fetch_offset=0, partition_max_bytes=1)
                for topic, part in self._places
            ),
        )

    def _answered(self, number: int, message: object) -> None:
        asked_ns, incarnation, question, snapshot = self._asked.pop(number)
        if incarnation != self._incarnation():
            return  # Nobody knows which of its lives answered.
        at = Moment(
            asked_ns=asked_ns,
            observed_ns=self._clock(),
            incarnation=incarnation,
            snapshot=snapshot,
        )
        match message, question:
            case MetadataResponse(), _:
                self._said(message, at)
            case ListOffsetsResponse(), ListOffsetsRequest(replica_id=who):
                self._claimed(message, at) if who == _CONSUMER else self._ended(message, at)
            case FetchResponse(), _:
                self._fetched(message, at)
            case DescribeQuorumResponse(), _:
                self._quorum(message, at)
            case _:
                return
        if number in self._noting:
            self._noting.remove(number)
            self.noted = not self._noting

    def _said(self, message: MetadataResponse, at: Moment) -> None:
        self.metadata, self.answered_ns = message, at.observed_ns
        self.of_incarnation = at.incarnation
        self._write(
            "leadership",
            (
                self._maker.leadership(
                    "metadata",
                    Leadership(
                        place=(str(topic.name), each.partition_index),
                        topic_id=str(topic.topic_id or self._ids.get(str(topic.name), "")),
                        leader=each.leader_id,
                        leader_epoch=each.leader_epoch,
                        isr=tuple(sorted(each.isr_nodes)),
                    ),
                    at,
                )
                for topic in message.topics
                for each in topic.partitions
            ),
        )

    def _claimed(self, message: ListOffsetsResponse, at: Moment) -> None:
        self.claimed_ns = at.asked_ns
        self.claimed = {
            (each.topic, each.partition): Leadership(
                place=(each.topic, each.partition),
                topic_id=self._ids[each.topic],
                leader=self._number,
                leader_epoch=each.leader_epoch,
                high_watermark=each.offset,
            )
            for each in message.partitions
            if each.error_code is ErrorCode.none and each.offset >= 0
        }
        claims = self.claimed.values()
        self._write(
            "leadership", (self._maker.leadership("list-offsets", each, at) for each in claims)
        )

    def _ended(self, message: ListOffsetsResponse, at: Moment) -> None:
        self.ended_ns = at.asked_ns
        self.ends = {
            (each.topic, each.partition): each.offset
            for each in message.partitions
            if each.error_code is ErrorCode.none and each.offset >= 0
        }

    def _fetched(self, message: FetchResponse, at: Moment) -> None:
        rows = []
        for each in message.partitions:
            place = (each.topic, each.partition)
            known = each.error_code is ErrorCode.none and each.high_watermark >= 0
            ends = ReplicaEnds(
                high_watermark=each.high_watermark,
                last_stable_offset=each.last_stable_offset,
                log_start_offset=each.log_start_offset,
            )
            if known or place in self.ends:
                rows.append(
                    self._maker.replica(
                        place, self.ends.get(place), ends=ends if known else None, at=at
                    )
                )
        self._write("replica_states", rows)

    def _quorum(self, message: DescribeQuorumResponse, at: Moment) -> None:
        if (state := quorum_state(message, self._number)) is not None:
            self._write("quorum_states", [self._maker.quorum(state, at)])

    def _write(self, table: str, rows: Iterable[Row | None]) -> None:
        stream = self._streams[table]
        for row in rows:
            if row is not None:
                stream.append(row)


def quorum_state(message: DescribeQuorumResponse, number: int) -> QuorumState | None:
    """Return what the quorum's leader knows of a node; None if it does not say."""
    if message.error_code is not ErrorCode.none or message.leader_id < 0:
        return None
    voters = {each.replica_id: each.log_end_offset for each in message.current_voters}
    others = {each.replica_id: each.log_end_offset for each in message.observers}
    end = voters.get(number, others.get(number, -1))
    follows = "follower" if number in voters else "observer"
    return QuorumState(
        role="leader" if message.leader_id == number else follows,
        epoch=message.leader_epoch,
        leader=message.leader_id,
        high_watermark=message.high_watermark,
        log_end_offset=end if end >= 0 else None,
    )
