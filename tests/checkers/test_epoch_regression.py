"""Leader epochs only grow: in what brokers believe, along a log, and in its checkpoint."""

from checkers import epoch_regression
from checkers.facts import DiskLoss
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    state,
)  # fmt: skip

CHECKER = epoch_regression.CHECKER
CLEAN = (Milestone(name="stopped", at_ns=9, detail={"n1": "clean", "n2": "killed"}),)


def belief(
    epoch: int | None, begin: int, end: int, *, node: str = "n1", incarnation: int = 1,
    source: str = "metadata",
) -> Row:  # fmt: skip
    return {"source": source, "observer": node, "leader": 1, "leader_epoch": epoch,
            "incarnation": incarnation, "asked_ns": begin, "observed_ns": end}  # fmt: skip


def checkpoint(node: str, *lines: tuple[int, int], snapshot: str = "final") -> Row:
    epochs = [{"epoch": epoch, "start_offset": start} for epoch, start in lines]
    return {**state(node, 9, 9), "snapshot": snapshot, "epochs": epochs}


def test_epochs_that_grow_are_right_everywhere() -> None:
    records = log("n1", (0, A), (0, B), (3, C))
    on = group(
        facts(milestones=CLEAN),
        leadership=[belief(0, 1, 2), belief(3, 3, 4), belief(3, 5, 6),
                    belief(0, 1, 2, source="zookeeper"), elected(1, 0, 5), elected(2, 3, 6)],
        replica_records=records,
        replica_states=[checkpoint("n1", (0, 0), (1, 2), (3, 2))],  # Epoch 1 left no record.
    )  # fmt: skip
    result = found(CHECKER, on)
    # In metadata, ZooKeeper, metadata log and log all but the first; and against the checkpoint.
    assert (result.rows, result.anomalies, result.gaps) == (2 + 0 + 1 + 1 + 3, (), ())


def test_what_a_broker_believes_may_not_go_back_in_one_of_its_lives() -> None:
    for source, who in (("metadata", "n1's metadata"), ("zookeeper", "ZooKeeper")):
        rows = [belief(4, S, 2 * S, source=source), belief(3, 3 * S, 4 * S, source=source),
                belief(2, 5 * S, 6 * S, source=source)]  # fmt: skip
        (anomaly,) = found(CHECKER, group(leadership=rows)).anomalies
        assert anomaly.evidence == {
            "source": source,
            "node": "n1",
            "epoch": 3,
            "after": 4,
            "offset": None,
            "count": 2,
            "where": "reported at 2.000 s and asked again at 3.000 s",
            "times_ns": [2 * S, 3 * S],
        }
        assert anomaly.sentence == (
            f"the leader epoch of log-0-0 went back from 4 to 3 in {who} (2 in all): reported at"
            " 2.000 s and asked again at 3.000 s"
        )
        assert (anomaly.offset, anomaly.broken_premises) == (-1, ())
    one = [belief(4, 1, 2), belief(3, 3, 4)]
    assert "(2 in all)" not in found(CHECKER, group(leadership=one)).anomalies[0].sentence


def test_the_highest_epoch_that_had_been_told_counts_and_not_the_last_one() -> None:
    grown = [belief(1, 1, 2), belief(4, 3, 4), belief(3, 5, 6)]
    assert found(CHECKER, group(leadership=grown)).anomalies[0].evidence["after"] == 4
    rows = [belief(3, 3, 4), belief(4, 1, 2), belief(2, 5, 6)]
    (anomaly,) = found(CHECKER, group(leadership=rows)).anomalies
    assert (anomaly.evidence["after"], anomaly.evidence["count"]) == (4, 2)


def test_another_broker_another_life_and_answers_that_overlap_have_no_order() -> None:
    first = belief(4, 10, 20)
    for other in (
        belief(3, 30, 40, node="n2"),
        belief(3, 30, 40, incarnation=2),
        belief(3, 30, 40, source="zookeeper"),
        belief(3, 20, 40),  # Asked at the moment when the first one was answered.
        belief(3, 5, 15),
        belief(4, 30, 40),
        belief(None, 30, 40),
        {**belief(3, 30, 40), "asked_ns": None},
        {**belief(3, 30, 40), "observed_ns": None},
        belief(3, 30, 40, source="list-offsets"),
        belief(3, 30, 40, source="state-change-log"),
    ):
        assert found(CHECKER, group(leadership=[first, other])).anomalies == (), other
    assert len(found(CHECKER, group(leadership=[first, belief(3, 21, 40)])).anomalies) == 1


def written(epoch: int, log_offset: int, *, node: str = "n1") -> Row:
    return {**elected(1, epoch, log_offset), "observer": node}


def test_the_metadata_log_counts_in_its_own_order_below_the_quorums_mark() -> None:
    rows = [written(4, 98), written(3, 99)]
    (anomaly,) = found(CHECKER, group(leadership=rows)).anomalies
    assert (anomaly.evidence["source"], anomaly.evidence["epoch"]) == ("metadata-log", 3)
    assert (anomaly.evidence["after"], anomaly.broken_premises) == (4, ())
    assert anomaly.sentence == (
        "the leader epoch of log-0-0 went back from 4 to 3 in n1's metadata log: record 99 of the"
        " quorum's log"
    )
    died = facts(milestones=())
    assert found(CHECKER, group(died, leadership=rows)).anomalies[0].broken_premises == (
        "recovered",
    )
    for other in (
        [written(4, 98), written(3, 100)],  # It may yet be dropped.
        [written(4, 98), written(3, 97)],
        [written(4, 98), written(3, 99, node="n2")],
        [written(4, 98), written(4, 99)],
    ):
        assert found(CHECKER, group(leadership=other)).anomalies == (), other
    unknown = facts(quorum_high_watermark=None)
    assert found(CHECKER, group(unknown, leadership=[*rows, written(4, 0)])).rows == 0
    for stray in (
        {**written(3, 99), "log_offset": None},
        {**written(3, 99), "leader_epoch": None},
        {**written(3, 99), "source": "server-log"},
    ):
        result = found(CHECKER, group(leadership=[written(4, 98), stray]))
        assert (result.rows, result.anomalies) == (0, ()), stray
    assert found(CHECKER, group(leadership=[leads(1, 4), leads(1, 3)])).anomalies == ()


def test_along_a_log_no_epoch_is_smaller_than_one_before_it() -> None:
    on = group(replica_records=log("n2", (0, A), (4, B), (3, C), (-1, A), (4, B), (2, C)))
    result = found(CHECKER, on)
    (anomaly,) = result.anomalies
    assert (result.rows, anomaly.offset) == (4, 2)
    assert anomaly.evidence["count"] == 2
    assert anomaly.sentence == (
        "in n2's log of log-0-0, the record at offset 2 has epoch 3, and a record before it has"
        " epoch 4 (2 in all) (final)"
    )
    assert anomaly.evidence["times_ns"] == []
    to_zero = group(replica_records=log("n2", (4, A), (0, B)))
    assert found(CHECKER, to_zero).anomalies[0].evidence["epoch"] == 0
    missing = group(replica_records=log("n2", (1, A), (-1, B), (1, C)))
    assert (found(CHECKER, missing).rows, found(CHECKER, missing).anomalies) == (1, ())


def test_many_copies_of_a_log_tell_of_one_fall() -> None:
    records = [(4, A), (3, B)]
    both = [*log("n1", *records, snapshot="step-01"), *log("n1", *records)]
    (anomaly,) = found(CHECKER, group(replica_records=both)).anomalies
    assert anomaly.evidence["where"] == "final"
    two = found(CHECKER, group(replica_records=[*log("n1", *records), *log("n2", *records)]))
    assert [each.evidence["node"] for each in two.anomalies] == ["n1", "n2"]


def test_a_record_lies_where_the_checkpoint_says_that_its_epoch_was() -> None:
    records = [(0, A), (0, B), (2, C), (2, A)]
    for lines, wrong, where in (
        (((0, 0), (2, 2)), [], ""),
        (((0, 0), (1, 1), (2, 2)), [(0, 1, 1)], "offsets 0 to 0"),
        (((0, 0), (2, 1)), [(0, 1, 1)], "offsets 0 to 0"),
        (((0, 0), (2, 3)), [(2, 2, 1)], "offsets from 3 on"),
        (((0, 0),), [(2, 2, 2)], "no offset"),
        (((0, 1), (2, 2)), [(0, 0, 1)], "offsets 1 to 1"),
        (((0, 0), (2, 2), (3, 3)), [(2, 3, 1)], "offsets 2 to 2"),
        (((0, 0), (2, 2), (3, 4)), [], ""),
    ):
        on = group(
            facts(milestones=CLEAN), replica_records=log("n1", *records),
            replica_states=[checkpoint("n1", *lines)],
        )  # fmt: skip
        result = found(CHECKER, on)
        assert result.rows == 3 + 4
        told = [
            (each.evidence["epoch"], each.evidence["offset"], each.evidence["count"])
            for each in result.anomalies
        ]
        assert told == wrong, lines
        assert all(each.evidence["where"] == where for each in result.anomalies), lines


def test_records_below_the_start_of_the_log_are_deleted_and_their_lines_gone() -> None:
    about, records = facts(milestones=CLEAN), log("n1", (0, A), (0, B), (1, C))
    for start, count in ((2, 0), (1, 1)):
        told = {**checkpoint("n1", (1, 2)), "log_start_offset": start}
        on = group(about, replica_records=records, replica_states=[told])
        assert len(found(CHECKER, on).anomalies) == count, start


def test_an_epoch_that_has_no_line_is_outside_of_all_others() -> None:
    for lines, records, wrong in (
        (((0, 0),), [(0, A), (1, B)], (1, 1)),
        (((0, 0), (2, 1)), [(0, A), (1, B), (2, C)], (1, 1)),
        (((2, 0),), [(0, A), (2, B)], (0, 0)),
    ):
        on = group(
            facts(milestones=CLEAN), replica_records=log("n1", *records),
            replica_states=[checkpoint("n1", *lines)],
        )  # fmt: skip
        (anomaly,) = found(CHECKER, on).anomalies
        assert (anomaly.evidence["epoch"], anomaly.offset) == wrong, lines
        assert anomaly.evidence["where"] == "no offset"


def test_a_wrong_checkpoint_is_told_in_words() -> None:
    on = group(
        facts(milestones=CLEAN), replica_records=log("n1", (0, A), (0, B), (0, C)),
        replica_states=[checkpoint("n1", (0, 0), (1, 1))],
    )  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.sentence == (
        "in n1's log of log-0-0, the record at offset 1 has epoch 0, to which its checkpoint"
        " assigns offsets 0 to 0 (2 records of that epoch)"
    )
    assert (anomaly.offset, anomaly.evidence["after"]) == (1, None)


def test_a_log_with_epochs_and_a_checkpoint_without_a_line_do_not_go_together() -> None:
    read: Row = {"milestones": CLEAN, "collected_nodes": frozenset({"n1", "n2"})}
    lost = DiskLoss(
        nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=5, end_before=9,
        until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    unread = frozenset({"n1"})
    records = log("n1", (-1, A), (0, A), (0, B), (2, C))
    for about, states, records_of, count in (
        (facts(**read), [checkpoint("n1")], records, 2),
        (facts(**read), [{**checkpoint("n1"), "epochs": None}], records, 0),
        (facts(**read), [checkpoint("n2")], log("n2", (0, A)), 0),
        (facts(**read), [checkpoint("n1")], log("n1", (-1, A)), 0),
        (facts(**read), [{**checkpoint("n1"), "log_start_offset": 4}], records, 0),
        (facts(**read, unreadable_nodes=unread), [checkpoint("n1")], records, 0),
        (facts(**read, disk_losses=(lost,)), [checkpoint("n1")], records, 0),
        (facts(milestones=CLEAN), [checkpoint("n1")], records, 0),
    ):
        on = group(about, replica_records=records_of, replica_states=states)
        assert len(found(CHECKER, on).anomalies) == count
    on = group(facts(**read), replica_records=records, replica_states=[checkpoint("n1")])
    assert found(CHECKER, on).anomalies[0].sentence == (
        "in n1's log of log-0-0, the record at offset 1 has epoch 0, to which its checkpoint"
        " assigns no offset (2 records of that epoch)"
    )


def test_the_checkpoint_of_a_killed_broker_or_of_a_step_proves_nothing() -> None:
    about = facts(milestones=CLEAN)
    killed = group(
        about, replica_records=log("n2", (4, A)), replica_states=[checkpoint("n2", (3, 0))]
    )
    assert found(CHECKER, killed).anomalies == ()
    step = group(
        about, replica_records=log("n1", (4, A)),
        replica_states=[checkpoint("n1", (3, 0), snapshot="step-01")],
    )  # fmt: skip
    assert found(CHECKER, step).anomalies == ()
    wordless = {**checkpoint("n1"), "epochs": [{"epoch": None, "start_offset": 0}]}
    unread = group(about, replica_records=log("n1", (4, A)), replica_states=[wordless])
    assert found(epoch_regression.CHECKER, unread).anomalies == ()
    no_epoch = group(
        about, replica_records=log("n1", (-1, A)), replica_states=[checkpoint("n1", (3, 5))]
    )
    assert found(CHECKER, no_epoch).anomalies == ()
    never_stopped = group(
        facts(milestones=()), replica_records=log("n1", (4, A)),
        replica_states=[checkpoint("n1", (3, 0))],
    )  # fmt: skip
    assert found(CHECKER, never_stopped).anomalies == ()
