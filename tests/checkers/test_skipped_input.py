"""skipped-input: committed transactions of a pipeline went on behind a record that none handled."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from checkers import skipped_input
from checkers.facts import DiskLoss
from checkers.handled import effects, inputs
from checkers.reigns import GROUPS, TRANSACTIONS, Reign
from results.record.milestones import OPEN, Milestone
from tests.broken.corpus import Spot, broken, innocent, spot_of
from tests.broken.pipelines import by_committed, committed, inputs_of, never_answered
from tests.broken.record import Record
from tests.broken.transactional import abort, hide
from tests.checkers.partition_rows import (
    RETENTION,
    A,
    B,
    C,
    S,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    state,
    whole_run,
)
from tests.checkers.pipelines import DONE, PIPELINE, drawn, effect, handles, pipeline, places

CHECKER, NAME = skipped_input.CHECKER, skipped_input.NAME
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"op_ids": [], "reached": 7}, "whether a broker or the client skipped it"),
]
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
ROWS_OF = [
    (
        CHECKER,
        pipeline([handles(0, 1)], [DONE]),
        "a skipped input could not be detected",
        pipeline([handles(0, 1), handles(1, 1)], [DONE]),
        1,
    )
]


def test_an_input_below_the_last_that_was_handled_is_skipped_if_nothing_took_effect() -> None:
    rows = [handles(0, 1), handles(1, -1), handles(2, 2), handles(3, 1), handles(4, 2)]
    assert places(CHECKER, rows, DONE, effect(2, "aborted")) == [1, 2]
    # No record of it was shown, though all was read to its end.
    assert places(CHECKER, rows, DONE, effect(2, "unknown")) == [1, 2]
    assert places(CHECKER, rows, DONE, effect(2, "committed")) == [1]
    # Nobody knows what it did, for not all was read.
    assert places(CHECKER, rows, DONE, effect(2, "unknown", complete=False)) == [1]
    # Some of it was shown, where a marker may be gone.
    assert places(CHECKER, rows, DONE, effect(2, "unknown", shown=True)) == [1]


def test_what_lies_behind_the_last_that_was_handled_is_still_to_come() -> None:
    rows = [handles(0, 1), handles(1, -1), handles(2, 2), handles(0, -1, place="log-0-1")]
    assert places(CHECKER, rows, DONE, effect(2, "aborted")) == []


def test_what_may_have_cost_a_partition_records_allows_it() -> None:
    rows = [handles(0, -1, excuse="wipe power-loss"), handles(1, 1)]
    (told,) = found(CHECKER, pipeline(rows, [DONE])).anomalies
    assert told.excuses == ("power-loss", "wipe")


def test_what_other_partitions_lost_allows_nothing() -> None:
    rows = [
        handles(0, 2), handles(1, 1), handles(0, 1, place="log-0-1", excuse="wipe"),
        handles(0, 3, place="log-0-2"),
    ]  # fmt: skip
    outputs = [DONE, effect(2, "aborted"), effect(3, "aborted", excuse="power-loss")]
    (told,) = found(CHECKER, pipeline(rows, outputs)).anomalies
    assert (told.evidence["place"], told.excuses) == ("log-0-0", ())
    # But the only records of op 2 may have been in this output.
    (told,) = found(
        CHECKER, pipeline(rows, [*outputs, effect(2, "aborted", excuse="bit-flip")])
    ).anomalies
    assert told.excuses == ("bit-flip",)


@pytest.mark.parametrize(
    ("nodes", "plan", "excuses"),
    [
        (["n1", "n2", "n3"], {}, {"power-loss"}),
        (["n1", "n2"], {}, {"last-copies"}),
        (["n1"], {"broker": {"offsets.topic.replication.factor": "1"}}, {"power-loss"}),
        (["n1", "n2", "n3"], {"nodes": 5, "replication": 5}, {"power-loss"}),  # Of all positions.
        ([], {}, set()),
    ],
)
def test_disks_may_have_cost_positions_and_decisions_as_well(
    nodes: list[str], plan: dict[str, Any], excuses: set[str]
) -> None:
    lost = [
        DiskLoss(nodes=frozenset({node}), topic="", partition=-1, end_after=0, end_before=1,
                 until_ns=2 * S, began_ns=S, excuse="power-loss")
        for node in nodes
    ]  # fmt: skip
    about = facts(plan={**PIPELINE, "replication": 3, **plan}, disk_losses=tuple(lost))
    (row,) = inputs(group(about, transforms=[TRANSFORMED])).to_pylist()
    assert {*row["excuse"].split()} == excuses


@pytest.mark.parametrize(("on", "excuse"), [("true", "unclean-election"), ("false", "")])
def test_unclean_elections_may_have_cost_anything(on: str, excuse: str) -> None:
    plan = {**PIPELINE, "broker": {"unclean.leader.election.enable": on}}
    (row,) = inputs(group(facts(plan=plan), transforms=[TRANSFORMED])).to_pylist()
    assert row["excuse"] == excuse


@pytest.mark.parametrize(("unclean", "excuse"), [(True, "unclean-election"), (False, "")])
def test_unclean_elections_that_did_not_take_place_cost_nothing(unclean: bool, excuse: str) -> None:  # noqa: FBT001 - a case
    plan = {**PIPELINE, "broker": {"unclean.leader.election.enable": "true"}}
    led = tuple(
        Reign(topic=topic, partition=0, leader=1 + epoch, epoch=epoch, from_ns=epoch * S,
              until_ns=99 * S, unclean=unclean and epoch == 1)
        for topic in (GROUPS, TRANSACTIONS)
        for epoch in (0, 1)
    )  # fmt: skip
    about = facts(plan=plan, reigns=led)
    (row,) = inputs(group(about, transforms=[TRANSFORMED])).to_pylist()
    assert row["excuse"] == excuse


def test_inputs_below_the_last_that_was_handled_are_counted_if_their_fate_is_known() -> None:
    rows = [handles(0, 1), handles(1, -1), handles(2, 2), handles(3, 1), handles(4, -1)]
    unknown = pipeline(rows, [DONE, effect(2, "unknown", complete=False)])
    assert found(CHECKER, unknown).rows == 2
    assert found(CHECKER, pipeline(rows, [DONE, effect(2, "aborted")])).rows == 3


def test_the_reason_names_the_coordinator_or_what_is_not_recorded() -> None:
    on = pipeline([handles(0, 2), handles(1, -1), handles(2, 1)], [DONE, effect(2, "aborted")])
    first, second = found(CHECKER, on).anomalies
    assert "it kept the positions of a transaction" in CHECKER.why(on, first)
    assert "positions advanced to 2" in CHECKER.why(on, second)
    assert "only by ops 2, which had no effect" in first.sentence
    assert "was handled by no transaction" in second.sentence
    assert first.broken_premises == ()


def test_a_record_that_is_cut_proves_nothing() -> None:
    cut = pipeline([handles(0, -1), handles(1, 1)], [DONE])
    cut = replace(cut, facts=replace(cut.facts, cut_streams=True))
    (told,) = found(CHECKER, cut).anomalies
    assert told.broken_premises == ("whole-record",)


COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
SENT = {"value": B, "txn_id": 3, "op_id": 3, "acks": "all", "invoke_ns": S, "complete_ns": 2 * S}
READ = {"value": A, "offset": 0, "phase": "final", "isolation": "read_committed"}
TRANSFORMED = {"op_id": 3, "offset": 5, "value": C, "result": B}


def test_inputs_are_what_members_handled_and_what_was_shown_besides() -> None:
    given = group(facts(plan=PIPELINE), transforms=[TRANSFORMED], polls=[READ])
    rows = inputs(given).to_pylist()
    assert sorted((row["offset"], row["value"], row["op_id"]) for row in rows) == [
        (0, A, -1),
        (5, C, 3),
    ]
    output = replace(given, topic="log-1", tables={**given.tables})
    assert [row["op_id"] for row in inputs(output).to_pylist()] == [3]
    assert effects(given).num_rows == 0


@pytest.mark.parametrize(("isolation", "shown"), [(COMMITTED, True), (UNCOMMITTED, False)])
def test_what_a_reader_of_committed_records_got_was_shown(isolation: str, shown: bool) -> None:  # noqa: FBT001 - drawn
    given = group(
        facts(plan=PIPELINE), sends=[{**SENT, "outcome": "info"}],
        polls=[{**READ, "value": B, "isolation": isolation}],
    )  # fmt: skip
    (row,) = effects(replace(given, topic="log-1")).to_pylist()
    assert (row["committed"], row["shown"]) == (False, shown)


def test_what_retention_deleted_before_it_was_handled_again_is_not_skipped() -> None:
    """The transaction of op 3 was aborted, and its group got back to the input too late."""

    def skipped(start: int, plan: dict[str, Any]) -> list[object]:
        about = facts(plan={**PIPELINE, **plan})
        given = group(
            about, transforms=[TRANSFORMED, {**TRANSFORMED, "op_id": 4, "offset": 6}],
            leadership=[leads(1, 0)], replica_records=log("n1", (0, A), start=start),
            replica_states=[state("n1", start + 1, start=start)],
        )  # fmt: skip
        sends = [{**SENT, "outcome": "fail"}, {**SENT, "op_id": 4, "value": A, "outcome": "ok"}]
        output = replace(group(about, sends=sends), topic="log-1")
        derived = {"inputs": inputs(given), "effects": effects(output)}
        told = found(CHECKER, replace(whole_run(about), derived=derived)).anomalies
        return [each.evidence["input_offset"] for each in told]

    assert skipped(6, RETENTION) == []
    assert skipped(5, RETENTION) == [5]
    assert skipped(6, {}) == [5]


def test_what_retention_deleted_of_an_output_may_have_been_committed() -> None:
    reads = [{**final_read(9), "isolation": COMMITTED}]
    for plan, start, complete in ((RETENTION, 1, False), (RETENTION, 0, True), ({}, 1, True)):
        given = group(
            facts(plan={**PIPELINE, **plan}), sends=[{**SENT, "outcome": "info"}],
            final_reads=reads, leadership=[leads(1, 0)],
            replica_states=[state("n1", 9, start=start)],
        )  # fmt: skip
        (row,) = effects(replace(given, topic="log-1")).to_pylist()
        assert row["complete"] is complete


def test_effects_are_those_of_transactions_that_sent_to_an_output() -> None:
    def told(outcome: str, *milestones: Milestone, read: bool = True) -> tuple[bool, bool, bool]:
        about = facts(plan=PIPELINE)
        about = replace(about, milestones=(*about.milestones, *milestones))
        reads = [{**final_read(9), "isolation": "read_committed"}] if read else []
        given = group(about, sends=[{**SENT, "outcome": outcome}], final_reads=reads)
        (row,) = effects(replace(given, topic="log-1")).to_pylist()
        return row["committed"], row["aborted"], row["complete"]

    assert told("ok") == (True, False, True)
    assert told("fail") == (False, True, True)
    assert told("info") == (False, False, True)
    assert told("info", read=False) == (False, False, False)
    assert told("info", Milestone(name=OPEN, at_ns=S)) == (False, False, False)


@given(*drawn())
def test_it_says_what_the_definition_says(
    pairs: list[tuple[int, int]],
    fates: list[str],
    complete: bool,  # noqa: FBT001 - drawn
) -> None:
    ops = [effect(op, fate, complete=complete) for op, fate in enumerate(fates)]
    rows = [handles(offset, op) for offset, op in sorted({*pairs})]
    done = {offset for offset, op in pairs if op >= 0 and fates[op] == "committed"}
    unknown = {offset for offset, op in pairs if op >= 0 and fates[op] == "unknown"}
    excluded = done | (set[int]() if complete else unknown)
    last = max(done, default=-1)
    assert places(CHECKER, rows, *ops) == [
        at for at in sorted({at for at, _ in pairs}) if at < last and at not in excluded
    ]


@broken("skipped-input", row="transactions", base="pipeline")
def a_coordinator_keeps_the_positions_of_an_aborted_transaction(record: Record, spot: Spot) -> None:
    gone = committed(record, spot)
    abort(record, spot_of(record, gone.sends[0]))


@broken("skipped-input", row="transactions", base="pipeline")
def positions_of_a_commit_without_an_answer_are_kept_and_its_records_are_not(
    record: Record, spot: Spot
) -> None:
    gone = committed(record, spot, last=True)
    hide(record, gone.sends)
    never_answered(record, gone.op["op_id"])
    process = gone.op["process"]
    record.drop("ops", lambda row: row["op_id"] > gone.op["op_id"], process=process)


@innocent(base="pipeline")
def the_last_transaction_of_a_pipeline_has_no_effect(record: Record, spot: Spot) -> None:
    """Nobody went on behind what it handled, so that whoever comes next does."""
    done = by_committed(record)
    last = max(
        (row for row in record.rows("transactions", outcome="committed")
         if inputs_of(record, row["op_id"])),
        key=lambda row: max(at for _, _, at in inputs_of(record, row["op_id"])),
    )  # fmt: skip
    assert inputs_of(record, last["op_id"]) <= done
    (first, *_) = record.rows("sends", op_id=last["op_id"])
    del spot
    abort(record, spot_of(record, first))
