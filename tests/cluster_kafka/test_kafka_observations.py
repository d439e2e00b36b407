from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cluster.kafka.configuration import Endpoint
from cluster.kafka.failures import sentence
from cluster.kafka.observer import Observer
from cluster.kafka.rows import Leadership, Moment, ReplicaEnds, RowMaker
from cluster.kafka.thinning import GROWING_NS, Thinning
from cluster.protocol import ClusterError, UserError
from results.record.clock import NS_PER_S, RunClock
from results.record.tables import LIVE

PLACE = ("log-0", 3)


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
    assert str(told) == "the broker of n1 ended; its last words: one | two"


class _Broken:
    """A cluster of one node at whose questions our own code fails."""

    def __init__(self) -> None:
        self.nodes: Sequence[str] = ("n1",)
        self.controllers: Sequence[str] = ()
        self.zookeeper: str | None = None
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
    assert observer.failures() == ["the observer of n1 ended before its time"]
