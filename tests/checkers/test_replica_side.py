import pytest

from checkers import log_divergence, two_leaders
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    elected,
    facts,
    found,
    group,
    isr,
    leads,
    log,
    state,
)  # fmt: skip


def test_equal_logs_do_not_diverge_and_a_tail_above_the_high_watermark_may() -> None:
    on = group(
        replica_records=[*log("n1", (0, A), (0, B)), *log("n2", (0, A), (1, C))],
        replica_states=[state("n1", 2, 1), state("n2", 2, 1)],  # Offset 1 is not committed.
    )
    result = found(log_divergence.CHECKER, on)
    assert (result.rows, result.anomalies) == (1, ())


def test_logs_that_differ_below_both_high_watermarks_diverge() -> None:
    on = group(
        replica_records=[*log("n1", (0, A), (0, B)), *log("n2", (0, A), (1, C))],
        replica_states=[state("n1", 2, 2), state("n2", 2, 2)],
    )
    (anomaly,) = found(log_divergence.CHECKER, on).anomalies
    assert anomaly.evidence["nodes"] == ["n1", "n2"]
    assert (anomaly.evidence["first_offset"], anomaly.evidence["differing"]) == (1, 1)


def test_one_high_watermark_alone_is_not_enough() -> None:
    on = group(
        replica_records=[*log("n1", (0, A)), *log("n2", (1, C))],
        replica_states=[state("n1", 1, 1), state("n2", 1, None)],
    )
    assert found(log_divergence.CHECKER, on).rows == 0


def test_after_recovery_isr_members_must_agree_up_to_the_shorter_end() -> None:
    rows = {
        "replica_records": [*log("n1", (0, A), (0, B)), *log("n2", (0, A), (1, C), (1, A))],
        "replica_states": [state("n1", 2), state("n2", 3)],
        "leadership": [isr(1, 2)],
    }
    (anomaly,) = found(log_divergence.CHECKER, group(**rows)).anomalies
    assert (anomaly.offset, anomaly.evidence["bound"]) == (1, 2)
    unrecovered = group(facts(milestones=()), **rows)
    assert found(log_divergence.CHECKER, unrecovered).anomalies == ()
    rows["leadership"] = [isr(2)]  # Broker 1 is not in the ISR.
    assert found(log_divergence.CHECKER, group(**rows)).anomalies == ()


def test_a_record_that_only_one_side_has_is_a_divergence_but_not_with_compaction() -> None:
    rows = {
        "replica_records": [*log("n1", (0, A), (0, B)), *log("n2", (0, A))],
        "replica_states": [state("n1", 2, 2), state("n2", 2, 2)],
    }
    (anomaly,) = found(log_divergence.CHECKER, group(**rows)).anomalies
    assert "n2: no record" in anomaly.sentence
    assert anomaly.broken_premises == ("readable-final-logs",)  # n2's end was noted as 2.
    compacted = facts(plan={"broker": {"log.cleanup.policy": "compact"}})
    assert found(log_divergence.CHECKER, group(compacted, **rows)).anomalies == ()


def test_offsets_below_the_larger_log_start_are_not_compared() -> None:
    on = group(
        replica_records=[*log("n1", (0, A), (0, B)), *log("n2", (0, B), start=1)],
        replica_states=[state("n1", 2, 2), state("n2", 2, 2, start=1)],
    )
    assert found(log_divergence.CHECKER, on).anomalies == ()


def test_an_unclean_election_excuses_a_replica_until_it_is_back_in_the_isr() -> None:
    unclean = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    rows = {
        "replica_records": [*log("n1", (0, A)), *log("n2", (1, C))],
        "replica_states": [state("n1", 1, 1), state("n2", 1, 1)],
    }
    seen = elected(2, 1, 5, unclean=True)
    outside = group(unclean, **rows, leadership=[isr(2), seen])
    assert found(log_divergence.CHECKER, outside).anomalies[0].excuses == ("unclean-election",)
    back = group(unclean, **rows, leadership=[isr(1, 2), seen])
    assert found(log_divergence.CHECKER, back).anomalies[0].excuses == ()


def test_an_old_leader_that_answers_in_its_old_epoch_is_no_second_leader() -> None:
    on = group(leadership=[leads(1, 4), leads(2, 5, at=2 * S), leads(1, 4, at=3 * S)])
    result = found(two_leaders.CHECKER, on)
    assert (result.rows, result.anomalies) == (1, ())


def test_two_brokers_that_answer_as_leader_in_one_epoch_are_two_leaders() -> None:
    (anomaly,) = found(two_leaders.CHECKER, group(leadership=[leads(1, 4), leads(2, 4)])).anomalies
    assert (anomaly.evidence["leaders"], anomaly.evidence["epoch"]) == (["n1", "n2"], 4)


def test_no_leader_is_none() -> None:
    assert found(two_leaders.CHECKER, group(leadership=[leads(1, 4), leads(-1, 4)])).anomalies == ()


def test_the_metadata_log_counts_below_the_quorums_high_watermark_only() -> None:
    committed = group(leadership=[elected(1, 4, 98), elected(2, 4, 99)])
    assert len(found(two_leaders.CHECKER, committed).anomalies) == 1
    above = group(leadership=[elected(1, 4, 98), elected(2, 4, 100)])
    assert found(two_leaders.CHECKER, above).anomalies == ()


def test_without_a_recovery_a_metadata_log_may_hold_what_the_others_dropped() -> None:
    rows = [elected(1, 4, 98), elected(2, 4, 99)]
    (anomaly,) = found(two_leaders.CHECKER, group(leadership=rows)).anomalies
    assert anomaly.broken_premises == ()
    died = facts(milestones=())
    (anomaly,) = found(two_leaders.CHECKER, group(died, leadership=rows)).anomalies
    assert anomaly.broken_premises == ("recovered",)
    (asked,) = found(
        two_leaders.CHECKER, group(died, leadership=[leads(1, 4), leads(2, 4)])
    ).anomalies
    assert asked.broken_premises == ()  # Who answered as leader did so, whatever came after.


def test_two_records_of_one_epoch_at_one_offset_were_written_by_two_leaders() -> None:
    on = group(replica_records=[*log("n1", (3, A)), *log("n2", (3, B))])
    (anomaly,) = found(two_leaders.CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.evidence["source"]) == (0, "replica-records")
    unknown_epoch = group(replica_records=[*log("n1", (-1, A)), *log("n2", (-1, B))])
    assert found(two_leaders.CHECKER, unknown_epoch).anomalies == ()
    two_epochs = group(replica_records=[*log("n1", (3, A)), *log("n2", (4, B))])
    assert found(two_leaders.CHECKER, two_epochs).anomalies == ()


@pytest.mark.parametrize(
    ("epochs", "mark", "expected"),
    [((4, 5), 1, 0), ((5, 6), 1, 0), ((4, 5), 2, 1), ((3, 4), 1, 1)],
)
def test_leaders_of_a_stop_may_each_write_a_marker_at_one_offset(
    epochs: tuple[int, int], mark: int, expected: int
) -> None:
    """A coordinator repeats a marker at the next leader, while brokers stop in turn."""
    logs = {f"n{at}": log(f"n{at}", (3, A), (epoch, B)) for at, epoch in enumerate(epochs, start=1)}
    markers = [{**rows[1], "control": True} for rows in logs.values()]
    ended = [elected(at, epoch, 9 + at) for at, epoch in enumerate(epochs, start=1)]
    on = group(
        facts(plan={"workload": "txn"}),
        leadership=[isr(1, 2, epoch=4), *ended],
        replica_records=[row for rows in logs.values() for row in rows[:1]] + markers,
        replica_states=[state(node, 2, mark) for node in logs],
    )
    assert len(found(log_divergence.CHECKER, on).anomalies) == expected


def test_an_isr_member_without_a_log_is_a_gap() -> None:
    rows = {
        "replica_records": [*log("n1", (0, A)), *log("n2", (0, A))],
        "replica_states": [state("n1", 1, 1), state("n2", 1, 1)],
    }
    absent = found(log_divergence.CHECKER, group(**rows, leadership=[isr(1, 2, 3)]))
    assert absent.gaps == ("the log of log-0-0 on n3, which is in the ISR, is missing",)
    assert found(log_divergence.CHECKER, group(**rows, leadership=[isr(1, 2)])).gaps == ()


def test_an_epoch_or_a_control_mark_alone_is_a_difference() -> None:
    states = [state("n1", 1, 1), state("n2", 1, 1)]
    epochs = group(replica_records=[*log("n1", (0, A)), *log("n2", (1, A))], replica_states=states)
    assert len(found(log_divergence.CHECKER, epochs).anomalies) == 1
    marked = [{**row, "control": True} for row in log("n2", (0, A))]
    on = group(replica_records=[*log("n1", (0, A)), *marked], replica_states=states)
    assert len(found(log_divergence.CHECKER, on).anomalies) == 1
    assert len(found(two_leaders.CHECKER, on).anomalies) == 1


def test_without_a_known_quorum_high_watermark_the_metadata_log_proves_nothing() -> None:
    on = group(facts(quorum_high_watermark=None), leadership=[elected(1, 4, 8), elected(2, 4, 9)])
    assert found(two_leaders.CHECKER, on).anomalies == ()
