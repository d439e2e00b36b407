import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse as QuorumAnswer
from kio.schema.describe_quorum.v1.response import PartitionData as QuorumPartition
from kio.schema.describe_quorum.v1.response import ReplicaState
from kio.schema.describe_quorum.v1.response import TopicData as QuorumTopic
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13.response import FetchableTopicResponse, LeaderIdAndEpoch
from kio.schema.fetch.v13.response import FetchResponse as QuorumFetch
from kio.schema.fetch.v13.response import PartitionData as QuorumFetchPartition
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from cluster.kafka import rows
from cluster.kafka.failures import sentence
from cluster.kafka.observer import Observer
from cluster.kafka.rows import Leadership, Moment, QuorumState, ReplicaEnds, RowMaker
from cluster.kafka.thinning import GROWING_NS, Thinning
from cluster.kafka.watching import Watch, Write
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterError, Endpoint, UserError
from results.record.clock import NS_PER_S, RunClock, wait_until
from results.record.declared import Sight
from results.record.stream import read_stream
from results.record.tables import LIVE

PLACE = ("log-0", 3)
LIMIT_S = 60


def moment(at_s: float, *, incarnation: int = 1, snapshot: str | None = None) -> Moment:
    at_ns = int(at_s * NS_PER_S)
    return Moment(
        asked_ns=at_ns - 1000, observed_ns=at_ns, incarnation=incarnation, snapshot=snapshot
    )


def test_what_decides_is_written_whenever_it_changes_and_only_then() -> None:
    thinning = Thinning()
    epochs = [0, 0, 1, 1, 0]
    due = [thinning.is_due("p", at_ns=at, deciding=epoch) for at, epoch in enumerate(epochs)]
    assert due == [True, False, True, False, True]


def test_numbers_that_grow_are_written_at_most_twice_a_second_and_the_last_one_is() -> None:
    thinning = Thinning()
    moments = [(at * GROWING_NS // 5, min(at, 7)) for at in range(15)]
    written = [
        number
        for at_ns, number in moments
        if thinning.is_due("p", at_ns=at_ns, deciding=None, growing=(number,))
    ]
    assert written == [0, 5, 7]


def test_a_number_that_went_back_is_written_at_once() -> None:
    thinning = Thinning()
    assert thinning.is_due("p", at_ns=0, deciding=None, growing=(10, 5))
    assert thinning.is_due("p", at_ns=1, deciding=None, growing=(10, 4))


def test_a_leader_repeats_itself_though_nothing_changed() -> None:
    thinning = Thinning(repeat_ns=100)
    due = [thinning.is_due("p", at_ns=at, deciding=0) for at in (0, 99, 100, 150, 200)]
    assert due == [True, False, True, False, True]


def test_a_claim_of_leadership_announces_its_high_watermark() -> None:
    maker = RowMaker("n2", {"log-0": "id-0"})
    said = Leadership(place=PLACE, topic_id="id-0", leader=2, leader_epoch=4, high_watermark=17)
    row = maker.leadership("list-offsets", said, moment(1))
    assert row is not None
    named = dict(zip(LIVE["leadership"].names, row, strict=True))
    assert named["leader"] == 2
    assert named["observer"] == "n2"
    assert named["high_watermark"] == 17
    assert named["asked_ns"] == NS_PER_S - 1000
    assert named["isr"] is None


def test_a_replica_that_was_restarted_gets_a_row_though_its_numbers_are_the_same() -> None:
    maker = RowMaker("n2", {"log-0": "id-0"})
    ends = ReplicaEnds(high_watermark=5, last_stable_offset=5, log_start_offset=0)
    assert maker.replica(PLACE, 5, ends=ends, at=moment(1)) is not None
    assert maker.replica(PLACE, 5, ends=ends, at=moment(2)) is None
    assert maker.replica(PLACE, 5, ends=ends, at=moment(3, incarnation=2)) is not None


def test_the_last_look_writes_every_replica() -> None:
    maker = RowMaker("n2", {"log-0": "id-0"})
    ends = ReplicaEnds(high_watermark=5, last_stable_offset=5, log_start_offset=0)
    maker.replica(PLACE, 5, ends=ends, at=moment(1))
    row = maker.replica(PLACE, 5, ends=ends, at=moment(1.1, snapshot="noted"))
    assert row is not None
    named = dict(zip(LIVE["replica_states"].names, row, strict=True))
    assert named["snapshot"] == "noted"
    assert named["high_watermark_source"] == "fetch"
    assert named["high_watermark_ns"] == named["observed_ns"]


def test_a_replica_whose_high_watermark_is_unknown_has_none_and_no_source() -> None:
    maker = RowMaker("n2", {"log-0": "id-0"})
    row = maker.replica(PLACE, 5, ends=None, at=moment(1))
    assert row is not None
    named = dict(zip(LIVE["replica_states"].names, row, strict=True))
    assert named["high_watermark"] is None
    assert named["high_watermark_source"] is None
    assert named["log_end_offset"] == 5


def test_last_words_become_a_sentence_with_the_remedy() -> None:
    told = sentence(
        "the broker of n1 ended",
        "org.apache.kafka.common.config.ConfigException: Invalid value abc for configuration"
        " log.segment.bytes: Not a number of type INT\n\tat org.apache.kafka",
    )
    assert isinstance(told, UserError)
    assert "Invalid value abc for configuration log.segment.bytes" in str(told)
    assert "--set" in str(told)
    taken = sentence("x", "Socket server failed to bind to 127.0.0.1:9092: Address already in use.")
    assert "its port is in use (127.0.0.1:9092)" in str(taken)
    assert "disk is full" in str(sentence("x", "java.io.IOException: No space left on device"))


def test_last_words_that_nobody_knows_are_quoted() -> None:
    told = sentence("the broker of n1 ended", "one\n\ntwo\n")
    assert not isinstance(told, UserError)
    assert isinstance(told, ClusterError)
    assert str(told) == "the broker of n1 ended; its last output: one | two"


class _Broken:
    """A cluster of one node at whose questions our own code fails."""

    def __init__(self) -> None:
        self.nodes: Sequence[str] = ("n1",)
        self.controllers: Sequence[str] = ()
        self.zookeeper: str | None = None
        self.sees = frozenset(Sight)
        at = Endpoint(host="127.0.0.1", broker_port=1, controller_port=2)
        self.endpoints: Mapping[str, Endpoint] = {"n1": at}

    def incarnation(self, node: str) -> int:
        raise KeyError(node)

    def answers(self, node: str) -> bool:
        return node in self.nodes


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_observer_that_ends_by_a_bug_says_so_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    observer = Observer(_Broken(), [], clock=RunClock.starting_now(), live=tmp_path)
    observer.start()
    assert observer.note(timeout_s=60) == frozenset()
    observer.stop()
    assert observer.failures() == ["the observer of n1 ended too early"]


class _Counting:
    """Rounds of our own: each writes a row, and may have to wait in its midst."""

    tables: Sequence[str] = ("leadership",)

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.silent = False
        self.maker = RowMaker("n2", {"log-0": "id-0"})

    def look(self, snapshot: str | None, write: Write) -> None:
        self.entered.set()
        assert self.may_go_on.wait(LIMIT_S)
        if self.silent:
            raise WireError("nobody is there")
        said = Leadership(place=PLACE, topic_id="id-0", leader=2, leader_epoch=4)
        write(
            "leadership", [self.maker.leadership("zookeeper", said, moment(1, snapshot=snapshot))]
        )

    def close(self) -> None:
        self.may_go_on.set()


def written(live: Path) -> int:
    return sum(batch.num_rows for batch in read_stream(next(live.glob("leadership.*"))))


def test_a_wish_is_a_round_that_is_written_whole(tmp_path: Path) -> None:
    watch = Watch("n2", _Counting())
    watch.start(tmp_path)
    for number in range(1, 4):
        wish = watch.want(f"step-{number}")
        wait_until(lambda wish=wish: wish.done, timeout_s=LIMIT_S, what="the round")  # type: ignore[misc]  # Bound.
    watch.ask_to_stop()
    watch.stop()
    assert watch.failure is None
    assert written(tmp_path) in (3, 4)  # The first round may have been before the first wish.


def test_of_a_wish_that_was_given_up_nothing_is_written(tmp_path: Path) -> None:
    rounds = _Counting()
    rounds.may_go_on.clear()
    watch = Watch("n2", rounds)
    wish = watch.want("step-1")
    watch.start(tmp_path)
    assert rounds.entered.wait(LIMIT_S)
    watch.withdraw(wish)
    watch.ask_to_stop()
    rounds.may_go_on.set()
    watch.stop()
    assert written(tmp_path) == 0


def test_a_round_that_nobody_answered_fulfils_no_wish(tmp_path: Path) -> None:
    rounds = _Counting()
    rounds.silent = True
    watch = Watch("n2", rounds)
    wish = watch.want("step-1")
    watch.start(tmp_path)
    assert rounds.entered.wait(LIMIT_S)
    rounds.entered.clear()
    assert rounds.entered.wait(LIMIT_S)
    assert not wish.done
    rounds.silent = False
    wait_until(lambda: wish.done, timeout_s=LIMIT_S, what="the round that is answered")
    watch.ask_to_stop()
    watch.stop()


def test_a_leader_epoch_that_was_not_told_is_null() -> None:
    said = Leadership(place=PLACE, topic_id="id-0", leader=2, leader_epoch=-1, isr=(1, 2))
    row = RowMaker("n2", {"log-0": "id-0"}).leadership("metadata", said, moment(1))
    assert row is not None
    named = dict(zip(LIVE["leadership"].names, row, strict=True))
    assert named["leader_epoch"] is None
    assert named["isr"] == [1, 2]


def quorum_told(leader: int, voters: Sequence[int], observers: Sequence[int]) -> QuorumAnswer:
    def ends(ids: Sequence[int]) -> tuple[ReplicaState, ...]:
        return tuple(
            ReplicaState(replica_id=BrokerId(each), log_end_offset=i64(100 + each)) for each in ids
        )

    partition = QuorumPartition(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        leader_id=BrokerId(leader),
        leader_epoch=i32(5),
        high_watermark=i64(90),
        current_voters=ends(voters),
        observers=ends(observers),
    )
    topic = QuorumTopic(topic_name=TopicName("__cluster_metadata"), partitions=(partition,))
    return QuorumAnswer(error_code=ErrorCode.none, topics=(topic,))


@pytest.mark.parametrize(
    ("node", "role", "end"),
    [("n101", "leader", 201), ("n102", "follower", 202), ("n1", "observer", 101)],
)
def test_the_quorums_leader_tells_everybodys_part(node: str, role: str, end: int) -> None:
    state = rows.quorum_state(quorum_told(101, [101, 102], [1]), node)
    assert state is not None
    assert (state.role, state.log_end_offset, state.leader, state.epoch) == (role, end, 101, 5)


@pytest.mark.parametrize(
    ("leader", "role"), [(101, "leader"), (102, "follower"), (-1, None)], ids=str
)
def test_a_controller_says_whom_it_takes_for_the_leader(leader: int, role: str | None) -> None:
    told = QuorumFetchPartition(
        partition_index=i32(0),
        error_code=ErrorCode.invalid_request,
        high_watermark=i64(-1),
        current_leader=LeaderIdAndEpoch(leader_id=BrokerId(leader), leader_epoch=i32(7)),
        aborted_transactions=None,
        records=None,
    )
    answer = QuorumFetch(
        throttle_time=i32Timedelta.parse(timedelta()),
        error_code=ErrorCode.none,
        responses=(FetchableTopicResponse(topic_id=UUID(int=1), partitions=(told,)),),
    )
    state = rows.quorum_belief(answer, "n101")
    assert state == QuorumState(role=role, epoch=7, leader=leader)
