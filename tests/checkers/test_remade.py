"""Topics that faults made again: their ISRs, and what was acknowledged of their last lives."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import isr_not_restored, remade
from checkers.examine import CHECK, STATISTIC, examine
from checkers.facts import DiskLoss, RemadeTopic, RunFacts
from checkers.group import Group, group_of
from checkers.groups import is_judged
from checkers.protocol import Scope
from checkers.registry import CHECKERS
from checkers.remade_topics import remade_topics
from checkers.runner import run_checkers
from checkers.told_isrs import isr_returns
from checkers.transitions.tables import SCHEMAS
from results.record.declared import Declared, Sight
from results.record.tables import TABLES
from results.record.terms import REMADE_PREFIX
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    facts,
    found,
    isr,
    leads,
    log,
    reason,
    sentences,
    state,
)

Row = dict[str, Any]
NAME, LAST, FIRST = f"{REMADE_PREFIX}1", "id-last", "id-first"
PLACE = {"topic": NAME, "topic_id": LAST, "partition": 0}
TOPIC = RemadeTopic(
    topic=NAME,
    topic_id=LAST,
    replicas={0: ("n1", "n2", "n3"), 1: ("n2", "n1", "n3")},
    acked=((0, 0, A), (0, 1, B), (1, 0, C)),
    made_ns=2 * S,
    healed_ns=9 * S,
)
LED = [isr(1, 2, 3)]


def about(**changes: object) -> RunFacts:
    return facts(**{"remade": (TOPIC,), "plan": {"nodes": 3, "replication": 2}, **changes})  # type: ignore[arg-type]  # Any of its fields.


def group(context: RunFacts | None = None, /, **rows: list[Row]) -> Group:
    tables = {
        name: pa.Table.from_pylist([{**PLACE, **row} for row in each], schema=TABLES[name])
        for name, each in rows.items()
    }
    return group_of(context or about(), tables, topic=NAME, topic_id=LAST, partition=0)


def logs(*values: int, node: str = "n1") -> dict[str, list[Row]]:
    return {
        "replica_records": log(node, *((0, value) for value in values)),
        "replica_states": [state(node, len(values))],
    }


# What the judge knows of them


def row(heal_effect: object, **changes: object) -> Row:
    return {"fault_id": 1, "kind": "kill", "targets": ["n1"], "requested_ns": S,
            "confirmed_ns": 3 * S, "healed_ns": 9 * S, "heal_effect": json.dumps(heal_effect),
            **changes}  # fmt: skip


HEALED: Row = {
    "kind": "remade-back",
    "topic": NAME,
    "topic_id": LAST,
    "age_s": 7,
    "replicas": {"0": ["n1", "n2", "n3"], "1": ["n2", "n1", "n3"]},
    "acked": [
        {"partition": 0, "offset": 0, "value": A},
        {"partition": 0, "offset": 1, "value": B},
        {"partition": 1, "offset": 0, "value": C},
    ],
}


def known(*rows: Row) -> tuple[RemadeTopic, ...]:
    return remade_topics(pa.Table.from_pylist(list(rows), schema=TABLES["faults"]))


def test_the_faults_row_tells_of_the_last_incarnation() -> None:
    assert known(row(HEALED)) == (TOPIC,)
    assert known(row({"kind": "back", "took_s": 1})) == ()


def test_the_row_tells_whether_the_fault_was_confirmed() -> None:
    (told,) = known(row(HEALED, confirmed_ns=None))
    assert told == replace(TOPIC, confirmed=False)


def test_one_that_is_not_over_is_not_judged() -> None:
    assert known(row(HEALED, healed_ns=None)) == ()


@pytest.mark.parametrize(
    "damaged",
    [
        {"topic": "log-0"},
        {"topic": 5},
        {"topic_id": None},
        {"replicas": []},
        {"age_s": None},
        {"age_s": float("nan")},
        {"acked": "?"},
    ],
    ids=str,
)
def test_a_damaged_row_is_of_no_topic(damaged: Row) -> None:
    assert known(row({**HEALED, **damaged})) == ()
    assert known(row([])) == ()


def test_a_record_that_is_damaged_is_left_out() -> None:
    (told,) = known(row({**HEALED, "acked": [HEALED["acked"][0], {"partition": 0}, None]}))
    assert told.acked == ((0, 0, A),)


def test_its_last_incarnation_is_judged_and_no_other() -> None:
    assert is_judged(about(), (NAME, LAST, 1))
    assert not is_judged(about(), (NAME, FIRST, 1))
    assert not is_judged(about(), (NAME, LAST, 2)), "there is no such partition"
    assert not is_judged(facts(), (NAME, LAST, 1))
    assert is_judged(about(), ("log-0", "id-0", 0))


def test_it_is_judged_by_checks_of_its_own_and_is_in_no_figure_of_clients() -> None:
    on = group(leadership=LED, **logs(A, B))
    names = [each.name for each in run_checkers(on)]
    assert names == [each.name for each in CHECKERS if each.scope is Scope.REMADE]
    assert sorted(names) == ["isr-not-restored", "lost-write", "under-replicated"]
    pieces = examine(about(), {}, (NAME, LAST, 0))
    assert {each.kind for each in pieces} == {CHECK, STATISTIC}
    told = {each.name for each in pieces if each.kind == STATISTIC}
    assert told == {*SCHEMAS}, "it is none of the partitions that clients write to"


def test_without_such_topics_these_checks_do_not_apply() -> None:
    for each in CHECKERS:
        if each.scope is Scope.REMADE:
            assert each.applies(about())
            assert not each.applies(facts())


# What was acknowledged


def lost(context: RunFacts | None = None, /, **rows: list[Row]) -> list[str]:
    return sentences(remade.CHECKER, group(context, **rows))


def test_all_that_was_acknowledged_is_in_the_last_leaders_log() -> None:
    assert lost(leadership=LED, **logs(A, B)) == []
    assert found(remade.CHECKER, group(leadership=LED, **logs(A, B))).rows == 2


def test_a_record_that_is_gone_is_lost() -> None:
    (said,) = lost(leadership=LED, **logs(A))
    assert said == (
        f"value {B}, acknowledged at offset 1 of {NAME}-0 (topic id {LAST}, which a fault"
        " recreated), is missing from the log of the last leader n1"
    )


def test_where_it_is_else_is_told() -> None:
    rows = logs(A)
    for name, more in logs(A, B, node="n2").items():
        rows[name] += more
    (said,) = lost(leadership=LED, **rows)
    assert said.endswith("the last leader n1, but is in the log of n2")
    (anomaly,) = found(remade.CHECKER, group(leadership=LED, **rows)).anomalies
    assert anomaly.offset == 1
    assert anomaly.evidence == {
        "value": B, "offset": 1, "topic_id": LAST, "final_leader": "n1",
        "missing_from_leaders_log": True, "found_on": ["n2"],
    }  # fmt: skip


def test_why_it_is_gone_is_by_the_logs() -> None:
    assert reason(remade.CHECKER, group(leadership=LED, **logs(A))) == "the log of n1 lacks it"
    rows = logs(A)
    for name, more in logs(A, B, node="n2").items():
        rows[name] += more
    told = reason(remade.CHECKER, group(leadership=LED, **rows))
    assert told == "the log of n2 holds it, but the last leader's log does not"


def test_a_whole_log_that_is_empty_has_lost_all() -> None:
    assert len(lost(leadership=LED, replica_states=[state("n1", 0)])) == 2


def test_records_of_other_partitions_and_incarnations_are_not_looked_for() -> None:
    result = found(remade.CHECKER, group(leadership=LED, **logs(A, B)))
    assert (result.rows, result.anomalies) == (2, ()), "C was sent to another partition"
    other = replace(group(leadership=LED, **logs(C)), partition=1)
    result = found(remade.CHECKER, other)
    assert (result.rows, result.anomalies) == (1, ())


def test_the_last_leader_is_of_the_highest_epoch_and_was_told_last() -> None:
    rows = logs(A, B, node="n2")
    for name, more in logs(A, node="n1").items():
        rows[name] += more
    earlier = [isr(1, 2), {**isr(3, 1), "observed_ns": 9 * S}]
    assert lost(leadership=[*earlier, isr(2, 3, epoch=1)], **rows) == []
    late = {**isr(2, 3, epoch=1), "observed_ns": 5 * S}
    assert len(lost(leadership=[late, {**isr(1, 3, epoch=1), "observed_ns": 6 * S}], **rows)) == 1
    nobody = {**late, "leader": -1, "leader_epoch": 2, "observed_ns": 8 * S}
    result = found(remade.CHECKER, group(leadership=[late, nobody], **rows))
    assert (result.rows, result.anomalies) == (2, ()), "that nobody leads names no leader"
    claimed = {**leads(1, 2), "observed_ns": 9 * S}
    assert lost(leadership=[late, claimed], **rows) == [], "it is whom metadata name"


def test_what_every_replica_lost_with_its_power_is_excused() -> None:
    took = DiskLoss(
        nodes=frozenset({"n1", "n2", "n3"}), topic=NAME, partition=0, end_after=1, end_before=2,
        until_ns=99 * S, began_ns=90 * S, excuse="power-loss",
    )  # fmt: skip
    (anomaly,) = found(
        remade.CHECKER, group(about(disk_losses=(took,)), leadership=LED, **logs(A))
    ).anomalies
    assert anomaly.excuses == ("power-loss",)
    spared = replace(took, nodes=frozenset({"n1", "n2"}))
    (anomaly,) = found(
        remade.CHECKER, group(about(disk_losses=(spared,)), leadership=LED, **logs(A))
    ).anomalies
    assert anomaly.excuses != ("power-loss",)


def test_a_log_that_could_not_be_read_to_its_end_takes_the_trust() -> None:
    rows = logs(A)
    rows["replica_states"] = [state("n1", 2)]
    (anomaly,) = found(remade.CHECKER, group(leadership=LED, **rows)).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)
    unread = about(unreadable_nodes=frozenset({"n1"}))
    (anomaly,) = found(remade.CHECKER, group(unread, leadership=LED, **logs(A))).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)
    (anomaly,) = found(remade.CHECKER, group(leadership=LED, **logs(A))).anomalies
    assert anomaly.broken_premises == ()


def test_without_a_leader_or_its_log_nobody_knows() -> None:
    unled = found(remade.CHECKER, group(**logs(A, B)))
    assert unled.rows == 0
    gaps = unled.gaps
    assert gaps == (
        (f"no broker reported a leader of {NAME}-0, so the log to compare with is unknown"),
    )
    gaps = found(remade.CHECKER, group(leadership=LED)).gaps
    assert gaps == (f"the log of {NAME}-0 on n1, its last leader, is missing",)
    died = about(milestones=())
    assert found(remade.CHECKER, group(died, leadership=LED)).gaps == (), "that is told once"


def test_a_system_without_logs_shows_nothing_of_it() -> None:
    blind = about(declared=Declared(sees=frozenset(Sight) - {Sight.REPLICA_LOGS}))
    result = found(remade.CHECKER, group(blind, leadership=LED))
    assert (result.rows, result.gaps, result.anomalies) == (0, (), ())
    assert found(remade.CHECKER, group(facts(), leadership=LED)).rows == 0, "of no such topic"


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), unique=True, max_size=8),
    st.lists(st.integers(1, 9), unique=True, max_size=8),
)
def test_it_agrees_with_its_definition(acked: list[tuple[int, int]], stored: list[int]) -> None:
    told = tuple((part, at, value) for at, (part, value) in enumerate(acked))
    context = about(remade=(replace(TOPIC, acked=told),))
    result = found(remade.CHECKER, group(context, leadership=LED, **logs(*stored)))
    mine = [value for part, _, value in told if part == 0]
    assert result.rows == len(mine)
    missing = [value for value in mine if value not in stored]
    assert [each.evidence["value"] for each in result.anomalies] == missing


# Its ISR

CALM = 100 * S


def told(*brokers: int, at_s: int) -> Row:
    return {**isr(*brokers), "observed_ns": at_s * S, "asked_ns": at_s * S - 1}


def shrunk(*rows: Row) -> list[str]:
    context = about(calm_from_ns=CALM)
    return sentences(isr_not_restored.REMADE_CHECKER, group(context, leadership=list(rows)))


def test_an_isr_that_is_full_again_in_time_is_whole() -> None:
    assert shrunk(told(1, 2, at_s=90), told(1, 2, 3, at_s=130), told(1, 2, 3, at_s=400)) == []


def test_one_that_lacks_the_broker_to_the_end_is_not_restored() -> None:
    (said,) = shrunk(told(1, 2, at_s=90), told(1, 2, at_s=130), told(1, 2, at_s=400))
    assert f"the ISR of {NAME}-0 did not have its 3 members again within the budget" in said


def test_why_it_is_not_restored_is_by_the_final_logs() -> None:
    rows = [told(1, 2, at_s=90), told(1, 2, at_s=130), told(1, 2, at_s=400)]
    on = about(calm_from_ns=CALM, plan={"nodes": 5, "replication": 2})
    gone = group(on, leadership=rows, **logs(A, B))
    assert reason(isr_not_restored.REMADE_CHECKER, gone) == (
        f"a fault recreated {NAME} (topic id {LAST}) while a broker was down; when the brokers"
        " had stopped, n3 had no log of the new topic, and n1's at 2"
    )
    empty = logs(A, B)
    empty["replica_states"].append(state("n3", 0))
    told_of = reason(isr_not_restored.REMADE_CHECKER, group(on, leadership=rows, **empty))
    assert told_of.endswith("n3's log of the new topic ended at 0, and n1's at 2")
    unread = reason(isr_not_restored.REMADE_CHECKER, group(on, leadership=rows))
    assert "no log of the new topic was read" in unread


def test_it_has_as_many_members_as_the_fault_placed() -> None:
    assert group().members == 3, "the plan's topics have two"
    assert group_of(about(), {}, topic="log-0", topic_id="id-0", partition=0).members == 2


def test_who_reported_nothing_of_it_is_a_gap() -> None:
    for context, gaps in (
        (about(calm_from_ns=CALM), (f"no broker reported the ISR of {NAME}-0",)),
        (about(), ()),
        (facts(calm_from_ns=CALM), ()),
    ):
        result = found(isr_not_restored.REMADE_CHECKER, group(context))
        assert (result.rows, result.gaps) == (0, gaps)


# Its followers

IN_SYNC = [told(1, 2, 3, at_s=20)]


def on_all(**nodes: tuple[int, ...]) -> dict[str, list[Row]]:
    """Return the rows of the logs of some nodes."""
    rows: dict[str, list[Row]] = {"replica_records": [], "replica_states": []}
    for node, values in nodes.items():
        for name, more in logs(*values, node=node).items():
            rows[name] += more
    return rows


def short(context: RunFacts | None = None, /, **rows: list[Row]) -> list[str]:
    return sentences(remade.COPIES_CHECKER, group(context, **rows))


def test_whoever_is_in_the_last_isr_has_all_that_was_acknowledged() -> None:
    on = group(leadership=IN_SYNC, **on_all(n1=(A, B), n2=(A, B), n3=(A, B)))
    result = found(remade.COPIES_CHECKER, on)
    assert (result.rows, result.anomalies, result.gaps) == (2, (), ())


def test_a_follower_in_sync_that_lacks_a_record_is_short() -> None:
    on = group(leadership=IN_SYNC, **on_all(n1=(A, B), n2=(A,), n3=(A, B)))
    (anomaly,) = found(remade.COPIES_CHECKER, on).anomalies
    assert anomaly.sentence == (
        f"value {B}, acknowledged at offset 1 of {NAME}-0 (topic id {LAST}, which a fault"
        " recreated), is in the log of the last leader n1, but not at that offset in the log of"
        " n2, which was in sync according to the leader's last report"
    )
    assert anomaly.evidence == {
        "value": B, "offset": 1, "topic_id": LAST, "final_leader": "n1",
        "lacking": ["n2"], "found_on": ["n1", "n3"],
    }  # fmt: skip
    assert (anomaly.excuses, anomaly.broken_premises) == ((), ())
    assert reason(remade.COPIES_CHECKER, on) == (
        f"a fault recreated {NAME} (topic id {LAST}) while a broker was down; when the brokers"
        " had stopped, n2's log of the new topic ended at 1"
    )


def test_followers_with_another_record_or_no_log_are_short() -> None:
    read_all = about(collected_nodes=frozenset({"n1", "n2", "n3"}))
    on = group(read_all, leadership=IN_SYNC, **on_all(n1=(A, B), n2=(A, C)))
    both, one = found(remade.COPIES_CHECKER, on).anomalies
    assert (both.offset, both.evidence["lacking"]) == (0, ["n3"])
    assert (one.offset, one.evidence["lacking"]) == (1, ["n2", "n3"])
    assert "in the logs of n2 and n3, which were in sync" in one.sentence
    told_of = remade.COPIES_CHECKER.why(on, one)
    assert told_of.endswith(
        "n2's log of the new topic ended at 2 and n3 had no log of the new topic"
    )


def test_who_is_out_of_the_isr_or_was_not_read_may_lack_it() -> None:
    rows = on_all(n1=(A, B), n2=(A, B), n3=(A,))
    assert short(leadership=[*IN_SYNC, told(1, 2, at_s=30)], **rows) == []
    assert len(short(leadership=[told(1, 2, at_s=20), told(1, 2, 3, at_s=30)], **rows)) == 1
    unknown = found(
        remade.COPIES_CHECKER, group(leadership=IN_SYNC, **on_all(n1=(A, B), n2=(A, B)))
    )
    gap = f"the log of {NAME}-0 on n3, which is in the ISR, is missing"
    assert (unknown.anomalies, unknown.gaps) == ((), (gap,)), "n3 was not read"
    unread = about(unreadable_nodes=frozenset({"n3"}))
    (anomaly,) = found(remade.COPIES_CHECKER, group(unread, leadership=IN_SYNC, **rows)).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)


def test_only_the_leaders_own_report_after_the_last_acknowledgement_counts() -> None:
    rows = on_all(n1=(A, B), n2=(A, B), n3=(A,))
    gap = f"2 s or more after the heal, n1 did not report the ISR of {NAME}-0"
    for early in (told(1, 2, 3, at_s=11), {**told(1, 2, 3, at_s=20), "observer": "n2"}):
        result = found(remade.COPIES_CHECKER, group(leadership=[early], **rows))
        assert (result.rows, result.anomalies, result.gaps) == (0, (), (gap,))
    in_time = {**told(1, 2, 3, at_s=12), "asked_ns": 11 * S}
    assert len(short(leadership=[in_time], **rows)) == 1
    older = {**told(1, 2, 3, at_s=30), "leader_epoch": -1}
    assert short(leadership=[told(1, 2, at_s=20), older], **rows) == []
    of_file = {**told(1, 2, 3, at_s=30), "source": "metadata-log"}
    claim = {**leads(1, 0), "asked_ns": 30 * S, "observed_ns": 30 * S}
    for other in (of_file, claim):
        assert short(leadership=[told(1, 2, at_s=20), other], **rows) == []
        assert len(short(leadership=[told(1, 2, 3, at_s=20), other], **rows)) == 1
    newer = {**told(1, 2, at_s=20), "observer": "n2", "leader_epoch": 1}
    result = found(remade.COPIES_CHECKER, group(leadership=[*IN_SYNC, newer], **rows))
    assert (result.anomalies, result.gaps) == ((), (gap,)), "its report is of an earlier epoch"


def test_a_leader_alone_in_the_isr_has_no_followers() -> None:
    on = group(leadership=[told(1, at_s=20)], **on_all(n1=(A, B)))
    result = found(remade.COPIES_CHECKER, on)
    assert (result.rows, result.anomalies, result.gaps) == (0, (), ())


def test_followers_of_any_number_are_looked_at_and_the_leader_is_not() -> None:
    rows = on_all(n1=(A,), n2=(A, B), n3=(A, B))
    (anomaly,) = found(
        remade.COPIES_CHECKER, group(leadership=[told(2, 1, 3, at_s=20)], **rows)
    ).anomalies
    assert (anomaly.offset, anomaly.evidence["lacking"]) == (1, ["n1"])
    moved = on_all(n1=(B, A), n2=(A, B), n3=(A, B))
    assert short(leadership=IN_SYNC, **moved) == [], "it has them, be it elsewhere"


def test_a_system_without_logs_shows_nothing_of_followers() -> None:
    blind = about(declared=Declared(sees=frozenset(Sight) - {Sight.REPLICA_LOGS}))
    rows = on_all(n1=(A, B), n2=(A,))
    for context in (blind, facts()):
        result = found(remade.COPIES_CHECKER, group(context, leadership=IN_SYNC, **rows))
        assert (result.rows, result.anomalies, result.gaps) == (0, (), ())


def test_what_the_leader_lacks_is_lost_and_not_short() -> None:
    assert short(leadership=IN_SYNC, **on_all(n1=(A,), n2=(A,), n3=(A, B))) == []
    assert short(**on_all(n1=(A,), n2=())) == [], "nobody led"
    for rows in ({}, {"leadership": IN_SYNC}):
        result = found(remade.COPIES_CHECKER, group(**rows))
        assert (result.rows, result.anomalies, result.gaps) == (0, (), ()), "lost-write says why"
    assert found(remade.COPIES_CHECKER, group(facts(), leadership=IN_SYNC)).rows == 0


def test_what_a_disk_took_from_a_follower_is_excused() -> None:
    flip = DiskLoss(
        nodes=frozenset({"n2"}), topic=NAME, partition=0, end_after=1, end_before=2,
        until_ns=4 * S, began_ns=3 * S, excuse="bit-flip",
    )  # fmt: skip
    rows = on_all(n1=(A, B), n2=(A,), n3=(A, B))
    on = group(about(disk_losses=(flip,)), leadership=IN_SYNC, **rows)
    (anomaly,) = found(remade.COPIES_CHECKER, on).anomalies
    assert anomaly.excuses == ("bit-flip",)
    before = replace(flip, until_ns=S)
    on = group(about(disk_losses=(before,)), leadership=IN_SYNC, **rows)
    (anomaly,) = found(remade.COPIES_CHECKER, on).anomalies
    assert anomaly.excuses == (), "it was made again since"
    rows = on_all(n1=(A, B), n2=(A,), n3=(A,))
    on = group(about(disk_losses=(flip,)), leadership=IN_SYNC, **rows)
    (anomaly,) = found(remade.COPIES_CHECKER, on).anomalies
    assert anomaly.excuses == (), "n3 lacks it, too"


@pytest.mark.parametrize(("until_ns", "excused"), [(18 * S - 1, True), (18 * S - 2, False)])
def test_who_is_in_the_isr_again_had_fetched_what_its_disk_had_lost(
    until_ns: int, *, excused: bool
) -> None:
    """The ISR was reported at 20 s; a report may be two seconds late."""
    for excuse in ("power-loss", "wipe", "unconfirmed-fault"):
        loss = replace(took("n2", excuse=excuse), began_ns=10 * S, until_ns=until_ns)
        rows = on_all(n1=(A, B), n2=(A,), n3=(A, B))
        on = group(about(disk_losses=(loss,)), leadership=IN_SYNC, **rows)
        (anomaly,) = found(remade.COPIES_CHECKER, on).anomalies
        assert anomaly.excuses == ((excuse,) if excused else ())


# Its replicas, which are none of the plan's


def took(*nodes: str, excuse: str = "power-loss", until_s: int = 99) -> DiskLoss:
    return DiskLoss(
        nodes=frozenset(nodes), topic=NAME, partition=0, end_after=1, end_before=2,
        until_ns=until_s * S, began_ns=(until_s - 1) * S, excuse=excuse,
    )  # fmt: skip


def excuses(*losses: DiskLoss, **plan: int) -> tuple[str, ...]:
    context = about(disk_losses=losses, plan=plan)
    (anomaly,) = found(remade.CHECKER, group(context, leadership=LED, **logs(A))).anomalies
    return anomaly.excuses


def test_its_own_replicas_count_and_not_the_plans() -> None:
    for nodes, replication in ((5, 5), (5, 2), (3, 2), (3, 1)):
        plan = {"nodes": nodes, "replication": replication, "min_insync": 1}
        assert excuses(took("n1", "n2", "n3"), **plan) == ("power-loss",), plan
        assert "power-loss" not in excuses(took("n1", "n2"), **plan), plan
        assert excuses(took("n1"), **plan) == (), plan


def test_a_loss_before_it_was_made_excuses_nothing() -> None:
    assert excuses(took("n1", "n2", "n3", until_s=2), nodes=3, replication=3) == ("power-loss",)
    assert excuses(took("n1", "n2", "n3", until_s=1), nodes=3, replication=3) == ()


def test_an_isr_of_two_is_not_full() -> None:
    one, two = told(2, at_s=20), told(2, 3, at_s=30)
    assert isr_returns(group(leadership=[one, two])) == ()
    back = isr_returns(group(leadership=[one, two, told(2, 1, 3, at_s=40)]))
    assert {each.node for each in back} == {"n1", "n3"}


# What is not there


def test_a_leader_that_was_read_and_has_no_log_has_lost_all() -> None:
    rows = on_all(n2=(A, B), n3=(A, B))
    read_all = about(collected_nodes=frozenset({"n1", "n2", "n3"}))
    first, second = found(remade.CHECKER, group(read_all, leadership=LED, **rows)).anomalies
    assert (first.offset, second.offset) == (0, 1)
    assert first.broken_premises == ()
    assert first.sentence.endswith("the last leader n1, but is in the log of n2, n3")
    assert lost(about(collected_nodes=frozenset({"n2", "n3"})), leadership=LED, **rows) == []
    damaged = about(
        collected_nodes=frozenset({"n1", "n2", "n3"}), unreadable_nodes=frozenset({"n1"})
    )
    result = found(remade.CHECKER, group(damaged, leadership=LED, **rows))
    assert result.anomalies == ()
    assert "is missing" in result.gaps[0]
    died = replace(read_all, milestones=())
    result = found(remade.CHECKER, group(died, leadership=LED, **rows))
    assert (result.rows, result.anomalies, result.gaps) == (0, (), ())
    on = group(read_all, leadership=LED, **on_all(n2=(C,)))
    why = remade.CHECKER.why(on, found(remade.CHECKER, on).anomalies[0])
    assert why == "the log of n2 lacks it and n1 has no log of the topic"
    on = group(read_all, leadership=LED)
    why = remade.CHECKER.why(on, found(remade.CHECKER, on).anomalies[0])
    assert why == "n1 has no log of the topic"


def test_what_nothing_was_acknowledged_of_is_a_gap() -> None:
    none = about(remade=(replace(TOPIC, acked=((1, 0, C),)),))
    result = found(remade.CHECKER, group(none, leadership=LED, **logs(A, B)))
    gap = f"no record of the last incarnation of {NAME}-0 was acknowledged"
    assert (result.rows, result.gaps) == (0, (gap,))


def test_a_fault_that_failed_at_the_first_record_has_none_to_lose() -> None:
    none = about(remade=(replace(TOPIC, acked=((1, 0, C),), confirmed=False),))
    result = found(remade.CHECKER, group(none, leadership=LED, **logs(A, B)))
    assert (result.rows, result.gaps) == (0, ())


def test_what_such_a_fault_was_told_is_looked_for_all_the_same() -> None:
    failed = about(remade=(replace(TOPIC, confirmed=False),))
    assert len(lost(failed, leadership=LED, **logs(A))) == 1
