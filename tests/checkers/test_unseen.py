from checkers.unseen import INCOMPLETE_CHECKER, UNSEEN_CHECKER
from tests.checkers.hand import (
    A,
    B,
    ack,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    read,
    sentences,
    state,
)  # fmt: skip


def test_a_value_that_any_poll_returned_is_seen() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(A, 0, phase="main")], final_reads=[final_read(1)])
    result = found(UNSEEN_CHECKER, on)
    assert (result.rows, result.anomalies) == (1, ())


def test_a_value_in_the_log_that_no_poll_returned_is_unseen() -> None:
    on = group(
        sends=[ack(A, 0), ack(B, 1, op=2)],
        polls=[read(A, 0)],  # The final read is complete, and yet B was not in it.
        final_reads=[final_read(2)],
        leadership=[leads(1, 0)],
        replica_records=log("n1", (0, A), (0, B)),
        replica_states=[state("n1", 2)],
    )
    (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
    assert (anomaly.evidence["value"], anomaly.offset, anomaly.broken_premises) == (B, 1, ())


def test_a_lost_value_is_not_unseen_as_well() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(B, 1)], final_reads=[final_read(2)])
    assert found(UNSEEN_CHECKER, on).anomalies == ()


def test_without_complete_final_reads_nothing_is_unseen() -> None:
    on = group(sends=[ack(A, 0)], final_reads=[final_read(1, complete=False)])
    assert found(UNSEEN_CHECKER, on).rows == 0
    (sentence,) = sentences(INCOMPLETE_CHECKER, on)
    assert sentence == "the final read (read_uncommitted) of log-0-0 reached offset 0 of 1"


def test_a_partition_without_a_final_read_is_incomplete_and_one_with_it_is_not() -> None:
    assert len(sentences(INCOMPLETE_CHECKER, group(sends=[ack(A, 0)]))) == 1
    assert sentences(INCOMPLETE_CHECKER, group(final_reads=[final_read(1)])) == []


def test_a_partition_that_did_not_recover_is_not_trusted() -> None:
    on = group(facts(milestones=()), sends=[ack(A, 0)], final_reads=[final_read(1)])
    (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
    assert anomaly.broken_premises == ("recovered",)


def test_a_cut_stream_of_polls_makes_unseen_untrusted_and_nothing_excuses_it() -> None:
    rows = {"sends": [ack(A, 0)], "final_reads": [final_read(1)]}
    (cut,) = found(UNSEEN_CHECKER, group(facts(cut_streams=True), **rows)).anomalies
    assert (cut.broken_premises, cut.excuses) == (("whole-record",), ())
    weak = group(sends=[ack(A, 0, acks="1")], final_reads=[final_read(1)])
    assert found(UNSEEN_CHECKER, weak).anomalies[0].excuses == ("acks-0-1",)
