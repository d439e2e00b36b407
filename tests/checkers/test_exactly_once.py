"""repeated-input and skipped-input: what pipelines did with each input."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from checkers import exactly_once
from checkers.group import Group
from checkers.handled import EFFECTS, INPUTS, effects, inputs
from results.record.milestones import OPEN, Milestone
from tests.checkers.partition_rows import A, B, C, S, facts, final_read, found, group, whole_run

REPEATED, SKIPPED = exactly_once.REPEATED_CHECKER, exactly_once.SKIPPED_CHECKER
PIPELINE = {"workload": "pipeline", "topics": 2}
Row = dict[str, Any]


def handles(offset: int, op_id: int, *, place: str = "log-0-0", excuse: str = "") -> Row:
    return {"place": place, "offset": offset, "value": A + offset, "op_id": op_id, "excuse": excuse}


def effect(op_id: int, fate: str, *, complete: bool = True) -> Row:
    return {
        "op_id": op_id, "committed": fate == "committed", "aborted": fate == "aborted",
        "complete": complete, "invoke_ns": op_id * S, "complete_ns": op_id * S + 1, "excuse": "",
    }  # fmt: skip


def pipeline(rows: Iterable[Row], ops: Iterable[Row]) -> Group:
    derived = {
        "inputs": pa.Table.from_pylist([*rows], schema=INPUTS),
        "effects": pa.Table.from_pylist([*ops], schema=EFFECTS),
    }
    return replace(whole_run(facts(plan=PIPELINE)), derived=derived)


DONE = effect(1, "committed")
WHYS_OF: list[tuple[str, Row, str]] = [
    (each.name, {"op_ids": [], "reached": 7}, "whether a broker left it out, or the client")
    for each in (REPEATED, SKIPPED)
]
ROWS_OF = [
    (REPEATED, pipeline([handles(0, 2)], [effect(2, "aborted")]), "handled twice could not show",
     pipeline([handles(0, 1)], [DONE]), 1),
    (SKIPPED, pipeline([handles(0, 1)], [DONE]), "skipped could not show",
     pipeline([handles(0, 1), handles(1, 1)], [DONE]), 1),
]  # fmt: skip


def places(checker: object, rows: Iterable[Row], *ops: Row) -> list[int]:
    told = found(checker, pipeline(rows, ops)).anomalies  # type: ignore[arg-type]
    return [each.evidence["input_offset"] for each in told]  # type: ignore[misc]


def test_an_input_that_two_committed_transactions_handled_is_repeated() -> None:
    rows = [handles(4, 1), handles(4, 2), handles(5, 2)]
    assert places(REPEATED, rows, DONE, effect(2, "committed")) == [4]
    for fate in ("aborted", "unknown"):
        assert places(REPEATED, rows, DONE, effect(2, fate)) == []


def test_the_same_offset_of_another_partition_is_another_input() -> None:
    rows = [handles(4, 1), handles(4, 2, place="log-0-1")]
    assert places(REPEATED, rows, DONE, effect(2, "committed")) == []


def test_an_input_below_the_last_that_was_handled_is_skipped_if_nothing_took_effect() -> None:
    rows = [handles(0, 1), handles(1, -1), handles(2, 2), handles(3, 1), handles(4, 2)]
    assert places(SKIPPED, rows, DONE, effect(2, "aborted")) == [1, 2]
    # No record of it was shown, though all was read to its end.
    assert places(SKIPPED, rows, DONE, effect(2, "unknown")) == [1, 2]
    assert places(SKIPPED, rows, DONE, effect(2, "committed")) == [1]
    # Nobody knows what it did, for not all was read.
    assert places(SKIPPED, rows, DONE, effect(2, "unknown", complete=False)) == [1]


def test_what_lies_behind_the_last_that_was_handled_is_still_to_come() -> None:
    rows = [handles(0, 1), handles(1, -1), handles(2, 2), handles(0, -1, place="log-0-1")]
    assert places(SKIPPED, rows, DONE, effect(2, "aborted")) == []


def test_what_may_have_cost_a_partition_records_allows_it() -> None:
    rows = [handles(0, -1, excuse="wipe power-loss"), handles(1, 1)]
    (told,) = found(SKIPPED, pipeline(rows, [DONE])).anomalies
    assert told.excuses == ("power-loss", "wipe")


def test_a_record_that_is_cut_proves_nothing() -> None:
    cut = pipeline([handles(0, -1), handles(1, 1)], [DONE])
    cut = replace(cut, facts=replace(cut.facts, cut_streams=True))
    (told,) = found(SKIPPED, cut).anomalies
    assert told.broken_premises == ("whole-record",)


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


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4)), max_size=12),
       st.lists(st.sampled_from(["committed", "aborted", "unknown"]), min_size=5, max_size=5),
       st.booleans())  # fmt: skip
def test_both_say_what_the_definition_says(
    pairs: list[tuple[int, int]],
    fates: list[str],
    complete: bool,  # noqa: FBT001 - drawn
) -> None:
    ops = [effect(op, fate, complete=complete) for op, fate in enumerate(fates)]
    rows = [handles(offset, op) for offset, op in sorted({*pairs})]
    done = Counter(offset for offset, op in {*pairs} if op >= 0 and fates[op] == "committed")
    unknown = {offset for offset, op in pairs if op >= 0 and fates[op] == "unknown"}
    undecided = set[int]() if complete else unknown
    last = max(done, default=-1)
    assert places(REPEATED, rows, *ops) == [at for at in sorted(done) if done[at] > 1]
    assert places(SKIPPED, rows, *ops) == [
        at for at in sorted({at for at, _ in pairs}) if at < last and at not in {*done, *undecided}
    ]
