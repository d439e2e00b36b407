"""Topics that faults made again: their ISRs, and what was acknowledged of their last lives."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import isr_not_restored, remade
from checkers.examine import examine
from checkers.facts import DiskLoss, RemadeTopic, RunFacts
from checkers.group import Group, group_of
from checkers.groups import is_judged
from checkers.protocol import Scope
from checkers.registry import CHECKERS
from checkers.remade_topics import remade_topics
from checkers.runner import run_checkers
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
    return {"fault_id": 1, "kind": "kill", "targets": ["n1"], "requested_ns": S, "healed_ns": 9 * S,
            "heal_effect": json.dumps(heal_effect), **changes}  # fmt: skip


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


def test_it_is_judged_by_checks_of_its_own_and_counted_nowhere() -> None:
    on = group(leadership=LED, **logs(A, B))
    names = [each.name for each in run_checkers(on)]
    assert names == [each.name for each in CHECKERS if each.scope is Scope.REMADE]
    assert sorted(names) == ["isr-not-restored", "lost-write", "under-replicated"]
    kinds = {each.kind for each in examine(about(), {}, (NAME, LAST, 0))}
    assert kinds == {"check"}, "it is none of the partitions that clients write to"


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
        f"value {B}, acknowledged at offset 1 of {NAME}-0 (topic id {LAST}, which a fault made"
        " again), is missing from the log of the last leader n1"
    )


def test_where_it_is_else_is_told() -> None:
    rows = logs(A)
    for name, more in logs(A, B, node="n2").items():
        rows[name] += more
    (said,) = lost(leadership=LED, **rows)
    assert said.endswith("the last leader n1, but is in that of n2")
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
    assert told == "the log of n2 holds it, and its leader's does not"


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
    assert gaps == (f"no broker named a leader of {NAME}-0, so there is no log to judge by",)
    gaps = found(remade.CHECKER, group(leadership=LED)).gaps
    assert gaps == (f"the log of {NAME}-0 on n1, its last leader, is not there",)
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
    on = about(calm_from_ns=CALM)
    gone = group(on, leadership=rows, **logs(A, B))
    assert reason(isr_not_restored.REMADE_CHECKER, gone) == (
        f"a fault made {NAME} again (topic id {LAST}) while a broker was down; when the brokers had"
        " stopped, n3 had no log of it, and n1's at 2"
    )
    empty = logs(A, B)
    empty["replica_states"].append(state("n3", 0))
    told_of = reason(isr_not_restored.REMADE_CHECKER, group(on, leadership=rows, **empty))
    assert told_of.endswith("n3's log of it ended at 0, and n1's at 2")
    unread = reason(isr_not_restored.REMADE_CHECKER, group(on, leadership=rows))
    assert "no log of it was read" in unread


def test_it_has_as_many_members_as_the_fault_placed() -> None:
    assert group().members == 3, "the plan's topics have two"
    assert group_of(about(), {}, topic="log-0", topic_id="id-0", partition=0).members == 2
