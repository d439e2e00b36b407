"""Kernels say what the definitions say, on faithful logs and on logs with something planted."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import (  # fmt: skip
    corrupt_record,
    duplicate,
    inconsistent_offsets,
    log_divergence,
    lost_write,
    malformed,
    phantom,
    two_leaders,
    unseen,
)
from checkers.group import Group
from checkers.protocol import Checker
from checkers.runner import run_checkers
from results.record.values import pack_value
from tests.checkers.faithful import FaithfulRun, run_group
from tests.checkers.faithful_clients import Row
from tests.oracle import definitions

SEEDS = st.integers(0, 2**32)
PARTS = {1: "payload", 2: "key", 4: "headers", 8: "time stamp"}


def evidence(checker: Checker, group: Group, *names: str) -> list[tuple[Any, ...]]:
    result = checker.check(group)
    assert not result.beyond
    return [tuple(each.evidence[name] for name in names) for each in result.anomalies]


def rows_of(group: Group) -> dict[str, list[Row]]:
    return {name: table.to_pylist() for name, table in group.tables.items()}


def agree(group: Group) -> None:
    rows, facts = rows_of(group), group.facts
    number = facts.numbers[group.topic, group.partition]
    lost = {value for (value,) in evidence(lost_write.CHECKER, group, "value")}
    assert lost == definitions.lost_writes(rows)
    hidden = {value for (value,) in evidence(unseen.UNSEEN_CHECKER, group, "value")}
    assert hidden == definitions.unseen(rows)
    short = evidence(unseen.INCOMPLETE_CHECKER, group, "reached")
    assert len(short) == definitions.incomplete_final_reads(rows)
    assert dict(evidence(duplicate.CHECKER, group, "value", "offsets")) == definitions.duplicates(
        rows
    )
    offsets = dict(evidence(inconsistent_offsets.CHECKER, group, "offset", "values"))
    assert offsets == definitions.inconsistent_offsets(rows)
    strange = set(evidence(phantom.CHECKER, group, "offset", "value"))
    assert strange == definitions.phantoms(rows, number, list(facts.reservations))
    hurt = evidence(corrupt_record.CHECKER, group, "value", "differs", "logs_of", "polls")
    defined_hurt = definitions.corrupt_records(rows, number, list(facts.reservations))
    assert {(value, tuple(differs), frozenset(nodes), polls)
            for value, differs, nodes, polls in hurt} == {
        (value, tuple(word for bit, word in PARTS.items() if bits & bit), nodes, polls)
        for (_, value), (bits, nodes, polls) in defined_hurt.items()
    }  # fmt: skip
    diverged = evidence(log_divergence.CHECKER, group, "nodes", "snapshots", "first_offset")
    defined = definitions.log_divergences(rows, recovered=facts.recovered)
    assert {(*nodes, frozenset(snapshots)) for nodes, snapshots, _ in diverged} == (
        {each[:3] for each in defined}
    )
    firsts = {each[:3]: each[3] for each in defined}
    for nodes, snapshots, first in diverged:
        assert first in firsts[*nodes, frozenset(snapshots)]
    leaders = evidence(two_leaders.CHECKER, group, "source", "epoch", "leaders")
    assert {(source, epoch, tuple(who)) for source, epoch, who in leaders} == (
        definitions.two_leaders(rows, facts.quorum_high_watermark or 0)
    )


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_a_faithful_log_is_accepted(seed: int) -> None:
    run = FaithfulRun(seed)
    for number, _ in enumerate(run.partitions):
        group = run.group(number)
        agree(group)
        assert [each for each in run_checkers(group) if each.anomalies or each.error] == []
    ops = run_group(run.facts(), run.tables())
    assert malformed.OPS_CHECKER.check(ops).anomalies == ()


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_looking_at_live_replicas_raises_no_false_alarm(seed: int) -> None:
    """Copies of one step are of different moments, and so are the high watermarks beside them."""
    run = FaithfulRun(seed, looks=3)
    group = run.group(step_isrs=run.step_isrs)
    assert len(group.logs) == 1 + 3
    agree(group)
    assert [each for each in run_checkers(group) if each.anomalies or each.error] == []


@settings(max_examples=12, deadline=None)
@given(seed=SEEDS)
def test_a_divergence_in_a_step_is_found_as_the_oracle_says(seed: int) -> None:
    run = enough(seed, looks=3)
    records = run.rows["replica_records"]
    row = next(row for row in records if mine(row) and row["snapshot"] == "step-03")
    row["record_hash"] += 1
    agree(run.group(step_isrs=run.step_isrs))


def lose(run: FaithfulRun) -> None:
    """Drop an acknowledged record from every log and every read."""
    acked = {(row["op_id"], row["mop"]) for row in run.rows["send_completions"] if row["acked"]}
    value = next(row["value"] for row in run.rows["send_invocations"]
                 if (row["op_id"], row["mop"]) in acked and mine(row))  # fmt: skip
    for name in ("replica_records", "polled"):
        run.rows[name] = [row for row in run.rows[name] if row["value"] != value]


def hide(run: FaithfulRun) -> None:
    """Drop the last acknowledged record, and all behind it, from every read."""
    ours = {row["op_id"] for row in run.rows["send_invocations"] if mine(row)}
    done = [row for row in run.rows["send_completions"] if row["acked"] and row["op_id"] in ours]
    last = max(row["offset"] for row in done)
    run.rows["polled"] = [
        row for row in run.rows["polled"] if not (mine(row) and row["offset"] >= last)
    ]


def repeat(run: FaithfulRun) -> None:
    """Read a value at another offset, too, beyond the end of the log."""
    row = next(row for row in run.rows["polled"] if mine(row))
    run.rows["polled"].append({**row, "offset": 10_000, "pos": 99})


def swap(run: FaithfulRun) -> None:
    """Acknowledge a value at the offset of its neighbour."""
    done = [row for row in run.rows["send_completions"] if row["acked"]]
    ours = {row["op_id"] for row in run.rows["send_invocations"] if mine(row)}
    row = next(row for row in done if row["op_id"] in ours)
    row["offset"] += 1 if row["offset"] == 0 else -1


def conjure(run: FaithfulRun) -> None:
    """Read a value that nobody reserved."""
    row = next(row for row in run.rows["polled"] if mine(row))
    run.rows["polled"].append(
        {**row, "value": pack_value(1, 2_000_000), "offset": 10_000, "pos": 99}
    )


def corrupt(run: FaithfulRun) -> None:
    """Give one replica another record."""
    row = next(row for row in run.rows["replica_records"] if mine(row) and row["node"] == "n2")
    row["record_hash"] += 1


def damage(run: FaithfulRun) -> None:
    """Give a reader, and one replica, another payload and another key."""
    for table, bits in (("polled", 1), ("replica_records", 2)):
        row = next(row for row in run.rows[table] if mine(row))
        row["damage"] = bits


def usurp(run: FaithfulRun) -> None:
    """Let another broker answer as leader in the epoch of one that did."""
    row = next(row for row in run.rows["leadership"] if mine(row))
    run.rows["leadership"].append({**row, "leader": row["leader"] % 3 + 1})


def abandon(run: FaithfulRun) -> None:
    """End a final read short of its target."""
    row = next(row for row in run.rows["final_reads"] if mine(row))
    row.update(complete=False)


def mine(row: Row) -> bool:
    return bool(row["partition"] == 0)


PLANTS: Mapping[str, Callable[[FaithfulRun], None]] = {
    "lost-write": lose, "unseen": hide, "duplicate": repeat, "inconsistent-offsets": swap,
    "phantom": conjure, "corrupt-record": damage, "log-divergence": corrupt,
    "two-leaders-in-epoch": usurp,
    "final-read-incomplete": abandon,
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
@settings(max_examples=12, deadline=None)
@given(seed=SEEDS)
def test_a_planted_anomaly_is_found_and_as_the_oracle_says(name: str, seed: int) -> None:
    run = enough(seed)
    PLANTS[name](run)
    group = run.group()
    agree(group)
    assert name in {each.name for each in run_checkers(group) if each.anomalies}


def enough(seed: int, *, looks: int = 0) -> FaithfulRun:
    """The first run from a seed on whose first partition has a committed record that was read."""
    while True:
        run = FaithfulRun(seed, looks=looks)
        sent = {row["op_id"] for row in run.rows["send_invocations"] if mine(row)}
        acked = [
            row for row in run.rows["send_completions"] if row["acked"] and row["op_id"] in sent
        ]
        if len(acked) > 2:
            return run
        seed += 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(5, 30), st.integers(0, 9),
                          st.sampled_from(["ok", "fail", "info"])), max_size=12))  # fmt: skip
def test_malformed_histories_are_those_of_the_definition(
    drawn: list[tuple[int, int, int, str]],
) -> None:
    run = FaithfulRun(1, steps=0)
    for name in ("op_invocations", "op_completions"):
        run.rows[name] = []
    for op_id, (process, begin, span, outcome) in enumerate(drawn):
        run.add("op_invocations", op_id=op_id, process=process, f="send", phase="main",
                invoke_ns=begin)  # fmt: skip
        if span:
            run.add("op_completions", op_id=op_id, complete_ns=begin + span - 3, outcome=outcome)
    group = run_group(run.facts(), run.tables())
    flawed = {op_id for (op_id,) in evidence(malformed.OPS_CHECKER, group, "op_id")}
    assert flawed == definitions.malformed_ops(rows_of(group)["ops"])
