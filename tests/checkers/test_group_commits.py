"""commit-lost and commit-ahead: what a group's coordinator says of its position in a partition."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import commit_ahead, commit_lost
from checkers.facts import DiskLoss, Disturbance, RunFacts
from checkers.group import Group
from checkers.group_commits import TABLES
from checkers.protocol import Checker
from checkers.reigns import GROUPS, Reign
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, found, group, sentences
from tests.oracle.groups import wrong_answers

CONCURRENCY, MEMBERS = 16, 8
"""With one worker every other one of eight threads is a member of the same group."""
PLAN: Row = {"workload": "groups", "workers": 1, "concurrency": CONCURRENCY, "nodes": 3}
LOST, AHEAD = commit_lost.CHECKER, commit_ahead.CHECKER


def test_both_checks_read_the_same_tables() -> None:
    assert LOST.tables == AHEAD.tables == TABLES


def about(**changes: object) -> RunFacts:
    plan = {**PLAN, **changes.pop("plan", {})}  # type: ignore[dict-item]  # It is a mapping.
    return facts(plan=plan, **changes)


def commit(offset: int, at: int, *, op: int, process: int = 0, until: int | None = -1) -> Row:
    """A commit that was asked for at a second, and acknowledged half a second later.

    Args:
        until: When it was acknowledged instead; None: never.
    """
    told = at * S + S // 2 if until == -1 else until and until * S
    return {"op_id": op, "process": process, "act": "commit", "asked_ns": at * S, "told_ns": told,
            "offset": offset, "outcome": "info" if told is None else "ok"}  # fmt: skip


def fetch(offset: int | None, at: int, *, op: int = 99, process: int = 2) -> Row:
    return {"op_id": op, "process": process, "act": "fetch", "asked_ns": at * S,
            "told_ns": at * S + S // 2, "offset": offset, "outcome": "ok"}  # fmt: skip


def joined(process: int, at: int) -> Row:
    return {"op_id": 50, "process": process, "kind": "subscribe", "time_ns": at * S}


def wrong(*commits: Row, moves: tuple[Row, ...] = ()) -> tuple[int, int]:
    """How many answers were too little, and too much."""
    judged = group(about(), commits=list(commits), assignments=list(moves))
    lost, ahead = found(LOST, judged), found(AHEAD, judged)
    assert lost.rows <= ahead.rows, "where nothing was committed nothing can be forgotten"
    return len(lost.anomalies), len(ahead.anomalies)


def test_the_last_commit_is_told() -> None:
    before = [commit(5, 1, op=1), commit(9, 2, op=2)]
    assert wrong(*before, fetch(9, 3)) == (0, 0)
    assert wrong(*before, fetch(8, 3)) == (1, 0)
    assert wrong(*before, fetch(5, 3)) == (1, 0)
    assert wrong(*before, fetch(None, 3)) == (1, 0)
    assert wrong(*before, fetch(10, 3)) == (0, 1)


def test_a_position_may_go_back_if_a_member_took_it_back() -> None:
    assert wrong(commit(9, 1, op=1), commit(5, 2, op=2), fetch(5, 3)) == (0, 0)
    assert wrong(commit(9, 1, op=1), commit(5, 2, op=2), fetch(4, 3)) == (1, 0)


def test_before_there_was_a_commit_there_is_nothing() -> None:
    assert wrong(fetch(None, 1), commit(9, 2, op=1)) == (0, 0)
    assert wrong(fetch(0, 1), commit(9, 2, op=1)) == (0, 1)


def test_commits_under_way_may_have_come_or_not() -> None:
    with_one = [commit(5, 1, op=1), commit(9, 3, op=2, until=7)]
    assert wrong(*with_one, fetch(5, 4)) == (0, 0)
    assert wrong(*with_one, fetch(9, 4)) == (0, 0)
    assert wrong(*with_one, fetch(4, 4)) == (1, 0)
    assert wrong(*with_one, fetch(10, 4)) == (0, 1)
    later = commit(9, 6, op=2)
    assert wrong(commit(5, 1, op=1), fetch(9, 4), later) == (0, 1), "asked for later"


def test_two_commits_at_one_time_come_in_any_order() -> None:
    both = [commit(9, 1, op=1, until=5), commit(6, 2, op=2, process=4, until=3)]
    assert wrong(*both, fetch(6, 6)) == (0, 0)
    assert wrong(*both, fetch(9, 6)) == (0, 0)
    assert wrong(*both, fetch(5, 6)) == (1, 0)


def test_a_commit_without_an_answer_may_come_until_its_client_is_dead() -> None:
    late = [commit(4, 1, op=1, until=None), commit(9, 5, op=2, process=4)]
    assert wrong(*late, fetch(4, 7)) == (0, 0)
    assert wrong(*late, fetch(3, 7)) == (1, 0)
    assert wrong(*late, fetch(4, 7), moves=(joined(16, 4),)) == (1, 0)
    assert wrong(*late, fetch(4, 7), moves=(joined(16, 6),)) == (0, 0), "it died later"
    assert wrong(*late, fetch(4, 7), moves=(joined(0, 4), joined(17, 4))) == (0, 0), "others"


def test_what_never_had_an_answer_is_not_the_last_that_is_sure() -> None:
    dead = [commit(5, 1, op=1), commit(9, 2, op=2, until=None)]
    assert wrong(*dead, fetch(5, 6), moves=(joined(16, 3),)) == (0, 0)
    assert wrong(*dead, fetch(4, 6), moves=(joined(16, 3),)) == (1, 0)


def test_groups_are_asked_for_what_they_committed_themselves() -> None:
    assert wrong(commit(9, 1, op=1), fetch(None, 3, process=8)) == (0, 0)
    assert wrong(commit(9, 1, op=1), fetch(9, 3, process=8)) == (0, 1)
    assert wrong(commit(9, 1, op=1), fetch(9, 3, process=16 + 6)) == (0, 0), "a later process"


def test_a_question_without_an_answer_says_nothing() -> None:
    unanswered = {**fetch(None, 3), "outcome": "info"}
    assert wrong(commit(9, 1, op=1), unanswered) == (0, 0)
    assert found(LOST, group(about(), commits=[commit(9, 1, op=1), unanswered])).rows == 0


def kept(op: int, *nodes: str, whole: bool = True) -> list[Row]:
    """An op's commit in the groups' log of some nodes."""
    return [{"snapshot": "final", "node": node, "whole": whole, "committed_by": op, "offset": 1,
             "log_partition": 0, "log_offset": op} for node in nodes]  # fmt: skip


def keeping(on: RunFacts, *rows: Row) -> RunFacts:
    """The facts of a run whose logs have some commits."""
    nodes = frozenset(str(row["node"]) for row in rows)
    return replace(on, commits_kept_on=nodes if all(row["whole"] for row in rows) else frozenset())


def looked_for(*rows: Row, commits: list[Row], about: RunFacts) -> tuple[int, list[str]]:
    judged = group(keeping(about, *rows), commits=commits, kept_commits=list(rows))
    return found(LOST, judged).rows, sentences(LOST, judged)


def test_an_acknowledged_commit_stands_in_some_log() -> None:
    read = about(collected_nodes=frozenset({"n1", "n2", "n3"}))
    commits = [commit(5, 1, op=1), commit(9, 2, op=2), commit(11, 3, op=3, until=None)]
    all_of_one = kept(1, "n1", "n2", "n3")
    assert looked_for(*all_of_one, *kept(2, "n3"), commits=commits, about=read) == (2, [])
    rows, told = looked_for(*all_of_one, commits=commits, about=read)
    assert (rows, told) == (2, [
        (f"process 0 committed offset 9 of log-0-0 for group {read.plan.name}-0 in op 2,"
         " acknowledged at 2.500 s; after the stop no log of __consumer_offsets has that commit"
         " (n1, n2, n3)")
    ])  # fmt: skip


def test_a_log_that_was_compacted_or_not_read_proves_nothing() -> None:
    read = about(collected_nodes=frozenset({"n1", "n2", "n3"}))
    commits = [commit(5, 1, op=1), commit(9, 2, op=2)]
    compacted = [*kept(1, "n1", "n2"), *kept(1, "n3", whole=False)]
    assert looked_for(*compacted, commits=commits, about=read) == (0, [])
    assert looked_for(commits=commits, about=read) == (0, []), "of a record without that table"
    elsewhere = replace(read, commits_kept_on=frozenset({"n1", "n2"}))
    judged = group(elsewhere, commits=commits)
    assert len(found(LOST, judged).anomalies) == 2, "the logs have commits of other partitions"
    weak = about(plan={"broker": {"offsets.commit.required.acks": "1"}})
    assert looked_for(*kept(1, "n1"), commits=commits, about=weak) == (0, [])
    for other in (
        about(collected_nodes=frozenset({"n1", "n2"})),
        about(collected_nodes=frozenset({"n1", "n2", "n3"}), unreadable_nodes=frozenset({"n2"})),
    ):
        rows = kept(1, "n1", "n2")
        judged = group(keeping(other, *rows), commits=commits, kept_commits=rows)
        (anomaly,) = found(LOST, judged).anomalies
        assert anomaly.broken_premises == ("readable-final-logs",)


def test_the_sentences_name_who_was_told_what() -> None:
    rows = [commit(9, 1, op=7), {**fetch(4, 3), "committed_by": 6}, fetch(12, 4, op=98)]
    (lost,) = sentences(LOST, group(about(), commits=rows))
    (ahead,) = sentences(AHEAD, group(about(), commits=rows))
    (anomaly,) = found(LOST, group(about(), commits=rows)).anomalies
    assert (anomaly.evidence["committed_by"], anomaly.offset) == (6, 4)
    name = about().plan.name
    assert lost == (
        f"op 99 of process 2 got the answer at 3.500 s that group {name}-0 had committed offset 4"
        " of log-0-0; after the last commit that was acknowledged before its request (op 7 at"
        " 1.500 s) the position must be 9 or higher"
    )
    assert ahead == (
        f"op 98 of process 2 got the answer at 4.500 s that group {name}-0 had committed offset"
        " 12 of log-0-0; no member had tried to commit an offset above 9 (op 7)"
    )
    later = [commit(3, 0, op=5), *rows, commit(1, 5, op=8)]
    assert sentences(LOST, group(about(), commits=later))[:1] == [lost]
    assert sentences(AHEAD, group(about(), commits=later))[:1] == [ahead]
    assert found(AHEAD, group(about(), commits=rows)).anomalies[0].broken_premises == ()
    (zero,) = sentences(AHEAD, group(about(), commits=[commit(0, 1, op=7), fetch(3, 3)]))
    assert zero.endswith("no member had tried to commit an offset above 0 (op 7)")
    (nothing,) = sentences(LOST, group(about(), commits=[commit(9, 1, op=7), fetch(None, 3)]))
    assert "had committed nothing of log-0-0" in nothing
    (first,) = sentences(AHEAD, group(about(), commits=[fetch(3, 3)]))
    assert first.endswith("offset 3 of log-0-0; no member had tried to commit any offset")


def loss(
    *nodes: str,
    topic: str = GROUPS,
    partition: int = 1,
    end_after: int = 3,
    began_ns: int = -1,
    replicas: int | None = None,
) -> DiskLoss:
    return DiskLoss(
        replicas=replicas,
        nodes=frozenset(nodes),
        topic=topic,
        partition=partition,
        end_after=end_after,
        end_before=8,
        until_ns=2 * S,
        began_ns=began_ns,
        excuse="power-loss",
    )


LATE = 30
"""A commit that was acknowledged then is on disks that were lost long before."""


@pytest.mark.parametrize(
    ("losses", "at", "excuses"),
    [
        ((), 1, ()),
        ((loss("n1", "n2", "n3"),), 1, ("power-loss",)),
        ((loss("n1", "n2", "n3", replicas=3),), 1, ("power-loss",)),
        ((loss("n1", "n2", "n3", replicas=1),), 1, ("last-copies",)),  # The others had none.
        ((loss("n1", "n2", replicas=1), loss("n3", replicas=1)), 1, ("last-copies",)),
        ((loss("n1", "n2", replicas=2), loss("n3", replicas=1)), 1, ("power-loss",)),
        ((loss("n1", "n2", "n3"),), LATE, ()),
        ((loss("n1", "n2", "n3", began_ns=7 * S),), 1, ()),  # It began after the answer.
        ((loss("n1", "n2"),), 1, ("last-copies",)),
        ((loss("n1", "n2"), loss("n3")), 1, ("power-loss",)),
        ((loss("n1", "n2"), loss("n3", partition=2)), 1, ("last-copies",)),
        ((loss("n1", "n2"), loss("n3", topic="", partition=-1)), 1, ("power-loss",)),
        ((loss("n1", "n2", "n3", topic="", partition=-1),), 1, ("power-loss",)),
        ((loss("n1", "n2", "n3", topic="log-0"),), 1, ()),
        ((loss("n1", "n2", "n3", end_after=8),), 1, ()),
    ],
)
def test_disks_that_lost_all_copies_of_the_offsets_topic_excuse(
    losses: tuple[DiskLoss, ...], at: int, excuses: tuple[str, ...]
) -> None:
    rows = [commit(9, at, op=1), fetch(4, at + 5)]
    (anomaly,) = found(LOST, group(about(disk_losses=losses), commits=rows)).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == (excuses, ())


def test_an_offsets_topic_with_one_replica_loses_with_one_disk() -> None:
    plan = {"broker": {"offsets.topic.replication.factor": "1"}}
    rows = [commit(9, 1, op=1), fetch(4, 5)]
    on = group(about(plan=plan, disk_losses=(loss("n2"),)), commits=rows)
    assert found(LOST, on).anomalies[0].excuses == ("power-loss",)


@pytest.mark.parametrize("told", ["x", "", "1.5", "9" * 5000])
def test_a_setting_may_be_any_text_in_a_plan_of_a_stranger(told: str) -> None:
    plan = {"broker": {"offsets.topic.replication.factor": told}}
    rows = [commit(9, 1, op=1), fetch(4, 5)]
    one, all_ = ((loss("n2"),), tuple(loss(node) for node in ("n1", "n2", "n3")))
    for losses in (one, all_):
        by_default = found(LOST, group(about(disk_losses=losses), commits=rows)).anomalies
        of_text = found(LOST, group(about(plan=plan, disk_losses=losses), commits=rows)).anomalies
        assert [each.excuses for each in of_text] == [each.excuses for each in by_default]


def test_an_unclean_election_excuses_where_something_happened() -> None:
    plan = {"broker": {"unclean.leader.election.enable": "true"}}
    stones = (Milestone(name="main", at_ns=0, detail={}),)
    rows = [commit(9, 20, op=1), fetch(4, 21)]
    leader = {"source": "list-offsets", "leader_epoch": 0, "observed_ns": S, "leader": 1}
    told: dict[str, list[Row]] = {"commits": rows, "leadership": [leader]}
    quiet = about(plan=plan, milestones=stones)
    assert found(LOST, group(quiet, **told)).anomalies[0].excuses == ()
    cut = Disturbance(kind="kill", begun_ns=18 * S, ended_ns=19 * S)
    shaken = about(plan=plan, milestones=stones, disturbances=(cut,))
    assert found(LOST, group(shaken, **told)).anomalies[0].excuses == ("unclean-election",)


def led(epoch: int, from_s: int, until_s: int) -> Reign:
    return Reign(topic=GROUPS, partition=0, leader=1 + epoch, epoch=epoch, from_ns=from_s * S,
                 until_ns=until_s * S)  # fmt: skip


@pytest.mark.parametrize(
    ("reigns", "excused"),
    [
        ((), True),  # Nobody knows.
        ((led(0, 0, 15), led(1, 10, 90)), False),
        ((led(0, 0, 15), replace(led(1, 10, 90), unclean=True)), True),
        ((led(0, 0, 90), replace(led(1, 22, 90), unclean=True)), False),  # After the answer.
        ((led(1, 0, 90),), True),  # What came before is in a snapshot.
        ((replace(led(0, 0, 90), partition=1),), True),  # The rest of the topic is disputed.
        ((led(0, 0, 90), replace(led(0, 0, 90), partition=1)), False),
    ],
)
def test_the_controllers_log_shows_if_an_unclean_election_may_have_cost_commits(
    reigns: tuple[Reign, ...],
    excused: bool,  # noqa: FBT001 - a case
) -> None:
    plan = {"broker": {"unclean.leader.election.enable": "true"}}
    rows = [commit(9, 20, op=1), fetch(4, 21)]
    on = group(about(plan=plan, reigns=reigns), commits=rows)
    (anomaly,) = found(LOST, on).anomalies
    assert anomaly.excuses == ("unclean-election",) * excused
    # Copies of the log differ, so a partition is left out.
    leaders = {"leader of __consumer_offsets-1": {"n1": "1", "n2": "2"}}
    quorum = replace(on.facts.quorum, disputed={7: leaders})
    (anomaly,) = found(LOST, replace(on, facts=replace(on.facts, quorum=quorum))).anomalies
    assert anomaly.excuses == ("unclean-election",)


CUT_OFF = (led(0, 0, 40), led(1, 20, 90))
"""The first coordinator was cut off until 40 s, and may have answered all the time."""


@pytest.mark.parametrize(
    ("reigns", "asked", "lost"),
    [
        (CUT_OFF, 35, 0),
        (CUT_OFF, 45, 1),
        ((led(0, 0, 90),), 35, 1),
        # The newer commit, too, was acknowledged by the first one.
        ((led(0, 0, 40), led(1, 32, 90)), 35, 1),
        ((led(0, 0, 22), led(1, 20, 90)), 35, 1),
    ],
)
def test_a_coordinator_that_was_replaced_answers_by_its_old_state(
    reigns: tuple[Reign, ...], asked: int, lost: int
) -> None:
    """Members that still reach it are told what was committed before it was cut off."""
    rows = [commit(4, 10, op=1), commit(9, 30, op=2, process=4)]
    on = group(about(reigns=reigns), commits=[*rows, fetch(4, asked)])
    assert len(found(LOST, on).anomalies) == lost
    older = group(about(reigns=reigns), commits=[*rows, fetch(3, asked)])
    assert len(found(LOST, older).anomalies) == 1, "it had acknowledged that one itself"


@pytest.mark.parametrize(("asked", "lost"), [(29, 0), (30, 1)])
def test_an_answer_that_names_a_later_coordinators_commit_is_no_old_one(
    asked: int, lost: int
) -> None:
    """A coordinator that was replaced knows no commit that was asked for afterwards."""
    first, second = CUT_OFF
    reigns = (replace(first, replaced_ns=28 * S - 1), second)
    rows = [commit(4, asked, op=1), commit(9, 32, op=2, process=4)]
    on = group(about(reigns=reigns), commits=[*rows, {**fetch(4, 35), "committed_by": 1}])
    assert len(found(LOST, on).anomalies) == lost
    unnamed = group(about(reigns=reigns), commits=[*rows, fetch(4, 35)])
    assert len(found(LOST, unnamed).anomalies) == 0


@pytest.mark.parametrize(("kind", "lost"), [("isolate", 0), ("pause", 0), ("kill", 1)])
def test_who_coordinates_is_unknown_without_the_controllers_log(kind: str, lost: int) -> None:
    cut = Disturbance(kind=kind, begun_ns=15 * S, ended_ns=40 * S)
    rows = [commit(4, 10, op=1), commit(9, 30, op=2, process=4)]
    for asked, told in ((35, lost), (43, 1)):
        on = group(about(disturbances=(cut,)), commits=[*rows, fetch(4, asked)])
        assert len(found(LOST, on).anomalies) == told
    early = [commit(4, 10, op=1), commit(9, 12, op=2, process=4), fetch(4, 35)]
    assert len(found(LOST, group(about(disturbances=(cut,)), commits=early)).anomalies) == 1


@pytest.mark.parametrize("checker", [LOST, AHEAD])
def test_a_cut_record_takes_the_trust_and_only_groups_have_positions(checker: Checker) -> None:
    rows = [commit(9, 1, op=1), fetch(4 if checker is LOST else 12, 3)]
    (anomaly,) = found(checker, group(about(cut_streams=True), commits=rows)).anomalies
    assert anomaly.broken_premises == ("whole-record",)
    assert checker.applies(about())
    assert not checker.applies(facts())


def told(on: Group) -> dict[str, set[int]]:
    return {
        each.name: {int(str(one.evidence["op_id"])) for one in found(each, on).anomalies}
        for each in (LOST, AHEAD)
    }


def agree(on: Group) -> dict[str, set[int]]:
    rows = {name: table.to_pylist() for name, table in on.tables.items()}
    expected = wrong_answers(rows, concurrency=CONCURRENCY, members=MEMBERS)
    assert told(on) == expected
    return expected


def test_a_plan_that_lets_coordinators_forget_positions_promises_none() -> None:
    """Before Kafka 2.1 a position expires though its group is in use (KIP-211)."""
    brief = {"offsets.retention.minutes": "1"}
    plans: list[Row] = [{}, {"broker": brief}, {"system": "kafka:1.1.1", "node": {"n2": brief}}]
    for plan in plans:
        for offset, rows in ((None, 0 if plan else 1), (4, 1)):
            on = group(about(plan=plan), commits=[commit(9, 1, op=1), fetch(offset, 90)])
            told = found(LOST, on)
            assert (told.rows, len(told.anomalies)) == (rows, rows), "an old one never returns"


@pytest.mark.parametrize(
    ("minutes", "faults", "told_s", "lost"),
    [
        ("1", (), 20, 1),
        ("1", (), 90, 0),
        ("10080", (), 90, 1),
        ("10080", (Disturbance(kind="clock-offset", begun_ns=50 * S, ended_ns=60 * S),), 90, 0),
        ("soon", (), 20, 0),
    ],
)
def test_a_position_does_not_expire_before_its_time(
    minutes: str, faults: tuple[Disturbance, ...], told_s: int, lost: int
) -> None:
    plan: Row = {"broker": {"offsets.retention.minutes": minutes}}
    on = group(
        replace(about(plan=plan), disturbances=faults),
        commits=[commit(9, 1, op=1), fetch(None, told_s)],
    )
    told = found(LOST, on)
    assert (told.rows, len(told.anomalies), bool(told.unshown)) == (lost, lost, not lost)


def test_a_position_expires_from_the_time_of_the_commit_and_not_of_its_answer() -> None:
    plan: Row = {"broker": {"offsets.retention.minutes": "1"}}
    for told_s, lost in ((62, 1), (63, 0)):
        commits = [commit(9, 3, op=1, until=50), fetch(None, told_s)]
        on = group(about(plan=plan), commits=commits)
        assert len(found(LOST, on).anomalies) == lost


TIME = st.integers(0, 12)
PROCESS = st.sampled_from([0, 2, 4, 8, 16, 18, 32])


@st.composite
def strange(draw: st.DrawFn) -> Group:
    commits = [
        {"op_id": op, "process": draw(PROCESS), "act": draw(st.sampled_from(["commit", "fetch"])),
         "asked_ns": (asked := draw(TIME)), "told_ns": asked + draw(st.integers(1, 6)),
         "offset": draw(st.integers(0, 5)), "outcome": draw(st.sampled_from(["ok", "info"]))}
        for op in range(draw(st.integers(0, 9)))
    ]  # fmt: skip
    moves = [
        {"op_id": 90 + at, "process": draw(PROCESS), "time_ns": draw(TIME),
         "kind": draw(st.sampled_from(["subscribe", "rebalance-assigned"]))}
        for at in range(draw(st.integers(0, 3)))
    ]  # fmt: skip
    return group(about(), commits=commits, assignments=moves)


@settings(max_examples=300, deadline=None)
@given(on=strange())
def test_any_rows_are_judged_as_the_oracle_says(on: Group) -> None:
    agree(on)


class Register:
    """A coordinator that does as it should: each request takes effect at one time of its own."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rows: list[Row] = []
        self.moves: list[Row] = []
        self.value: int | None = None
        waiting: list[tuple[int, Row]] = []
        asked_ns, processes = 0, dict.fromkeys((0, 2, 4), 0)
        for op in range(120):
            asked_ns += self.random.randrange(1, 8)
            thread = self.random.choice(list(processes))
            if self.random.random() < 0.1:
                waiting = [each for each in waiting if not self._dies(each, thread, processes)]
                processes[thread] += 1
                born = {"process": thread + processes[thread] * CONCURRENCY, "time_ns": asked_ns}
                self.moves.append({"op_id": 1000 + op, "kind": "subscribe", **born})
            act = self.random.choice(["commit", "commit", "fetch"])
            row: Row = {
                "op_id": op,
                "process": thread + processes[thread] * CONCURRENCY,
                "act": act,
                "asked_ns": asked_ns,
                "offset": self.random.randrange(50),
            }
            waiting.append((asked_ns + self.random.randrange(1, 30), row))
            self.rows.append(row)
            for due in sorted(waiting, key=lambda each: each[0]):
                if due[0] <= asked_ns:
                    self._takes_effect(*due)
                    waiting.remove(due)
        for _, row in waiting:
            row.update(told_ns=None, outcome="info")

    def _dies(self, waiting: tuple[int, Row], thread: int, processes: dict[int, int]) -> bool:
        mine = bool(waiting[1]["process"] == thread + processes[thread] * CONCURRENCY)
        if mine:
            waiting[1].update(told_ns=None, outcome="info")
        return mine

    def _takes_effect(self, at_ns: int, row: Row) -> None:
        if row["act"] == "commit":
            self.value = row["offset"]
        else:
            row["offset"] = self.value
        answered = row["act"] == "fetch" or self.random.random() < 0.8
        row.update(told_ns=at_ns + 1 if answered else None, outcome="ok" if answered else "info")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_faithful_coordinator_is_believed_and_a_forgetful_one_is_not(seed: int) -> None:
    register = Register(seed)
    tables = {"commits": register.rows, "assignments": register.moves}
    assert agree(group(about(), **tables)) == {"commit-lost": set(), "commit-ahead": set()}
    answers = [row for row in register.rows if row["act"] == "fetch" and row["outcome"] == "ok"]
    forgotten = register.random.choice(answers)
    forgotten["offset"] = None
    agree(group(about(), **tables))
    invented = register.random.choice(answers)
    invented["offset"] = 60
    assert agree(group(about(), **tables))["commit-ahead"] == {invented["op_id"]}
