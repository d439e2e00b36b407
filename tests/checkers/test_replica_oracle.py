"""Kernels of the replicas' side say what the definitions say, also where something is planted."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import (
    committed_truncation,
    epoch_regression,
    high_watermark_ahead,
    high_watermark_regression,
    incomplete_leader,
    uncommitted_read,
)
from checkers.group import Group
from checkers.protocol import Checker
from results.record.milestones import Milestone
from tests.checkers.faithful import STONES, FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.oracle import replicas

SEEDS = st.integers(0, 2**32)
CLEAN = {"n1", "n3"}
KERNELS = (
    committed_truncation.CHECKER,
    epoch_regression.CHECKER,
    high_watermark_ahead.CHECKER,
    high_watermark_regression.CHECKER,
    incomplete_leader.CHECKER,
    uncommitted_read.CHECKER,
)
STONES_WITH_STOP = tuple(
    Milestone(
        name=name,
        at_ns=at,
        detail={"n1": "clean", "n2": "killed", "n3": "clean"} if name == "stopped" else {},
    )
    for at, name in enumerate(STONES)
)


def group_of_run(run: FaithfulRun) -> Group:
    """The first partition, with checkpoint files as brokers leave them."""
    for row in run.rows["replica_states"]:
        if row["snapshot"] == "final":
            row["epochs"] = _lines(run, row)
    return run.group(milestones=STONES_WITH_STOP, step_isrs=run.step_isrs)


def _lines(run: FaithfulRun, state: Row) -> list[Row]:
    starts: dict[int, int] = {}
    for row in run.rows["replica_records"]:
        same = ("snapshot", "node", "topic", "partition")
        if all(row[name] == state[name] for name in same):
            epoch = row["written_in" if "written_in" in row else "leader_epoch"]
            starts.setdefault(epoch, row["offset"])
    return [{"epoch": epoch, "start_offset": start} for epoch, start in starts.items()]


def evidence(checker: Checker, group: Group) -> list[Row]:
    result = checker.check(group)
    assert not result.beyond
    return [dict(each.evidence) for each in result.anomalies]


def agree(group: Group) -> None:
    rows = {name: table.to_pylist() for name, table in group.tables.items()}
    end = group.facts.quorum_high_watermark or 0
    asked = group.facts.milestone("final-reads")
    asked_ns = asked.at_ns if asked else -1
    started = evidence(incomplete_leader.CHECKER, group)
    assert {
        (each["epoch"], each["start_offset"], each["announced_high_watermark"]) for each in started
    } == replicas.incomplete_leaders(rows, CLEAN)
    fell = evidence(high_watermark_regression.CHECKER, group)
    assert {
        each.get("later_epoch"): (
            each["earlier_high_watermark"] - each["later_high_watermark"],
            each["answers"],
        )
        for each in fell
    } == {**replicas.high_watermark_regressions(rows), **replicas.short_targets(rows, asked_ns)}
    ahead = evidence(high_watermark_ahead.CHECKER, group)
    assert {each["node"]: (each["high_watermark"], each["count"]) for each in ahead} == (
        replicas.marks_ahead(rows)
    )
    early = evidence(uncommitted_read.CHECKER, group)
    within = uncommitted_read.SEEN_WITHIN_NS
    assert {each["offset"]: each["polls"] for each in early} == (
        replicas.uncommitted_reads(rows, within)
    )
    back = evidence(epoch_regression.CHECKER, group)
    assert {(each["source"], each["node"], each["epoch"], each["offset"]) for each in back} == (
        replicas.epoch_regressions(rows, end, CLEAN)
    )
    dropped = evidence(committed_truncation.CHECKER, group)
    defined = replicas.committed_truncations(rows, list(group.facts.step_isrs))
    assert {each["node"] for each in dropped} == set(defined)
    for each in dropped:
        assert {each["first_offset"], each["last_offset"]} <= defined[each["node"]]


def mine(row: Row) -> bool:
    return bool((row["topic"], row["partition"]) == ("log-0", 0))


def answers(run: FaithfulRun) -> list[Row]:
    return [row for row in run.rows["leadership"] if mine(row) and row["source"] == "list-offsets"]


def told_too_much(run: FaithfulRun) -> None:
    """A leader of epoch 0 announces more than the next one had."""
    first = answers(run)[0]
    first["high_watermark"] = max(row["high_watermark"] for row in answers(run)) + 1


def told_too_little(run: FaithfulRun) -> None:
    """The last leader announces less than one before."""
    *before, last = answers(run)
    last["high_watermark"] = max(row["high_watermark"] for row in before) - 1


def ahead_of_the_leader(run: FaithfulRun) -> None:
    """A follower calls more committed than its leader does when it is asked next."""
    last = answers(run)[-1]
    place = {name: last[name] for name in ("topic", "topic_id", "partition")}
    for node, early in (("n2", 1), ("n1", 2)):
        run.add("replica_states", **place, snapshot=None, node=node, incarnation=1,
                observed_ns=last["asked_ns"] - early, high_watermark=last["high_watermark"] + 1,
                high_watermark_source="fetch")  # fmt: skip


def read_too_early(run: FaithfulRun) -> None:
    """A reader gets what even the last leader has not committed."""
    last = answers(run)[-1]
    ended = {row["op_id"]: row["complete_ns"] for row in run.rows["op_completions"]}
    ours = [row for row in run.rows["polled"] if mine(row)]
    row = min(ours, key=lambda each: ended[each["op_id"]])
    assert ended[row["op_id"]] < last["asked_ns"]
    run.rows["polled"].append({**row, "offset": last["high_watermark"], "pos": 99})


def write_in_an_old_epoch(run: FaithfulRun) -> None:
    """The first record of n2 has a later epoch than those behind it."""
    row = next(row for row in run.rows["replica_records"] if mine(row) and row["node"] == "n2")
    row["leader_epoch"] += 100


def believe_in_an_old_epoch(run: FaithfulRun) -> None:
    """The metadata of n1 name an epoch that is over."""
    rows = [row for row in run.rows["leadership"] if mine(row) and row["source"] == "metadata"]
    last = max(rows, key=lambda row: row["observed_ns"])
    last["leader_epoch"] += 1
    later = last["observed_ns"] + 1
    run.rows["leadership"].append(
        {**last, "leader_epoch": 0, "asked_ns": later, "observed_ns": later}
    )


def forget_an_epoch(run: FaithfulRun) -> None:
    """The checkpoint of n3 has another epoch for the last record than the log."""
    rows = run.rows["replica_records"]
    row = [row for row in rows if mine(row) and row["node"] == "n3" and row["snapshot"] == "final"][
        -1
    ]
    row["written_in"] = row["leader_epoch"] + 1


def drop(run: FaithfulRun) -> None:
    """A replica truncates what every copy has had and a leader has announced, and refetches."""
    committed = min(row["high_watermark"] for row in answers(run) if row["high_watermark"])
    rows = run.rows["replica_records"]
    row = next(row for row in rows if mine(row) and row["node"] == "n2" and row["offset"] == 0)
    assert committed > 0
    for each in rows:
        later = each["snapshot"] > "step-02" or each["snapshot"] == "final"
        if later and mine(each) and each["node"] == "n2" and each["offset"] == 0:
            each["record_hash"] += 1
    place = {name: row[name] for name in ("topic", "topic_id", "partition")}
    run.add("truncations", **place, node="n2", incarnation=0, from_offset=0, source="server-log")


def overwrite(run: FaithfulRun) -> None:
    """The broker that led first has a record of a later epoch where it had announced one."""
    first = next(row for row in answers(run) if row["high_watermark"])
    for row in run.rows["replica_records"]:
        if mine(row) and row["node"] == f"n{first['leader']}" and row["snapshot"] == "final":
            row["leader_epoch"] += 100


PLANTS: Mapping[Callable[[FaithfulRun], None], str] = {
    told_too_much: "incomplete-leader",
    told_too_little: "high-watermark-regression",
    ahead_of_the_leader: "high-watermark-ahead",
    read_too_early: "uncommitted-read",
    write_in_an_old_epoch: "epoch-regression",
    believe_in_an_old_epoch: "epoch-regression",
    forget_an_epoch: "epoch-regression",
    drop: "committed-truncation",
    overwrite: "committed-truncation",
}


def enough(seed: int, *, looks: int = 0) -> FaithfulRun:
    """The first run from a seed of whose first partition something is known early and late."""
    while True:
        run = FaithfulRun(seed, looks=looks)
        marks = [row["high_watermark"] for row in answers(run)]
        epochs = {row["leader_epoch"] for row in run.rows["replica_records"] if mine(row)}
        early = [
            row for row in run.rows["replica_records"]
            if mine(row) and row["snapshot"] in {"step-01", "step-02"} and row["node"] == "n2"
        ]  # fmt: skip
        steps = {row["snapshot"] for row in early}
        copied = not looks or steps == {"step-01", "step-02"}
        if len([mark for mark in marks if mark]) > 2 and len(epochs) > 1 and copied and _read(run):
            return run
        seed += 1


def _read(run: FaithfulRun) -> bool:
    ended = {row["op_id"]: row["complete_ns"] for row in run.rows["op_completions"]}
    polls = [ended[row["op_id"]] for row in run.rows["polled"] if mine(row)]
    return bool(polls) and min(polls) < answers(run)[-1]["asked_ns"]


@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_what_a_faithful_log_says_is_accepted(seed: int) -> None:
    for run in (FaithfulRun(seed), FaithfulRun(seed, looks=3)):
        group = group_of_run(run)
        agree(group)
        assert [each.name for each in KERNELS if each.check(group).anomalies] == []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@settings(max_examples=6, deadline=None)
@given(seed=SEEDS)
def test_what_is_planted_is_found_as_the_oracle_says(
    plant: Callable[[FaithfulRun], None], seed: int
) -> None:
    run = enough(seed, looks=3 if plant is drop else 0)
    plant(run)
    group = group_of_run(run)
    agree(group)
    assert PLANTS[plant] in {each.name for each in KERNELS if each.check(group).anomalies}
