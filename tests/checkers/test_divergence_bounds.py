"""Up to where replicas must agree, and what a log that could not be read takes from a finding."""

from dataclasses import replace

import pytest

from checkers import log_divergence
from checkers.facts import DiskLoss, RunFacts
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    facts,
    found,
    group,
    isr,
    leads,
    log,
    reasons,
    state,
)

CHECKER = log_divergence.CHECKER
Rows = dict[str, list[Row]]
EQUAL, OTHER = ((0, A), (0, B), (0, C)), ((0, A), (0, B), (1, A))
"""They differ at offset 2."""


def rows(*marks: int | None, ends: tuple[int, int] = (3, 3), members: tuple[int, ...] = ()) -> Rows:
    """n1 and n2 with their high watermarks and noted ends, and the ISR at the end."""
    return {
        "replica_records": [*log("n1", *EQUAL), *log("n2", *OTHER)],
        "replica_states": [
            state(node, end, mark)
            for node, end, mark in zip(("n1", "n2"), ends, marks, strict=True)
        ],
        "leadership": [isr(*members)] if members else [],
    }


def bound(on: Rows, about: RunFacts | None = None) -> int:
    return found(CHECKER, group(about, **on) if about else group(**on)).rows


@pytest.mark.parametrize(
    ("marks", "members", "offsets"),
    [
        ((2, 3), (), 2),
        ((3, 2), (), 2),
        ((3, 3), (), 3),
        ((1, 1), (1, 2), 3),  # In the ISR both, to the end of the shorter log.
        ((1, 1), (1, 2, 3), 3),
        ((1, 1), (1, 3), 1),
        ((1, 1), (2,), 1),
        ((None, 3), (), 0),
        ((None, None), (1, 2), 3),
    ],
)
def test_the_bound_is_both_marks_or_in_the_isr_the_shorter_end(
    marks: tuple[int | None, int | None], members: tuple[int, ...], offsets: int
) -> None:
    on = rows(*marks, members=members)
    assert bound(on) == offsets
    assert len(found(CHECKER, group(**on)).anomalies) == (offsets == 3)


def test_marks_beyond_the_shorter_end_are_a_promise_too() -> None:
    on = rows(3, 3, members=(1, 2))
    on["replica_records"] = [*log("n1", *EQUAL), *log("n2", *EQUAL[:2])]
    on["replica_states"] = [state("n1", 3, 3), state("n2", 2, 3)]
    (anomaly,) = found(CHECKER, group(**on)).anomalies
    assert (anomaly.offset, anomaly.evidence["bound"]) == (2, 3)


def test_only_the_final_logs_are_held_to_the_isr_and_only_after_a_recovery() -> None:
    on = rows(1, 1, members=(1, 2))
    assert bound(on, facts(milestones=())) == 1
    for name in ("replica_records", "replica_states"):
        on[name] = [{**row, "snapshot": "crash"} for row in on[name]]
    assert bound(on) == 1


def test_the_isr_is_that_of_the_highest_epoch_and_of_that_the_last_one_seen() -> None:
    on = rows(1, 1)
    late, early = {**isr(1, 2, epoch=5), "observed_ns": 9 * S}, isr(1, epoch=5)
    old = {**isr(1, epoch=4), "observed_ns": 10 * S}
    for told, offsets in (([late, early, old], 3), ([{**late, "isr": [1]}, isr(1, 2, epoch=5)], 1)):
        assert bound({**on, "leadership": told}) == offsets


def test_the_isr_that_zookeeper_named_before_the_observer_lost_it_is_not_the_last_one() -> None:
    """n2 led epoch 0, and had a record that n1, the leader of epoch 1, had replaced."""
    on = rows(2, 2)
    on["replica_records"] = [*log("n1", *EQUAL[:2], (1, C)), *log("n2", *EQUAL)]
    named = {**isr(2, 1), "source": "zookeeper", "observer": "zk"}

    def judged(last_s: int) -> tuple[int, tuple[str, ...]]:
        result = found(CHECKER, group(**{**on, "leadership": [named, leads(1, 1, at=last_s * S)]}))
        return len(result.anomalies), result.gaps

    assert judged(11) == (1, ())
    unknown = "ZooKeeper did not answer to the end, so the last ISR of log-0-0 is unknown"
    assert judged(12) == (0, (unknown,))


def test_a_difference_of_two_records_needs_no_log_to_be_whole() -> None:
    on = rows(3, 3, ends=(4, 4))  # The files of both end before what was noted.
    (anomaly,) = found(CHECKER, group(**on)).anomalies
    assert anomaly.broken_premises == ()
    unreadable = facts(unreadable_nodes=frozenset({"n1", "n2"}))
    assert found(CHECKER, group(unreadable, **rows(3, 3))).anomalies[0].broken_premises == ()


@pytest.mark.parametrize("unread", ["n1", "n2"])
def test_a_record_that_one_side_lacks_does(unread: str) -> None:
    on = rows(3, 3)
    on["replica_records"] = [
        row for row in log("n1", *EQUAL) if row["offset"] != 1
    ] + log("n2", *EQUAL)  # fmt: skip
    (anomaly,) = found(CHECKER, group(**on)).anomalies
    assert (anomaly.offset, anomaly.broken_premises) == (1, ())
    about = facts(unreadable_nodes=frozenset({unread}))
    (doubtful,) = found(CHECKER, group(about, **on)).anomalies
    assert doubtful.broken_premises == ("readable-final-logs",)
    ends = (4, 3) if unread == "n1" else (3, 4)
    on["replica_states"] = rows(3, 3, ends=ends)["replica_states"]
    (short,) = found(CHECKER, group(**on)).anomalies
    assert short.broken_premises == ("readable-final-logs",)
    elsewhere = facts(unreadable_nodes=frozenset({f"step-01/{unread}", "n3"}))
    on["replica_states"] = rows(3, 3)["replica_states"]
    assert found(CHECKER, group(elsewhere, **on)).anomalies[0].broken_premises == ()


def test_where_and_how_much_replicas_differ_is_told() -> None:
    on = rows(3, 3)
    on["replica_records"] = [*log("n1", *EQUAL), *log("n2", (0, C), (0, B), (-1, A))]
    (anomaly,) = found(CHECKER, group(**on)).anomalies
    names = ("first_offset", "last_offset", "differing", "bound", "nodes", "snapshots")
    assert [anomaly.evidence[name] for name in names] == [0, 2, 2, 3, ["n1", "n2"], ["final"]]
    assert anomaly.evidence["records"] == [
        f"epoch 0, hash {A * 7}, control 0", f"epoch 0, hash {C * 7}, control 0",
    ]  # fmt: skip
    assert "differ at 2 offsets, first at 0, of log-0-0, below offset 3" in anomaly.sentence


def test_the_larger_log_start_is_where_both_begin() -> None:
    for starts in ((1, 2), (2, 1)):
        on = rows(3, 3)
        on["replica_states"] = [
            state(node, 3, 3, start=start) for node, start in zip(("n1", "n2"), starts, strict=True)
        ]
        assert bound(on) == 1
        on["replica_records"] = [*log("n1", *EQUAL), *log("n2", (0, A), (0, C), (0, C))]
        assert found(CHECKER, group(**on)).anomalies == ()


def test_one_replica_has_nobody_to_differ_from() -> None:
    assert not CHECKER.applies(facts(plan={"replication": 1, "nodes": 1, "min_insync": 1}))
    assert CHECKER.applies(facts(plan={"replication": 2}))


def test_a_difference_of_two_records_counts_although_a_log_was_not_read_to_its_end() -> None:
    on: Rows = {
        "replica_records": [*log("n1", *EQUAL), *log("n2", (1, B), (0, B)),
                            *log("n3", (2, C), (0, B), (0, C))],
        "replica_states": [state(node, 3, 3) for node in ("n1", "n2", "n3")],
    }  # fmt: skip
    part = group(facts(unreadable_nodes=frozenset({"n2"})), **on)
    told = found(CHECKER, part).anomalies
    trusted = [each for each in told if not each.broken_premises]
    assert [each.evidence["nodes"] for each in trusted] == [
        ["n1", "n2"], ["n1", "n3"], ["n2", "n3"]
    ]  # fmt: skip
    assert [each.evidence["last_offset"] for each in trusted] == [0, 0, 0]
    doubtful = [each for each in told if each not in trusted]
    assert [(each.evidence["nodes"], each.offset) for each in doubtful] == [
        (["n1", "n2"], 2), (["n2", "n3"], 2)
    ]  # fmt: skip
    assert [each.broken_premises for each in doubtful] == [("readable-final-logs",)] * 2
    assert len(reasons(CHECKER, part)) == len(told), "each has a reason"
    one_sided = {**on, "replica_records": [*log("n1", *EQUAL), *log("n2", (0, A), (0, B))]}
    unread = facts(unreadable_nodes=frozenset({"n2"}))
    (doubted,) = [
        each for each in found(CHECKER, group(unread, **one_sided)).anomalies
        if each.evidence["nodes"] == ["n1", "n2"]
    ]  # fmt: skip
    assert doubted.broken_premises == ("readable-final-logs",)


@pytest.mark.parametrize(
    ("node", "before", "excuse", "seen_s", "excuses"),
    [
        ("n2", 3, "power-loss", 2, ("power-loss",)),
        ("n2", 3, "unconfirmed-fault", 2, ("unconfirmed-fault",)),
        ("n2", 2, "power-loss", 2, ()),  # It took less.
        ("n1", 3, "power-loss", 2, ()),  # It took them from the other one.
        ("n2", 3, "power-loss", 9, ()),  # They were there again.
    ],
)
def test_a_broker_that_lost_power_and_stays_down_left_a_mark_above_the_end_of_its_log(
    node: str, before: int, excuse: str, seen_s: int, *, excuses: tuple[str, ...]
) -> None:
    """The run died before the heal. Kafka flushes the file with the marks at each write."""
    loss = DiskLoss(
        nodes=frozenset({node}), topic="log-0", partition=0, end_after=2, end_before=before,
        began_ns=3 * S, until_ns=5 * S, excuse=excuse,
    )  # fmt: skip
    on: Rows = {
        "replica_records": [*log("n1", *EQUAL), *log("n2", *EQUAL[:2])],
        "replica_states": [state("n1", 3, 3), state("n2", 2, 3),
                           {"node": "n2", "observed_ns": seen_s * S, "log_end_offset": 3}],
    }  # fmt: skip
    for name in ("replica_records", "replica_states"):
        on[name] = [{**row, "snapshot": row.get("snapshot") and "crash"} for row in on[name]]
    died = facts(milestones=(), disk_losses=(loss,))
    stopped = replace(
        died, milestones=(Milestone(name="stopped", at_ns=9, detail={"n2": "clean"}),)
    )
    for about, reasons_left in ((died, excuses), (stopped, ())):
        (anomaly,) = found(CHECKER, group(about, **on)).anomalies
        assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (2, reasons_left, ())


@pytest.mark.parametrize(
    ("excuse", "ends", "recovered", "excuses"),
    [
        ("power-loss", ((2, 6),), False, ("power-loss",)),
        ("bit-flip", ((2, 6),), False, ("bit-flip",)),
        ("power-loss", ((2, 6), (9, 5)), False, ()),  # Some of them were there again.
        ("power-loss", ((2, 6), (9, 4)), False, ("power-loss",)),
        ("wipe", ((2, 6),), False, ()),  # It deletes the file with the marks.
        ("power-loss", ((2, 6),), True, ()),  # The replica was in the ISR after the loss.
    ],
)
def test_a_disk_fault_excuses_only_the_end_that_the_replica_never_fetched_again(
    excuse: str, ends: tuple[tuple[int, int], ...], *, recovered: bool, excuses: tuple[str, ...]
) -> None:
    """Its broker ended uncleanly after everything else, so no leader's answer shows it in sync."""
    loss = DiskLoss(
        nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=2, end_before=6,
        began_ns=3 * S, until_ns=5 * S, excuse=excuse,
    )  # fmt: skip
    six = [(0, value) for value in range(90, 96)]
    looks = [{"node": "n2", "observed_ns": at_s * S, "log_end_offset": end} for at_s, end in ends]
    about = facts(disk_losses=(loss,))
    on = group(
        about if recovered else replace(about, milestones=()),
        replica_records=[*log("n1", *six), *log("n2", *six[:4])],
        replica_states=[state("n1", 6, 6), state("n2", 4, 6), *looks],
    )
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.excuses) == (4, excuses)
