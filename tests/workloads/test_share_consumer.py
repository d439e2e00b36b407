"""librdkafka's share consumer: which acknowledgements count as confirmed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import confluent_kafka
import pytest
from confluent_kafka import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from results.record.plan import Plan
from results.record.terms import ShareAct
from workloads.clients.sharer import ShareConsumer
from workloads.member import GroupError

HERE, THERE = TopicPartition("log-0", 0), TopicPartition("log-0", 1)
LOST = KafkaException(KafkaError(KafkaError._TRANSPORT))
STATE = IllegalStateException("records of the last poll are not acknowledged")
ACCEPT, RELEASE = ShareAct.ACCEPT, ShareAct.RELEASE
UNKNOWN = "no broker confirmed the acknowledgements"
Answer = Mapping[TopicPartition, KafkaException | None]
OnAnswer = Callable[[Mapping[TopicPartition, set[int]], KafkaException | None], None]


class Delivered(Message):
    def delivery_count(self) -> int:
        return 2


@dataclass(slots=True, kw_only=True)
class Handle:
    """A share consumer's handle that answers as it is told."""

    polls: list[list[Message] | Exception] = field(default_factory=list)
    commit: Answer | Exception = field(default_factory=dict)
    during_poll: list[tuple[Mapping[TopicPartition, set[int]], KafkaException | None]] = field(
        default_factory=list
    )
    during_commit: list[tuple[Mapping[TopicPartition, set[int]], KafkaException | None]] = field(
        default_factory=list
    )
    refused: dict[int, Exception] = field(default_factory=dict)
    acts: list[tuple[int | None, AcknowledgeType]] = field(default_factory=list)
    fails: Exception | None = None
    on_answer: OnAnswer | None = None

    def set_acknowledgement_commit_callback(self, callback: OnAnswer) -> None:
        self.on_answer = callback

    def subscribe(self, topics: list[str]) -> None:  # noqa: ARG002 - the handle's
        if self.fails:
            raise self.fails

    def poll(self, timeout_s: float) -> list[Message]:  # noqa: ARG002 - the handle's
        self._tell(self.during_poll)
        got = self.polls.pop(0)
        if isinstance(got, Exception):
            raise got
        return got

    def acknowledge(self, message: Message, act: AcknowledgeType) -> None:
        offset = message.offset()
        if offset in self.refused:
            raise self.refused[offset]
        self.acts.append((offset, act))

    def commit_sync(self, timeout_s: float) -> Answer:  # noqa: ARG002 - the handle's
        self._tell(self.during_commit)
        if isinstance(self.commit, Exception):
            raise self.commit
        return self.commit

    def close(self) -> None:
        if self.fails:
            raise self.fails

    def _tell(
        self, answers: list[tuple[Mapping[TopicPartition, set[int]], KafkaException | None]]
    ) -> None:
        assert self.on_answer is not None
        while answers:
            self.on_answer(*answers.pop(0))


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    made = Handle()
    monkeypatch.setattr(confluent_kafka, "ShareConsumer", lambda _: made)
    return made


@pytest.fixture
def consumer(handle: Handle) -> ShareConsumer:
    assert not handle.acts
    return ShareConsumer(Plan(workload="shares"), bootstrap="b:1", client_id="c", group="g")


def records(*offsets: int, partition: int = 0) -> list[Message]:
    return [Delivered(topic="log-0", partition=partition, offset=each) for each in offsets]


def settled(consumer: ShareConsumer, *acts: ShareAct) -> list[str | None]:
    return list(consumer.acknowledge(consumer.poll(0), acts))


def test_what_the_broker_named_is_confirmed(handle: Handle, consumer: ShareConsumer) -> None:
    handle.polls = [records(1, 2) + records(7, partition=1)]
    handle.commit = {HERE: None, THERE: None}
    handle.during_commit = [({HERE: {1, 2}}, None), ({THERE: {7}}, None)]
    assert settled(consumer, ACCEPT, RELEASE, ACCEPT) == [None] * 3
    assert handle.acts == [
        (1, AcknowledgeType.ACCEPT), (2, AcknowledgeType.RELEASE), (7, AcknowledgeType.ACCEPT),
    ]  # fmt: skip


def test_one_partitions_failure_is_not_anothers(handle: Handle, consumer: ShareConsumer) -> None:
    handle.polls = [records(1, 2) + records(7, partition=1)]
    handle.commit = {HERE: LOST, THERE: None}
    # The callback of the partition that failed names its offsets, too.
    handle.during_commit = [({HERE: {1, 2}}, LOST), ({THERE: {7}}, None)]
    first, second, third = settled(consumer, ACCEPT, ACCEPT, ACCEPT)
    assert first == second == "_TRANSPORT: Local: Broker transport failure"
    assert third is None


def test_an_error_of_the_callback_alone_leaves_it_open(
    handle: Handle, consumer: ShareConsumer
) -> None:
    handle.polls, handle.commit = [records(1)], {HERE: None}
    handle.during_commit = [({HERE: {1}}, LOST)]
    assert settled(consumer, ACCEPT) == [UNKNOWN]


@pytest.mark.parametrize("commit", [{}, {THERE: None}, {HERE: None}], ids=str)
def test_what_no_answer_names_is_not_confirmed(
    handle: Handle, consumer: ShareConsumer, commit: Answer
) -> None:
    handle.polls, handle.commit = [records(1)], commit
    assert settled(consumer, ACCEPT) == [UNKNOWN]


def test_an_offset_that_was_not_named_is_not_confirmed(
    handle: Handle, consumer: ShareConsumer
) -> None:
    handle.polls, handle.commit = [records(1, 2)], {HERE: None}
    handle.during_commit = [({HERE: {2}, THERE: {1}}, None)]
    assert settled(consumer, ACCEPT, ACCEPT) == [UNKNOWN, None]


def test_a_late_answer_to_an_earlier_commit_confirms_no_later_one(
    handle: Handle, consumer: ShareConsumer
) -> None:
    handle.polls, handle.commit = [records(1), records(1)], {}
    assert settled(consumer, RELEASE) == [UNKNOWN]
    # It comes with the next poll, which delivers the same record once more.
    handle.during_poll, handle.commit = [({HERE: {1}}, None)], {HERE: None}
    assert settled(consumer, ACCEPT) == [UNKNOWN]
    # It comes while the next commit waits, which has no answer of its own.
    handle.polls, handle.commit = [records(1)], {}
    handle.during_commit = [({HERE: {1}}, None)]
    assert settled(consumer, ACCEPT) == [UNKNOWN]


@pytest.mark.parametrize("error", [LOST, STATE], ids=["kafka", "state"])
def test_what_the_handle_refuses_is_an_error_not_an_end(
    handle: Handle, consumer: ShareConsumer, error: Exception
) -> None:
    why = str(STATE) if error is STATE else "_TRANSPORT: Local: Broker transport failure"
    handle.polls = [error]
    failed = consumer.poll(0)
    assert (failed.error, len(failed.offsets)) == (why, 0)
    handle.polls, handle.commit = [records(1, 2)], {HERE: None}
    handle.during_commit, handle.refused = [({HERE: {1, 2}}, None)], {1: error}
    assert settled(consumer, ACCEPT, ACCEPT) == [why, None]
    handle.polls, handle.commit, handle.refused = [records(1, 2)], error, {}
    handle.during_commit = [({HERE: {1, 2}}, None)]
    assert settled(consumer, ACCEPT, ACCEPT) == [why, why]
    handle.fails = error
    with pytest.raises(GroupError, match=why):
        consumer.subscribe(["log-0"])
    consumer.close()


def test_an_event_of_a_partition_is_no_record(handle: Handle, consumer: ShareConsumer) -> None:
    event = Message(topic="log-0", partition=1, error=KafkaError(KafkaError._FAIL))
    handle.polls, handle.commit = [[*records(1), event]], {HERE: None}
    handle.during_commit = [({HERE: {1}}, None)]
    got = consumer.poll(0)
    assert got.error is not None
    assert (got.offsets.tolist(), list(got.delivery_counts or [])) == ([1], [2])
    assert list(consumer.acknowledge(got, [ACCEPT])) == [None]
