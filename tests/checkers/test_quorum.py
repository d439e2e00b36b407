"""The controllers' log, who began to lead without it, and their votes."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import double_vote, incomplete_quorum_leader, metadata_divergence
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.protocol import Checker, Scope
from checkers.quorum import QuorumFacts, quorum_facts
from checkers.registry import CHECKERS
from checkers.runner import run_checkers
from results.record.milestones import Milestone
from results.record.tables import TABLES
from tests.checkers.faithful_quorum import QUORUM_PLACE, FaithfulQuorum, Row
from tests.checkers.partition_rows import facts, found, group, sentences, whole_run
from tests.oracle import quorum as oracle

SEEDS = st.integers(0, 2**32)
NODE = Path(__file__).parents[1] / "cluster_files" / "data" / "n2"


def told(node: str, epoch: int, mark: int, end: int | None, *, at: int = 5) -> Row:
    """What the leader of an epoch said of a node: its high watermark, and the node's log end."""
    return {"observed_ns": at, "node": node, "role": "follower", "epoch": epoch,
            "high_watermark": mark, "log_end_offset": end}  # fmt: skip


def vote(node: str, epoch: int, candidate: int, directory: str | None = None) -> Row:
    return {"node": node, "role": "voted", "epoch": epoch, "voted_for": candidate,
            "voted_directory": directory}  # fmt: skip


def entries(
    node: str, *epochs: int, start: int = 0, snapshot: str = "final", mark: int = 0
) -> list[Row]:
    """Records of the metadata log, each of an epoch; `mark` makes them another writer's."""
    return [
        {**QUORUM_PLACE, "snapshot": snapshot, "node": node, "offset": offset,
         "leader_epoch": epoch, "record_hash": 100 * epoch + offset + mark, "control": False}
        for offset, epoch in enumerate(epochs, start=start)
    ]  # fmt: skip


def about(*states: Row, steps: dict[str, int] | None = None, **changes: object) -> RunFacts:
    values: Row = {"quorum": of_states(*states, steps=steps), **changes}
    return facts(**values)


def of_states(*states: Row, steps: dict[str, int] | None = None) -> QuorumFacts:
    table = pa.Table.from_pylist(list(states), schema=TABLES["quorum_states"])
    return quorum_facts(table, steps or {})


def test_what_copies_of_a_record_have_in_different_words_is_kept() -> None:
    def entry(node: str, offset: int, *isr: int, leader: int = 1) -> Row:
        return {
            "topic": "log-0", "partition": 0, "source": "metadata-log", "observer": node,
            "leader": leader, "leader_epoch": 1, "isr": list(isr), "log_offset": offset,
        }  # fmt: skip

    rows = [entry("n1", 5, 3, 1), entry("n2", 5, 1, 3), entry("n1", 6, 1), entry("n2", 6, 1, 2),
            entry("n1", 7, 1), entry("n2", 7, 1, leader=2)]  # fmt: skip
    told = pa.Table.from_pylist(rows, schema=TABLES["leadership"])
    states = TABLES["quorum_states"].empty_table()
    assert quorum_facts(states, {}, told).disputed == {
        6: {"ISR of log-0-0": {"n1": "[1]", "n2": "[1, 2]"}},
        7: {"leader of log-0-0": {"n1": "1", "n2": "2"}},
    }
    assert quorum_facts(states, {}, told.slice(0, 0)).disputed == {}


def of_quorum(context: RunFacts, *records: Row, states: tuple[Row, ...] = ()) -> Group:
    made = group(context, replica_records=list(records), replica_states=list(states))
    return replace(made, **QUORUM_PLACE)


BOTH = (told("n1", 1, 3, 3), told("n2", 1, 3, 3))


def diverged(*records: Row, states: tuple[Row, ...] = BOTH, **changes: object) -> list[str]:
    values: Row = changes
    return sentences(metadata_divergence.CHECKER, of_quorum(about(*states, **values), *records))


def test_equal_logs_agree_however_far_they_reach() -> None:
    same = (*entries("n1", 1, 1, 1), *entries("n2", 1, 1, 1, 1))
    result = found(metadata_divergence.CHECKER, of_quorum(about(*BOTH), *same))
    assert (result.rows, result.anomalies, result.gaps) == (3, (), ())


def test_another_record_below_both_marks_diverges() -> None:
    other = entries("n2", 1, 1, 1)
    other[1]["record_hash"] += 1
    (sentence,) = diverged(*entries("n1", 1, 1, 1), *other)
    assert sentence == (
        "the logs of n1 and n2 differ at offset 1 of __cluster_metadata-0, below offset 3 (the"
        " end that the quorum's leaders had reported as committed on both): n1: a record without"
        " a value, of epoch 1; n2: a record without a value, of epoch 1"
    )


@pytest.mark.parametrize(
    "change",
    [{"leader_epoch": 2}, {"record_hash": 9}, {"control": True}],
    ids=str,
)
def test_epoch_hash_and_control_must_agree(change: Row) -> None:
    other = entries("n2", 1, 1, 1)
    other[2] |= change
    assert diverged(*entries("n1", 1, 1, 1), *other)


def test_the_last_record_of_an_election_at_the_stop_is_not_settled() -> None:
    """n1 led epoch 1 and wrote once more; n2 was elected in the same moment: above the mark."""
    tails = (*entries("n1", 1, 1, 1, 1), *entries("n2", 1, 1, 1, 2))
    assert diverged(*tails) == []
    # The leader had told that offset 3 was committed on n1, but of n2 no more than 3 below it.
    one_side = (told("n1", 1, 4, 4), told("n2", 1, 4, 3))
    assert diverged(*tails, states=one_side) == []
    both = (told("n1", 1, 4, 4), told("n2", 1, 4, 4))
    assert len(diverged(*tails, states=both)) == 1


def test_the_smaller_of_high_watermark_and_log_end_counts_and_the_highest_told() -> None:
    tails = (*entries("n1", 1, 1, 1, 1), *entries("n2", 1, 1, 1, 2))
    low_marks = (told("n1", 1, 3, 4), told("n2", 1, 3, 4))
    assert diverged(*tails, states=low_marks) == []
    in_turn = (told("n1", 1, 4, 4), told("n1", 1, 2, 2), told("n2", 1, 1, 1), told("n2", 1, 4, 4))
    assert len(diverged(*tails, states=in_turn)) == 1


def test_a_record_that_only_one_node_has_diverges_unless_its_files_are_broken() -> None:
    short = (*entries("n1", 1, 1, 1), *entries("n2", 1, 1))
    (anomaly,) = found(metadata_divergence.CHECKER, of_quorum(about(*BOTH), *short)).anomalies
    assert (anomaly.offset, anomaly.broken_premises, anomaly.excuses) == (2, (), ())
    assert anomaly.name == "metadata-divergence"
    assert anomaly.evidence["nodes"] == ["n1", "n2"]
    broken = about(*BOTH, unreadable_nodes=frozenset({"n2"}))
    (anomaly,) = found(metadata_divergence.CHECKER, of_quorum(broken, *short)).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)


def test_logs_that_begin_behind_snapshots_are_compared_from_the_larger_start_on() -> None:
    behind = (
        {**QUORUM_PLACE, "snapshot": "final", "node": "n2", "log_start_offset": 2,
         "log_end_offset": 3},
    )  # fmt: skip
    logs = (*entries("n1", 1, 1, 1), *entries("n2", 1, start=2))
    result = found(metadata_divergence.CHECKER, of_quorum(about(*BOTH), *logs, states=behind))
    assert (result.rows, result.anomalies) == (1, ())
    logs[-1]["record_hash"] = 1
    result = found(metadata_divergence.CHECKER, of_quorum(about(*BOTH), *logs, states=behind))
    assert len(result.anomalies) == 1


def test_compaction_of_topics_is_none_of_the_quorums_log() -> None:
    compacting = {"broker": {"log.cleanup.policy": "compact"}}
    assert diverged(*entries("n1", 1, 1, 1), *entries("n2", 1, 1), plan=compacting)


def test_a_node_of_which_no_leader_told_is_not_compared() -> None:
    alone = (told("n1", 1, 3, 3), told("n2", 1, 3, None))
    logs = (*entries("n1", 1, 1, 1), *entries("n2", 2, 2, 2))
    result = found(metadata_divergence.CHECKER, of_quorum(about(*alone), *logs))
    assert (result.rows, result.anomalies) == (0, ())


def test_logs_whose_records_nobody_read_agree_about_nothing() -> None:
    """An early ingest kept the states of the quorum's logs, and not their records."""
    said = [
        {**QUORUM_PLACE, "snapshot": "final", "node": node, "log_start_offset": 0,
         "log_end_offset": 3}
        for node in ("n1", "n2")
    ]  # fmt: skip
    unread = of_quorum(about(*BOTH), states=tuple(said))
    assert found(metadata_divergence.CHECKER, unread).rows == 0
    half = of_quorum(about(*BOTH), *entries("n2", 1, 1, 1), states=tuple(said))
    result = found(metadata_divergence.CHECKER, half)
    assert (result.rows, len(result.anomalies)) == (3, 1)


def test_a_node_of_which_leaders_told_must_have_left_its_log() -> None:
    missing = of_quorum(about(*BOTH), *entries("n1", 1, 1, 1))
    assert found(metadata_divergence.CHECKER, missing).gaps == (
        "the controllers' log of n2 is missing",
    )
    died = about(*BOTH, milestones=(Milestone(name="main", at_ns=1),))
    assert found(metadata_divergence.CHECKER, of_quorum(died)).gaps == ()


def test_a_steps_copies_are_held_to_what_was_told_before_it_began() -> None:
    step: Row = {"snapshot": "step-02"}
    logs = (*entries("n1", 1, 1, 1, **step), *entries("n2", 1, 2, 2, **step))
    late: Row = {"steps": {"step-02": 5}}
    assert diverged(*logs, states=BOTH, quorum=of_states(*BOTH, **late)) == []
    early = of_states(*BOTH, steps={"step-02": 6})
    assert diverged(*logs, states=BOTH, quorum=early)[0].startswith("at the end of step-02, the")
    timeless = of_states(*({**row, "observed_ns": None} for row in BOTH), **late)
    assert diverged(*logs, states=BOTH, quorum=timeless) == []
    # A copy that ends early is short, no more.
    short = (*entries("n1", 1, 1, 1, **step), *entries("n2", 1, **step))
    assert diverged(*short, states=BOTH, quorum=early) == []
    assert diverged(*reversed(short), states=BOTH, quorum=early) == []


def test_leaders_that_died_before_the_stop_are_compared_as_well() -> None:
    logs = (
        *entries("n1", 1, 1, 1, snapshot="crash"), *entries("n2", 1, 1, 2, snapshot="crash"),
    )  # fmt: skip
    died = (Milestone(name="main", at_ns=1),)
    assert len(diverged(*logs, states=BOTH, milestones=died)) == 1


# Who began without what was committed


def begun(*records: Row, states: tuple[Row, ...]) -> list[str]:
    where = of_quorum(about(*states), *records)
    return sentences(incomplete_quorum_leader.CHECKER, where)


def test_an_epoch_that_begins_where_the_earlier_ones_mark_stood_is_complete() -> None:
    states = (told("n1", 1, 2, 2), told("n1", 2, 3, 3))
    log = entries("n1", 1, 1, 2)
    result = found(incomplete_quorum_leader.CHECKER, of_quorum(about(*states), *log))
    assert (result.rows, result.anomalies) == (1, ())
    nothing_told = found(incomplete_quorum_leader.CHECKER, of_quorum(about(), *log))
    assert nothing_told.rows == 0


def test_an_epoch_that_begins_below_an_earlier_ones_mark_is_incomplete() -> None:
    states = (told("n1", 1, 3, 3), told("n1", 2, 2, 2))
    (sentence,) = begun(*entries("n1", 1, 1, 1), *entries("n2", 1, 1, 3), states=states)
    assert sentence == (
        "the controllers' leader of epoch 3 began at offset 2: n2's first record of epoch 3 is at"
        " 2; but the leader of epoch 1 had reported all records below offset 3 as committed"
    )
    own = (told("n1", 3, 3, 3),)
    assert begun(*entries("n2", 1, 1, 3), states=own) == [], "its own mark lies behind its start"


# Votes


def votes(*states: Row) -> Group:
    return whole_run(quorum_states=list(states))


def test_one_vote_an_epoch_however_often_it_is_told() -> None:
    said = votes(
        vote("n1", 3, 2), vote("n1", 3, 2, "f2"), vote("n1", 4, 3), vote("n2", 3, 1),
        {"node": "n1", "role": "follower", "epoch": 3, "leader": 1},
        {**vote("n1", 3, 1), "epoch": None},
    )  # fmt: skip
    result = found(double_vote.CHECKER, said)
    assert (result.rows, result.anomalies) == (4, ())


def test_two_candidates_in_one_epoch() -> None:
    said = votes(vote("n1", 3, 2), vote("n1", 3, 1), vote("n2", 3, 2))
    (anomaly,) = found(double_vote.CHECKER, said).anomalies
    assert anomaly.sentence == (
        "n1 voted for n1 and for n2 in epoch 3 of the controllers' quorum, according to its own"
        " file or logs"
    )
    assert anomaly.evidence == {
        "node": "n1", "epoch": 3, "candidates": [1, 2], "directories": ["", ""],
    }  # fmt: skip


def test_two_folders_of_one_candidate_are_two_candidates() -> None:
    (sentence,) = sentences(
        double_vote.CHECKER, votes(vote("n1", 3, 2, "old"), vote("n1", 3, 2, "new"))
    )
    assert "for n2 (log folder new) and for n2 (log folder old)" in sentence


def test_the_checks_of_the_quorum_run_on_its_rows_only() -> None:
    names = {"metadata-divergence", "double-vote"}
    scopes = {each.name: each.scope for each in CHECKERS if each.name in names}
    assert scopes == {"metadata-divergence": Scope.QUORUM, "double-vote": Scope.RUN}
    told_of = {each.name for each in run_checkers(of_quorum(about(*BOTH)))}
    assert told_of == {each.name for each in CHECKERS if each.scope is Scope.QUORUM}


@pytest.mark.parametrize(
    ("plan", "divergence", "others"),
    [
        ({"system": "kafka:3.9.1:zookeeper"}, False, False),
        ({"system": "kafka:4.3.1"}, True, True),
        ({"nodes": 1, "replication": 1, "min_insync": 1}, False, True),
        ({"nodes": 2, "replication": 1, "min_insync": 1}, True, True),
        ({"nodes": 1, "replication": 1, "min_insync": 1, "system": "kafka:4.3.1:controllers"},
         True, True),
    ],
)  # fmt: skip
def test_what_a_plan_can_feed(plan: Row, *, divergence: bool, others: bool) -> None:
    context = facts(plan=plan)
    assert metadata_divergence.CHECKER.applies(context) is divergence
    for each in (double_vote.CHECKER, incomplete_quorum_leader.CHECKER):
        assert each.applies(context) is others


# Against the oracle


def groups_of(run: FaithfulQuorum) -> tuple[Group, Group]:
    context = about(*run.states)
    quorum = of_quorum(context, *run.records, states=tuple(run.replicas))
    return quorum, whole_run(context, quorum_states=run.states)


def evidence(checker: Checker, on: Group, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(each.evidence[name] for name in names) for each in checker.check(on).anomalies]


def agree(run: FaithfulQuorum) -> set[str]:
    """Compare kernels with the oracle; return what was found."""
    log, whole = groups_of(run)
    diverging = oracle.metadata_divergences(run.states, run.records, run.replicas)
    assert [
        (tuple(nodes), first, last, count)
        for nodes, first, last, count in evidence(
            metadata_divergence.CHECKER, log, "nodes", "first_offset", "last_offset", "differing"
        )
    ] == sorted(
        ((nodes, offsets[0], offsets[-1], len(offsets)) for nodes, offsets in diverging.items()),
        key=lambda each: (each[1], each[0]),
    )
    voted = set(evidence(double_vote.CHECKER, whole, "node", "epoch"))
    assert voted == oracle.double_votes(run.states)
    low = dict(evidence(incomplete_quorum_leader.CHECKER, log, "epoch", "start_offset"))
    assert low == oracle.incomplete_leaders(run.states, run.records)
    names = {"metadata-divergence": diverging, "double-vote": voted, "incomplete-leader": low}
    return {name for name, each in names.items() if each}


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_a_faithful_quorum_is_accepted(seed: int) -> None:
    run = FaithfulQuorum(seed)
    assert agree(run) == set()
    rows = found(metadata_divergence.CHECKER, groups_of(run)[0]).rows
    marks, starts = oracle.committed_up_to(run.states), oracle.starts(run.replicas)
    assert rows == sum(
        max(min(marks[one], marks[other]) - max(starts[one], starts[other]), 0)
        for one, other in combinations(sorted(marks), 2)
    )


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, data=st.data())
def test_a_change_of_what_is_settled_is_found(seed: int, data: st.DataObject) -> None:
    run = FaithfulQuorum(seed)
    marks = oracle.committed_up_to(run.states)
    lowest, start = min(marks.values()), max(row["log_start_offset"] for row in run.replicas)
    settled = [
        row for row in run.records
        if row["node"] in marks and start <= row["offset"] < lowest
    ]  # fmt: skip
    if not settled:
        return
    row = data.draw(st.sampled_from(settled))
    row["record_hash"] += 1
    assert agree(run) == {"metadata-divergence"}


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, data=st.data())
def test_a_second_vote_is_found(seed: int, data: st.DataObject) -> None:
    run = FaithfulQuorum(seed)
    row = data.draw(st.sampled_from([row for row in run.states if row["voted_for"]]))
    run.states.append({**row, "voted_for": row["voted_for"] % 3 + 1})
    assert agree(run) == {"double-vote"}


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_a_leader_that_lacked_something_is_found(seed: int) -> None:
    run = FaithfulQuorum(seed)
    mark = max(row["high_watermark"] or 0 for row in run.states)
    epoch = max(row["epoch"] for row in run.states) + 1
    at = next((row for row in run.records if row["offset"] < mark), None)
    if at is None:
        return
    run.records.append({**at, "node": "n9", "leader_epoch": epoch})
    run.replicas.append({**run.replicas[0], "node": "n9"})
    assert agree(run) == {"incomplete-leader"}
