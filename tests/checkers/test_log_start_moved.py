"""log-start-moved: made groups with it and, a hair beside them, without."""

from dataclasses import replace

import pytest

from checkers.facts import DiskLoss
from checkers.group import Group
from checkers.log_start_moved import CHECKER
from checkers.lost_write import CHECKER as LOST_WRITE
from checkers.weakest import as_weakest
from results.record.declared import Declared
from results.record.milestones import Milestone
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.keyed import Sent, about, changed, partition, value
from tests.checkers.partition_rows import (
    A,
    B,
    S,
    ack,
    facts,
    found,
    group,
    leads,
    log,
    state,
)  # fmt: skip


def told(node: str, start: int, *, at: int = S) -> Row:
    return {"node": node, "observed_ns": at, "log_start_offset": start, "log_end_offset": 9}


def test_a_beginning_that_is_gone_everywhere_is_told_of_each_replica_and_lost() -> None:
    on = group(
        sends=[ack(A, 0), ack(B, 5, op=2)],
        leadership=[leads(1, 0)],
        replica_records=[*log("n1", (0, B), start=5), *log("n2", (0, B), start=5)],
        replica_states=[
            told("n1", 0, at=S), told("n1", 5, at=3 * S), told("n1", 5, at=2 * S),
            state("n1", 6, start=5), state("n2", 6, start=5),
        ],
    )  # fmt: skip
    result = found(CHECKER, on)
    assert result.rows == 5
    assert [each.sentence for each in result.anomalies] == [
        f"the log of log-0-0 on {node} starts at offset 5, first observed {when}: the records"
        " below that offset are missing, although no retention was configured"
        for node, when in (("n1", "at 2.000 s"), ("n2", "in its files"))
    ]
    assert result.anomalies[0].evidence == {
        "node": "n1", "log_start": 5, "first_seen_ns": 2 * S, "first_seen_in": None, "times": 3,
    }  # fmt: skip
    assert result.anomalies[1].evidence["first_seen_in"] == "final"
    assert [each.offset for each in found(LOST_WRITE, on).anomalies] == [0]


@pytest.mark.parametrize("start", [-1, 0])
def test_a_log_that_begins_at_its_beginning_is_right(start: int) -> None:
    result = found(CHECKER, group(replica_states=[told("n1", start)]))
    assert (result.rows, result.anomalies) == (start + 1, ())


@pytest.mark.parametrize(
    "setting",
    ["log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes"],
)
def test_whoever_asked_for_retention_gets_it(setting: str) -> None:
    assert not CHECKER.applies(facts(plan={"broker": {setting: "5"}}))
    assert CHECKER.applies(facts(plan={"broker": {setting: "-1"}}))


def test_only_whose_plan_is_known_asked_for_none() -> None:
    assert CHECKER.applies(facts())
    assert not CHECKER.applies(facts(plan={"broker": {"log.cleanup.policy": "compact,delete"}}))
    assert not CHECKER.applies(facts(plan={"broker": {"log.cleanup.policy": "compact"}}))
    assert not CHECKER.applies(facts(plan_known=False))
    assert not CHECKER.applies(facts(history=True))


def test_a_disk_that_was_lost_excuses_nothing() -> None:
    loss = DiskLoss(nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=0, end_before=9,
                    until_ns=S, began_ns=S, excuse="wipe")  # fmt: skip
    for row in (told("n1", 5, at=2 * S), state("n1", 9, start=1)):
        (anomaly,) = found(
            CHECKER, group(facts(disk_losses=(loss,)), replica_states=[row])
        ).anomalies
        assert (anomaly.excuses, anomaly.broken_premises) == ((), ())


def ended(how: str, on: Group) -> tuple[Anomaly, ...]:
    """Return the anomalies of a run whose n1 was stopped in some way; empty: never."""
    stones = [each for each in on.facts.milestones if each.name != "stopped"]
    if how:
        stones.append(Milestone(name="stopped", at_ns=9 * S, detail={"n1": how}))
    return found(CHECKER, replace(on, facts=replace(on.facts, milestones=tuple(stones)))).anomalies


def test_a_cleaner_takes_records_from_the_middle_of_a_log_and_keeps_its_start() -> None:
    assert CHECKER.applies(about())
    assert not CHECKER.applies(about({"broker": {"log.retention.ms": "5"}}))
    unread = as_weakest(about().plan, Declared(unread=frozenset({"cleanup.policy"})))
    assert not CHECKER.applies(replace(about(), plan=unread))
    old, new, other = value(0), value(1), value(2)
    sends = [Sent(value=old), Sent(value=new), Sent(value=other)]
    whole = partition(sends, {"n1": [(1, new), (2, other)]})
    assert not found(CHECKER, whole).anomalies
    states = [
        {**row, "log_start_offset": 1} if row["snapshot"] == "final" else row
        for row in whole.table("replica_states").to_pylist()
    ]
    moved = changed(whole, "replica_states", states)
    assert [each.evidence["log_start"] for each in ended("clean", moved)] == [1]
    # The broker was killed. Its cleaner may have been about to rename a segment.
    assert not ended("killed", moved)
    crashed = [{**row, "snapshot": "crash"} for row in states]
    assert not ended("", changed(moved, "replica_states", crashed))
    assert len(ended("killed", changed(moved, "replica_states", [*states, told("n1", 1)]))) == 1
    assert [each.offset for each in found(LOST_WRITE, moved).anomalies] == [0]
