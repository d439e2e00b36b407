"""Asks each broker by itself, several times a second, and writes what it says to the record.

A client library would ask whichever broker it likes and believe the newest answer; what is wrong
with a cluster shows where brokers answer differently. So every broker has a thread and connections
of its own, with short limits: one that is paused or cut off delays no other.
"""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.protocol import RequestPayload

from cluster.kafka import questions, rows
from cluster.kafka.configuration import Endpoint, node_id
from cluster.kafka.questions import Place
from cluster.kafka.rows import Leadership, Moment, Row, RowMaker
from cluster.kafka.wire import A, Connection, WireError
from results.record.clock import (
    RunClock,
    WaitTimeoutError,
    pause_until,
    stopwatch_s,
    wait_until,
)
from results.record.stream import StreamWriter
from results.record.topics import CreatedTopic

log = logging.getLogger(__name__)

INTERVAL_S = 0.25
QUORUM_EVERY = 4
"""The quorum is asked in every fourth round: a broker that is cut off from it keeps us waiting."""
ANSWER_TIMEOUT_S = 0.8
STREAMS = ("leadership", "replica_states", "quorum_states")


class Observed(Protocol):
    """What an observer needs of a cluster."""

    nodes: Sequence[str]
    endpoints: Mapping[str, Endpoint]

    def incarnation(self, node: str) -> int:
        """Return how often the node's broker was started."""

    def answers(self, node: str) -> bool:
        """Tell whether the node's broker runs and is not paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """What is known of a partition now, from all brokers' last answers.

    Attributes:
        leader: Node that leads in the highest epoch that any broker's metadata name; None: nobody.
        leader_epoch: That epoch.
        isr: Nodes of the ISR in it.
        high_watermark: The last that a leader of the highest epoch announced; None: not yet any.
    """

    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is known of the cluster now: for progress, and for triggers of faults.

    Attributes:
        partitions: By (topic, partition).
        answered_ns: When each node answered last; nodes that never did are absent.
    """

    partitions: Mapping[Place, PartitionSummary]
    answered_ns: Mapping[str, int]


class Observer:
    """One thread a broker, from `start` to `stop`.

    Args:
        cluster: Whom to ask.
        topics: What about.
        clock: The run's.
        live: The run's `record/live`; it is there.
    """

    def __init__(
        self, cluster: Observed, topics: Sequence[CreatedTopic], *, clock: RunClock, live: Path
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._names = {node_id(node): node for node in cluster.nodes}
        self._watches = {
            node: _Watch(node, cluster, topics=topics, clock=clock) for node in cluster.nodes
        }

    def start(self) -> None:
        """Start asking."""
        for watch in self._watches.values():
            watch.start(self._live)

    def stop(self) -> None:
        """Stop asking, and end the streams. Idempotent."""
        for watch in self._watches.values():
            watch.ask_to_stop()
        for watch in self._watches.values():
            watch.stop()

    def note(self, timeout_s: float) -> frozenset[str]:
        """Take the last look before the stop: every replica and every leader gets a row.

        Rows of `replica_states` have the snapshot `noted`.

        Args:
            timeout_s: The limit.

        Returns:
            The nodes of which a whole round was written; others did not answer in time.
        """
        for watch in self._watches.values():
            watch.want_note()

        def pending() -> list[str]:
            return [
                node
                for node, watch in self._watches.items()
                if not watch.noted and watch.failure is None and self._cluster.answers(node)
            ]

        try:
            wait_until(lambda: not pending(), timeout_s=timeout_s, what="a last look at each node")
        except WaitTimeoutError:
            log.warning("the last look failed at %s", ", ".join(pending()))
        return frozenset(node for node, watch in self._watches.items() if watch.noted)

    def failures(self) -> list[str]:
        """Return why observers ended before `stop`: the disk is full, or the like; else none."""
        return [watch.failure for watch in self._watches.values() if watch.failure is not None]

    def latest(self) -> Summary:
        """Return what is known now."""
        believed = [each for watch in self._watches.values() for each in watch.believed.values()]
        claimed = [each for watch in self._watches.values() for each in watch.claimed.values()]
        answered = {
            node: watch.answered_ns
            for node, watch in self._watches.items()
            if watch.answered_ns is not None
        }
        return Summary(partitions=_summaries(believed, claimed, self._names), answered_ns=answered)


def _summaries(
    believed: Sequence[Leadership], claimed: Sequence[Leadership], names: Mapping[int, str]
) -> dict[Place, PartitionSummary]:
    newest = _newest(believed)
    announced = _newest(claimed)
    return {
        place: PartitionSummary(
            leader=names.get(said.leader),
            leader_epoch=said.leader_epoch,
            isr=tuple(names[replica] for replica in said.isr or ()),
            high_watermark=announced[place].high_watermark if place in announced else None,
        )
        for place, said in newest.items()
    }


def _newest(said: Sequence[Leadership]) -> dict[Place, Leadership]:
    newest: dict[Place, Leadership] = {}
    for each in said:
        last = newest.get(each.place)
        if last is None or each.leader_epoch >= last.leader_epoch:
            newest[each.place] = each
    return newest


class _Watch:
    """The thread that asks one broker; `believed`, `claimed` and the rest are replaced whole."""

    def __init__(
        self,
        node: str,
        cluster: Observed,
        *,
        topics: Sequence[CreatedTopic],
        clock: RunClock,
    ) -> None:
        self.believed: Mapping[Place, Leadership] = {}
        self.claimed: Mapping[Place, Leadership] = {}
        self.answered_ns: int | None = None
        self.noted = False
        self.failure: str | None = None
        self._node = node
        self._cluster = cluster
        self._clock = clock
        self._topics = [topic.topic for topic in topics]
        places = [(topic.topic, part) for topic in topics for part in range(topic.partitions)]
        self._starts = dict.fromkeys(places, 0)
        self._maker = RowMaker(node, {topic.topic: topic.topic_id for topic in topics})
        at = cluster.endpoints[node]
        self._broker = Connection(at.host, at.broker_port)
        # Of its own: a question that the quorum does not answer costs no other its connection.
        self._quorum = Connection(at.host, at.broker_port)
        self._stop = threading.Event()
        self._note_wanted = threading.Event()
        self._streams: dict[str, StreamWriter] = {}
        self._thread = threading.Thread(target=self._run, name=f"observer-{node}", daemon=True)

    def start(self, live: Path) -> None:
        for table in STREAMS:
            self._streams[table] = StreamWriter(live, table, f"observer-{self._node}")
        self._thread.start()

    def want_note(self) -> None:
        self._note_wanted.set()

    def ask_to_stop(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._ask_until_stopped()
        except OSError as full:
            self.failure = f"the record cannot be written: {full.strerror or full}"
            log.error("%s: %s", self._node, self.failure)  # noqa: TRY400 - one line is enough
        finally:
            # A bug of ours ends the thread, and must not leave a record that looks whole.
            if self.failure is None and not self._stop.is_set():
                self.failure = f"the observer of {self._node} ended before its time"

    def _ask_until_stopped(self) -> None:
        with ExitStack() as ending:
            for stream in self._streams.values():
                ending.callback(stream.close)
            ending.callback(self._broker.close)
            ending.callback(self._quorum.close)
            turn = 0
            while not self._stop.is_set():
                next_s = stopwatch_s() + INTERVAL_S
                self._round(with_quorum=turn % QUORUM_EVERY == 0)
                pause_until(next_s, self._stop)
                turn += 1

    def _round(self, *, with_quorum: bool) -> None:
        """Ask everything once; what was answered before a failure is written all the same."""
        noting = self._note_wanted.is_set() and not self.noted
        snapshot = rows.NOTED if noting else None
        try:
            self._ask_metadata(snapshot)
            self._ask_leader(snapshot)
            self._ask_replicas(snapshot)
            self.noted = self.noted or noting
            if with_quorum or noting:
                self._ask_quorum(snapshot)
        except WireError as silent:
            log.debug("%s", silent)

    def _ask_metadata(self, snapshot: str | None) -> None:
        answer, at = self._ask(
            questions.metadata(self._topics), MetadataResponse, snapshot=snapshot
        )
        said = list(rows.beliefs(answer))
        self.believed = {each.place: each for each in said}
        self.answered_ns = at.observed_ns
        self._write("leadership", (self._maker.leadership("metadata", each, at) for each in said))

    def _ask_leader(self, snapshot: str | None) -> None:
        question = questions.leader_ends(self._starts)
        answer, at = self._ask(question, ListOffsetsResponse, snapshot=snapshot)
        said = list(rows.claims(answer, self._node, self._maker.topic_ids))
        self.claimed = {each.place: each for each in said}
        self._write(
            "leadership", (self._maker.leadership("list-offsets", each, at) for each in said)
        )

    def _ask_replicas(self, snapshot: str | None) -> None:
        # The log's end first: it never lags behind the high watermark that is asked for after it by
        # more than what was appended in between, and a reader can tell which of both is older.
        end_answer, before = self._ask(
            questions.replica_ends(self._starts), ListOffsetsResponse, snapshot=snapshot
        )
        fetched, after = self._ask(
            questions.log_starts(self._starts), FetchResponse, snapshot=snapshot
        )
        if before.incarnation != after.incarnation:
            raise WireError(f"{self._node} was restarted between two questions")
        log_ends, ends = rows.log_ends(end_answer), rows.replica_ends(fetched)
        self._follow_log_starts(fetched)
        self._write(
            "replica_states",
            (
                self._maker.replica(place, log_ends.get(place), ends=ends.get(place), at=after)
                for place in sorted(log_ends.keys() | ends.keys())
            ),
        )

    def _follow_log_starts(self, answer: FetchResponse) -> None:
        for topic in answer.responses:
            for each in topic.partitions:
                if each.log_start_offset >= 0:
                    self._starts[topic.topic, each.partition_index] = int(each.log_start_offset)

    def _ask_quorum(self, snapshot: str | None) -> None:
        answer, at = self._ask(
            questions.quorum(), DescribeQuorumResponse, snapshot=snapshot, connection=self._quorum
        )
        if state := rows.quorum_state(answer, self._node):
            self._write("quorum_states", iter([self._maker.quorum(state, at)]))

    def _ask(
        self,
        question: RequestPayload,
        answer: type[A],
        *,
        snapshot: str | None,
        connection: Connection | None = None,
    ) -> tuple[A, Moment]:
        """Ask, and tell when; an answer that may be of either of two incarnations is none."""
        incarnation = self._cluster.incarnation(self._node)
        asked_ns = self._clock.now_ns()
        said = (connection or self._broker).ask(question, answer, timeout_s=ANSWER_TIMEOUT_S)
        observed_ns = self._clock.now_ns()
        if self._cluster.incarnation(self._node) != incarnation:
            raise WireError(f"{self._node} was restarted while it answered")
        return said, Moment(
            asked_ns=asked_ns,
            observed_ns=observed_ns,
            incarnation=incarnation,
            snapshot=snapshot,
        )

    def _write(self, table: str, made: Iterator[Row | None]) -> None:
        stream = self._streams[table]
        for row in made:
            if row is not None:
                stream.append(row)
        stream.flush()
