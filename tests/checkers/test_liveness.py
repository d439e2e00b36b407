"""What must come back within the budgets: sends, a leader, the in-sync replicas."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import isr_not_restored, slow_election, unavailable
from checkers.calm import calm_from_ns
from checkers.facts import RunFacts
from checkers.protocol import Checker
from results.record.milestones import ENDED, Milestone
from results.record.tables import TABLES
from results.record.terms import AnomalyClass
from tests.checkers.partition_rows import (
    A,
    S,
    ack,
    facts,
    found,
    group,
    read,
    sentences,
    state,
    timed_out,
)  # fmt: skip
from tests.oracle import liveness as oracle

Row = dict[str, Any]
CALM = 100 * S
END = Milestone(name="collected", at_ns=1_000 * S)
LIVENESS = (unavailable.CHECKER, slow_election.CHECKER, isr_not_restored.CHECKER)


def about(*, plan: Row | None = None, **changes: object) -> RunFacts:
    values: Row = {"calm_from_ns": CALM, "milestones": (*facts().milestones, END), **changes}
    return facts(plan={"nodes": 3, "replication": 3, **(plan or {})}, **values)


PEACE = about()
PLAN = PEACE.plan
SCRIPT = {"workload": "script", "partitions": 1, "scenario": {"name": "by-hand"}}


# Since when


def healed(*ends: int | None) -> pa.Table:
    rows = [{"fault_id": at, "healed_ns": end, "targets": ["n1"]} for at, end in enumerate(ends)]
    return pa.Table.from_pylist(rows, schema=TABLES["faults"])


def stones(**times: int) -> list[Milestone]:
    return [Milestone(name=name.replace("_", "-"), at_ns=at) for name, at in times.items()]


def test_budgets_count_from_the_last_heal() -> None:
    assert calm_from_ns(healed(5, 9, 7), stones(main=1, healed=20), PLAN) == 9
    assert calm_from_ns(healed(5, None), stones(main=1, healed=20), PLAN) == 20
    assert calm_from_ns(healed(25, None), stones(main=1, healed=20), PLAN) == 25


@pytest.mark.parametrize("plan", [{"nemesis": []}, {"faults": []}, SCRIPT], ids=str)
def test_without_faults_they_count_from_the_start_of_the_main_phase(plan: Row) -> None:
    peaceful = facts(plan=plan).plan
    assert calm_from_ns(healed(), stones(warmup=1, main=3, healed=9), peaceful) == 3
    assert calm_from_ns(healed(), stones(warmup=1), peaceful) is None


def test_faults_of_which_no_row_is_left_were_healed_with_the_rest() -> None:
    failed = Milestone(name="healed", at_ns=20, detail={"failed": "n1 is still cut off"})
    assert calm_from_ns(healed(), stones(main=1, healed=20), PLAN) == 20
    assert calm_from_ns(healed(), stones(main=1), PLAN) is None
    assert calm_from_ns(healed(), [failed], PLAN) is None


def test_who_runs_and_does_not_register_was_left_in_peace() -> None:
    late = Milestone(name="healed", at_ns=20, detail={"failed": "waited 60 s", "undone": "yes"})
    assert calm_from_ns(healed(5, None), [late], PLAN) == 20


def test_what_never_began_had_not_to_be_healed() -> None:
    failed = Milestone(name="healed", at_ns=20, detail={"failed": "n1 is still cut off"})
    rows = healed(5, None).to_pylist()
    rows = [{**row, "spec": json.dumps({"begun": row["healed_ns"] is not None})} for row in rows]
    faults = pa.Table.from_pylist(rows, schema=TABLES["faults"])
    assert calm_from_ns(faults, [failed], PLAN) == 5


def test_a_broker_that_ended_had_no_peace_before_the_heal_started_it_again() -> None:
    """A fault explains the end, after its own heal: nobody starts that broker until the sweep."""
    end, faults = Milestone(name=ENDED, at_ns=102 * S, detail={"node": "n1"}), healed(CALM)
    milestones = stones(main=S, healed=190 * S)
    reports = [isr(-1, 2, 1, 3), *(isr(at, 2, 3) for at in range(90)), isr(92, 2, 1, 3)]

    def anomalies(*more: Milestone) -> int:
        calm = calm_from_ns(faults, [*milestones, *more], PLAN)
        given = group(about(calm_from_ns=calm), leadership=reports)
        return len(found(isr_not_restored.CHECKER, given).anomalies)

    assert anomalies(end) == 0
    assert anomalies(), "nothing but the broker kept it out"
    assert anomalies(replace(end, at_ns=191 * S)), "it ended later"
    assert anomalies(replace(end, detail={"node": "n1", "told": "stop"})), "its fault started it"
    failed = Milestone(name="healed", at_ns=190 * S, detail={"failed": "n1 could not be restored"})
    assert calm_from_ns(faults, [failed, end], PLAN) is None


def test_what_was_not_healed_gives_no_peace() -> None:
    failed = Milestone(name="healed", at_ns=20, detail={"failed": "n1 is still cut off"})
    assert calm_from_ns(healed(5, None), [failed], PLAN) is None
    assert calm_from_ns(healed(5, None), stones(main=1), PLAN) is None
    assert calm_from_ns(healed(5, 6), [failed], PLAN) == 6


@pytest.mark.parametrize("checker", LIVENESS, ids=lambda each: each.name)
def test_without_peace_nothing_is_checked(checker: Checker) -> None:
    rows = group(about(calm_from_ns=None), sends=[send(1, 99)], leadership=[isr(200, 1)])
    assert found(checker, rows).rows == 0
    assert found(checker, rows).anomalies == ()
    assert checker.anomaly_class is AnomalyClass.LIVENESS


# Sends


def send(begin_s: float, end_s: float | None, *, ok: bool = False, **changes: object) -> Row:
    """One from so many seconds after the last heal to so many."""
    row = ack(A, 0) if ok else timed_out(A)
    times = {"invoke_ns": CALM + int(begin_s * S),
             "complete_ns": None if end_s is None else CALM + int(end_s * S)}  # fmt: skip
    return {**row, **times, "error": None if ok else "_MSG_TIMED_OUT", **changes}


def outages(*sends: Row, plan: Row | None = None) -> list[str]:
    return sentences(unavailable.CHECKER, group(about(plan=plan), sends=list(sends)))


def test_sends_that_succeed_now_and_then_are_service() -> None:
    # 29 seconds in vain, a success, and 29 seconds again.
    sends = (send(0, 29), send(29.5, 30, ok=True), send(31, 60))
    assert outages(*sends) == []
    result = found(unavailable.CHECKER, group(about(), sends=list(sends)))
    assert result.rows == 1


def test_longer_than_the_budget_in_vain() -> None:
    (sentence,) = outages(
        send(0, 20, process=2), send(15, 35, process=3), send(36, 37, ok=True, process=3)
    )
    assert sentence == (
        "no send to log-0-0 succeeded from 100.000 s to 137.000 s, although 2 processes tried 3"
        " sends in 37 seconds of this time, mostly with _MSG_TIMED_OUT; the budget is 30 s from"
        " the last heal, at 100.000 s"
    )


def test_it_is_told_who_tried_and_what_they_got() -> None:
    sends = [
        send(0, 20, process=4), send(15, 35, process=5, error="B"), send(20, 21, process=4),
        *(send(at, at + 1, process=5, error=f"C{at}") for at in range(5)),
        send(2, 3, error=None, process=5),
    ]  # fmt: skip
    (anomaly,) = found(unavailable.CHECKER, group(about(), sends=sends)).anomalies
    assert "although 2 processes tried 9 sends" in anomaly.sentence
    assert (anomaly.evidence["sends"], anomaly.evidence["processes"]) == (9, 2)
    assert anomaly.evidence["errors"] == [
        "2 x _MSG_TIMED_OUT",
        *(f"1 x {e}" for e in ("B", "C0", "C1", "C2")),
    ]


@pytest.mark.parametrize("error", ["_QUEUE_FULL: its own queue was full", "_FATAL: dead", "_STATE"])
def test_what_the_client_itself_refused_was_no_attempt(error: str) -> None:
    """Its queue is full of messages to another partition: nobody asked for this one."""
    refused = [send(at, at + 0.1, outcome="fail", error=error) for at in range(60)]
    assert outages(*refused) == []
    assert len(outages(*refused, send(0, 40, error="_TIMED_OUT: _FATAL"))) == 1


@pytest.mark.parametrize(("end_s", "count"), [(30.9, 0), (31, 1)])
def test_the_first_and_the_last_second_may_be_an_instant(end_s: float, count: int) -> None:
    """From 0.99 s on: seconds 0 to 30 prove 29, seconds 0 to 31 prove 30."""
    assert len(outages(send(0.99, end_s))) == count


def test_time_in_which_nobody_sends_does_not_count() -> None:
    assert outages(send(0, 10), send(50, 60)) == []
    assert outages(send(0, 10), send(5, 15), send(20, 30), send(40, 42)) == []
    (sentence,) = outages(send(0, 10), send(20, 30), send(40, 55))
    assert "in 38 seconds of this time" in sentence


def test_what_was_before_the_last_heal_does_not_count() -> None:
    assert outages(send(-60, -1), send(-30, 5)) == []
    assert len(outages(send(-60, 31))) == 1


def test_a_send_without_an_end_counts_in_its_first_second() -> None:
    assert outages(send(0, None), send(40, 41)) == []
    assert outages({**send(0, 40), "invoke_ns": None}) == [], "nobody knows since when it was tried"
    many = [send(second, None) for second in range(32)]
    assert len(outages(*many)) == 1
    assert len(outages(*many[:31])) == 0


def test_an_acknowledged_send_of_an_aborted_transaction_was_taken() -> None:
    taken = send(15, 16, acked=True, outcome="fail")
    assert outages(send(0, 14), taken, send(17, 40)) == []
    refused = send(15, 16, acked=False, outcome="fail")
    assert len(outages(send(0, 14), refused, send(17, 40))) == 1
    unheard = send(15, 16, acked=False, outcome="ok")
    assert outages(send(0, 14), unheard, send(17, 40)) == []


def test_the_second_of_a_success_is_no_outage_however_long_it_took() -> None:
    (sentence,) = outages(send(0, 40, ok=True))
    assert "in 40 seconds of this time" in sentence
    backwards = send(10, 5, ok=True)
    assert len(outages(send(0, 40), backwards)) == 1, "it ended before it began: no success"


def test_two_outages_are_two_anomalies() -> None:
    made = found(unavailable.CHECKER, group(
        about(), sends=[send(0, 40, error="A"), send(41, 42, ok=True), send(43, 99, error="B")]
    ))  # fmt: skip
    assert [each.evidence["errors"] for each in made.anomalies] == [["1 x A"], ["1 x B"]]
    (first, second) = made.anomalies
    assert (first.evidence["from_ns"], first.evidence["to_ns"]) == (CALM, CALM + 42 * S)
    assert second.evidence["from_ns"] == CALM + 43 * S


def test_times_behind_the_end_of_the_run_are_none_of_it() -> None:
    assert outages(send(899, 9_000_000), plan={"budgets": {"unavailable_s": 5}}) == []
    assert outages(send(8_000_000, 9_000_000)) == []


def test_a_cut_record_may_lack_successes() -> None:
    cut = group(about(cut_streams=True), sends=[send(0, 40)])
    (anomaly,) = found(unavailable.CHECKER, cut).anomalies
    assert (anomaly.broken_premises, anomaly.excuses) == (("whole-record",), ())


def test_the_budget_is_the_plans() -> None:
    assert len(outages(send(0, 7), plan={"budgets": {"unavailable_s": 5}})) == 1
    assert outages(send(0, 5.9), plan={"budgets": {"unavailable_s": 5}}) == []


def unproven(*sends: Row, ended_s: float = 4) -> tuple[str, ...]:
    stones = (Milestone(name="final-reads", at_ns=CALM + int(ended_s * S)),)
    return found(unavailable.CHECKER, group(about(milestones=stones), sends=list(sends))).gaps


def test_a_partition_that_took_nothing_before_the_clients_stopped_is_a_gap() -> None:
    told = (
        "log-0-0 accepted no message after the last heal, and clients continued for 4.000 s; the"
        " budget is 30 s"
    )
    assert unproven(send(1, 3)) == (told,)
    assert unproven() == (told,)
    assert unproven(send(-9, -1, ok=True)) == (told,)
    assert unproven(send(-9, 0, ok=True)) == ()
    assert unproven(send(1, 3, ok=True)) == ()
    assert unproven(send(1, 3, outcome="ok")) == (), "it was taken, and aborted"
    assert unproven(send(0, 40), ended_s=45) == (), "that long it is an anomaly"
    result = found(unavailable.CHECKER, group(about(), sends=[send(-9, -1), send(1, 3)]))
    assert result.rows == 0, "nobody knows whether it would have failed"


# Leaders


def claim(at_s: float, leader: int = 1, *, asked_s: float | None = None, **changes: object) -> Row:
    asked = None if asked_s is None else CALM + int(asked_s * S)
    return {"source": "list-offsets", "observer": f"n{leader}", "leader": leader,
            "leader_epoch": 1, "asked_ns": asked, "observed_ns": CALM + int(at_s * S),
            **changes}  # fmt: skip


def belief(at_s: float, leader: int, *, observer: str = "n1") -> Row:
    return claim(at_s, leader, source="metadata", observer=observer)


def znode(at_s: float, leader: int) -> Row:
    return claim(at_s, leader, source="zookeeper", observer="zk")


def vacancies(*leadership: Row, about: RunFacts = PEACE, **tables: list[Row]) -> list[str]:
    return sentences(slow_election.CHECKER, group(about, leadership=list(leadership), **tables))


def test_a_leader_that_answers_in_time() -> None:
    rows = group(about(), leadership=[claim(-3), claim(14), claim(28), belief(40, 1)])
    result = found(slow_election.CHECKER, rows)
    assert (result.rows, result.anomalies) == (1, ())


def test_nobody_answers_as_leader_for_too_long() -> None:
    (sentence,) = vacancies(
        claim(-3), belief(-2, -1), belief(3, 2), belief(20, 3, observer="n2"), claim(16, 2),
        belief(4, -1),
    )  # fmt: skip
    assert sentence == (
        "log-0-0 had no leader from 100.000 s to 116.000 s: no broker answered as its leader, and"
        " no client was served; according to their metadata, n1 named no leader; the budget is 15"
        " s from the last heal, at 100.000 s"
    )


def test_a_look_that_ended_before_the_budget_without_a_leader_is_a_gap() -> None:
    def gap(*leadership: Row, **tables: list[Row]) -> tuple[str, ...]:
        return found(
            slow_election.CHECKER, group(PEACE, leadership=list(leadership), **tables)
        ).gaps

    told = (
        "no leader of log-0-0 was observed after the last heal, and the observation lasted 4.000"
        " s; the budget is 15 s"
    )
    assert gap(belief(4, 1)) == (told,)
    assert gap(claim(-3), belief(4, 1)) == (told,)
    assert gap(claim(0), belief(4, 1)) == ()
    assert gap(znode(1, 1), znode(2, 1), belief(4, 1)) == ()
    assert gap(belief(4, 1), sends=[send(1, 3, ok=True)]) == ()
    assert gap(belief(16, 1)) == (), "that long it is an anomaly"
    (nothing,) = gap()
    assert "observation lasted 0.000 s" in nothing


def test_it_lasts_from_the_last_sign_to_the_next_question_that_was_answered() -> None:
    assert vacancies(claim(10), claim(26, asked_s=25)) == []
    assert len(vacancies(claim(10), claim(26))) == 1
    assert len(vacancies(claim(10), claim(26, asked_s=25.5))) == 1
    assert vacancies(claim(10), claim(12, asked_s=1), claim(26)) == []


def test_answers_that_say_nothing_new_are_recorded_every_two_seconds() -> None:
    short: Row = {"plan": {"budgets": {"election_s": 1}}}
    kept = [claim(at, **changes) for at, changes in ((0, {}), (3, {}), (6.5, {"asked_s": 6}))]
    assert vacancies(*kept, about=about(**short)) == []
    assert len(vacancies(claim(0), claim(3.5), about=about(**short))) == 1
    assert len(vacancies(claim(0), claim(3, 2), about=about(**short))) == 1
    assert len(vacancies(claim(0), claim(3, leader_epoch=2), about=about(**short))) == 1
    assert vacancies(claim(3), claim(0), about=about(**short)) == []


def test_it_ends_with_the_last_answer_of_anybody() -> None:
    assert vacancies(claim(1), belief(16, -1)) == []
    assert len(vacancies(claim(1), belief(16.5, -1))) == 1
    assert vacancies(claim(1), claim(99, source="metadata-log")) == []
    assert vacancies() == []
    assert vacancies(belief(-1, -1)) == []


def test_who_is_served_has_a_leader() -> None:
    quiet = (claim(0), belief(30, 1))
    assert len(vacancies(*quiet)) == 1
    assert vacancies(*quiet, sends=[send(-5, 15, ok=True)]) == []
    assert vacancies(*quiet, polls=[{**read(A, 0), "complete_ns": CALM + 15 * S}]) == []
    refused = send(10, 15, acked=False)
    assert len(vacancies(*quiet, sends=[refused])) == 1
    nothing = {**read(None, 0), "offset": None, "complete_ns": CALM + 15 * S}
    assert len(vacancies(*quiet, polls=[nothing])) == 1
    unended = [{**ack(A, 0), "complete_ns": None}, {**read(A, 0), "complete_ns": None}]
    assert len(vacancies(*quiet, sends=unended[:1], polls=unended[1:])) == 1


def test_who_answers_without_leading_is_no_leader() -> None:
    assert len(vacancies(claim(10), claim(20, -1), belief(30, -1))) == 1


def test_zookeepers_leader_lasts_until_it_names_another() -> None:
    assert vacancies(znode(-50, 1), znode(40, 2)) == []
    (sentence,) = vacancies(znode(-50, 1), znode(5, -1), znode(21, 2))
    assert "from 105.000 s to 121.000 s" in sentence
    assert len(vacancies(znode(30, 2), znode(5, -1), znode(-50, 1))) == 1


def test_a_sign_of_the_future_is_none_yet() -> None:
    assert len(vacancies(belief(20, -1), sends=[send(30, 40, ok=True)])) == 1


def test_a_cut_record_may_lack_answers() -> None:
    cut = group(about(cut_streams=True), leadership=[belief(20, -1)])
    (anomaly,) = found(slow_election.CHECKER, cut).anomalies
    assert anomaly.broken_premises == ("whole-record",)
    assert anomaly.evidence == {
        "from_ns": CALM, "to_ns": CALM + 20 * S, "believed": ["n1 named no leader"],
        "budget_s": 15.0, "calm_from_ns": CALM,
    }  # fmt: skip


# In-sync replicas


def isr(at_s: float, *brokers: int, epoch: int | None = 1, source: str = "metadata") -> Row:
    return claim(at_s, brokers[0], source=source, leader_epoch=epoch, isr=list(brokers))


def late(*leadership: Row) -> list[str]:
    rows = group(about(), leadership=list(leadership))
    return sentences(isr_not_restored.CHECKER, rows)


def gaps(*leadership: Row) -> tuple[str, ...]:
    return found(isr_not_restored.CHECKER, group(about(), leadership=list(leadership))).gaps


def test_an_isr_that_is_full_in_time() -> None:
    rows = (isr(-5, 1, 2), isr(60, 1, 2, 3), isr(61, 1, 2), belief(99, 1))
    assert late(*rows) == []
    assert gaps(*rows) == ()
    assert found(isr_not_restored.CHECKER, group(about(), leadership=list(rows))).rows == 1


def test_an_isr_that_stayed_full() -> None:
    rows = (isr(-5, 1, 2, 3), isr(61, 1, 2))
    assert (late(*rows), gaps(*rows)) == ([], ())


def test_an_isr_that_was_full_too_late() -> None:
    (sentence,) = late(isr(-5, 1, 2), isr(7, 1, 3), isr(61, 1, 2, 3))
    assert sentence == (
        "the ISR of log-0-0 did not have its 3 members again within the budget of 60 s from the"
        " last heal, at 100.000 s: as n1 reported, it was [1, 3] from 107.000 s on, and full"
        " again at 161.000 s"
    )


def test_an_isr_that_was_never_full_again() -> None:
    (sentence,) = late(isr(-9, 1, 2, 3), isr(-5, 1, 2), belief(61, 1))
    told = (
        "as n1 reported, it was [1, 2] from 95.000 s on, and not yet full at the last observation,"
    )
    assert f"{told} at 161.000 s" in sentence
    # It began when it was told first without a break, and not when it was told last in time.
    (again,) = late(isr(-9, 1, 2), isr(-7, 1, 2, 3), isr(-5, 1, 2), isr(20, 2, 1), belief(61, 1))
    assert "it was [2, 1] from 95.000 s on" in again


def test_an_isr_that_shrank_after_the_heal_for_longer_than_the_budget() -> None:
    """The leader noticed late that a follower is stuck."""
    first = (isr(-5, 1, 2, 3), isr(6, 1, 2))
    (sentence,) = late(*first, belief(67, 1))
    assert sentence == (
        "the ISR of log-0-0 did not have its 3 members again within the budget of 60 s from"
        " 106.000 s on (after the last heal, at 100.000 s, it had been full): as n1 reported, it"
        " was [1, 2] from 106.000 s on, and not yet full at the last observation, at 167.000 s"
    )
    assert late(*first, belief(66, 1)) == []
    assert gaps(*first, belief(66, 1)) == ()
    (again,) = late(*first, isr(60, 1, 3), isr(67, 1, 2, 3), isr(99, 1, 2))
    assert "it was [1, 3] from 160.000 s on, and full again at 167.000 s" in again
    # One sentence for a partition.
    assert len(late(*first, isr(67, 1, 2, 3), isr(68, 1, 2), belief(129, 1))) == 1
    assert late(*first, isr(66, 1, 2, 3), isr(67, 1, 2), belief(127, 1)) == []


def test_a_report_of_a_later_epoch_outdates_a_small_isr() -> None:
    """The new leader itself has not answered: nobody knows which ISR it has."""
    first = (isr(-5, 1, 2, 3), isr(6, 1, 2))
    newer = {**isr(60, 2, 1, 3, epoch=2), "observer": "n3"}
    assert late(*first, newer, belief(90, 1)) == []
    assert late(*first, newer, isr(68, 2, 1, 3, epoch=2), belief(90, 1)) == []
    assert len(late(*first, newer, isr(61, 2, 1, epoch=2), belief(90, 1))) == 1
    never = (isr(-5, 1, 2), newer, belief(90, 1))
    assert late(*never) == []
    assert len(gaps(*never)) == 1


def test_a_broker_that_ended_after_the_heal_is_no_follower_that_lags() -> None:
    def anomalies(node: str, at_s: int, *rows: Row, read_s: int = 80) -> int:
        detail = {"node": node, "incarnation": "2", "code": "1", "said": ""}
        end = Milestone(name=ENDED, at_ns=CALM + at_s * S, detail=detail)
        reads = Milestone(name="final-reads", at_ns=CALM + read_s * S)
        told = replace(about(), milestones=(*about().milestones, end, reads))
        on = group(told, leadership=[*rows, belief(90, 1)],
                   replica_states=[state(f"n{each}", 1) for each in (1, 2, 3)])  # fmt: skip
        result = found(isr_not_restored.CHECKER, on)
        unshown = " lacked n3, whose broker had ended, so " in " ".join(result.unshown)
        assert unshown is (not result.anomalies)
        return len(result.anomalies)

    first = (isr(-5, 1, 2, 3), isr(6, 1, 2))
    assert anomalies("n3", 5, *first) == 0
    assert anomalies("n2", 5, *first) == 1
    assert anomalies("n3", -1, *first) == 1  # The heal restarted it.
    assert anomalies("n3", 5, isr(-5, 1, 2, 3), isr(6, 1)) == 1
    assert anomalies("n3", 76, *first) == 0  # Its end is noticed up to 10 s late.
    assert anomalies("n3", 77, *first) == 1  # It had run for 60 s without getting in sync.
    assert anomalies("n3", 77, *first, read_s=77) == 0  # Nobody had looked for ends before.


def test_the_time_that_counts_begins_when_the_isr_shrank() -> None:
    sleep = (CALM + S, CALM + 5 * S)
    rows = [isr(-5, 1, 2, 3), isr(6, 1, 2), belief(67, 1)]
    (anomaly,) = found(
        isr_not_restored.CHECKER, group(about(silences=(sleep,)), leadership=rows)
    ).anomalies
    assert anomaly.broken_premises == ()
    sleep = (CALM + 20 * S, CALM + 25 * S)
    (anomaly,) = found(
        isr_not_restored.CHECKER, group(about(silences=(sleep,)), leadership=rows)
    ).anomalies
    assert anomaly.broken_premises == ("awake",)


def test_without_a_look_after_the_budget_it_is_a_gap() -> None:
    rows = (isr(-5, 1, 2), belief(60, 1))
    assert late(*rows) == []
    (sentence,) = gaps(*rows)
    assert sentence == (
        "the ISR of log-0-0 was not full in any observation within the budget of 60 s; the last"
        " observation was 60.000 s after the last heal"
    )
    unknown_before = (isr(61, 1, 2), belief(99, 1))
    assert late(*unknown_before) == []
    assert len(gaps(*unknown_before)) == 1


def test_a_full_isr_counts_only_if_observations_went_on_after_the_heal() -> None:
    def told(at_s: int) -> tuple[str, ...]:
        at = f"{100 + at_s}.000 s; the last heal was at 100.000 s"
        return (f"the observations of the ISR of log-0-0 ended too early, at {at}",)

    assert gaps(isr(-5, 1, 2, 3)) == told(-5)
    assert gaps(isr(-5, 1, 2, 3), belief(0, 1)) == ()
    # The observer lost ZooKeeper, whose reports alone count.
    small = [isr(at, 1, 2) for at in range(1, 90, 2)]
    for last_s in (-5, 2, 59):
        lost = isr(last_s, 1, 2, 3, source="zookeeper")
        assert gaps(lost, *small) == told(last_s)
        assert found(isr_not_restored.CHECKER, group(about(), leadership=[lost, *small])).rows == 0
    assert gaps(isr(60, 1, 2, 3, source="zookeeper"), *small) == ()
    assert gaps(isr(2, 1, 2, 3, source="zookeeper"), isr(7, 1, 2)) == ()


def test_old_news_of_an_epoch_do_not_count() -> None:
    """n3 lags behind: it tells of the epoch before, when all were in sync."""
    (sentence,) = late(isr(-5, 1, 2, epoch=2), isr(10, 1, 2, 3, epoch=1), belief(70, 1))
    assert "it was [1, 2] from 95.000 s on" in sentence
    assert late(isr(-5, 1, 2, epoch=2), isr(10, 1, 2, 3, epoch=2), belief(70, 1)) == []


def test_a_broker_that_was_cut_off_tells_the_isr_of_before() -> None:
    """n3 hears nothing of the controllers, but whoever asks it: n1 leads in one epoch all along."""
    stale = {**isr(-1, 1, 2, 3), "observer": "n3"}
    (sentence,) = late(isr(-9, 1, 2, 3), isr(-5, 1, 2), stale, belief(70, 1))
    assert "it was [1, 2] from 95.000 s on" in sentence
    assert late(isr(-5, 1, 2), stale, isr(10, 1, 2, 3), belief(70, 1)) == []
    assert late(stale, belief(70, 1)) == []  # No leader told of itself.
    late_leader = {**isr(9, 3, 1, 2, epoch=2), "observer": "n3"}
    assert late(isr(-5, 1, 2), late_leader, belief(70, 1)) == []


def test_zookeeper_knows_better_than_metadata() -> None:
    stale = isr(5, 1, 2, 3, epoch=None)
    small = [isr(at, 1, 2, source="zookeeper") for at in (-5, 70)]
    (sentence,) = late(*small, stale, belief(70, 1))
    assert "[1, 2]" in sentence
    # The observer lost ZooKeeper before the heal: nobody knows which ISR it has since.
    assert late(small[0], stale, belief(70, 1)) == []
    assert len(gaps(small[0], stale, belief(70, 1))) == 1
    assert late(isr(-5, 1, 2, epoch=None), stale, belief(70, 1)) == []


def test_without_anybody_telling_the_isr_nothing_is_checked() -> None:
    rows = group(about(), leadership=[belief(70, 1)])
    assert found(isr_not_restored.CHECKER, rows).rows == 0


def test_a_cut_record_may_lack_an_isr() -> None:
    cut = group(about(cut_streams=True), leadership=[isr(-5, 1, 2), belief(61, 1)])
    (anomaly,) = found(isr_not_restored.CHECKER, cut).anomalies
    assert anomaly.broken_premises == ("whole-record",)
    assert anomaly.evidence == {
        "isr": [1, 2], "seen_ns": CALM - 5 * S, "since_ns": CALM - 5 * S, "full_ns": None,
        "members": 3, "budget_s": 60.0, "calm_from_ns": CALM, "from_ns": CALM,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asleep", "full_s", "broken"),
    [
        ((1, 70), 71, ("awake",)),  # It slept from just after the heal on.
        ((1, 31), 65, ("awake",)),  # It was awake for 35 of 65 seconds.
        ((1, 31), 91, ()),
        ((-40, -10), 61, ()),
        ((1, 31), None, ("awake",)),
    ],
)
def test_nobody_catches_up_while_the_machine_sleeps(
    asleep: tuple[int, int], full_s: int | None, broken: tuple[str, ...]
) -> None:
    begin, end = (CALM + at * S for at in asleep)
    back = belief(80, 1) if full_s is None else isr(full_s, 1, 2, 3)
    rows = group(about(silences=((begin, end),)), leadership=[isr(-5, 1, 2), back])
    (anomaly,) = found(isr_not_restored.CHECKER, rows).anomalies
    assert anomaly.broken_premises == broken


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ({}, {"unavailable", "slow-election", "isr-not-restored"}),
        ({"acks": "0"}, {"slow-election", "isr-not-restored"}),
        ({"replication": 1, "min_insync": 1}, {"unavailable", "slow-election"}),
        (SCRIPT, {"slow-election"}),
    ],
)
def test_what_a_plan_can_feed(plan: Row, names: set[str]) -> None:
    context = facts(plan=plan)
    assert {each.name for each in LIVENESS if each.applies(context)} == names


# Against the oracle

TIMES = st.integers(-20, 120).map(lambda half: CALM + half * S // 2)
BUDGETS = {"unavailable_s": 5, "election_s": 5, "isr_s": 10}
SENDS = st.builds(
    lambda begin, lasts, outcome, acked, error: {
        **timed_out(A), "invoke_ns": begin, "outcome": outcome, "acked": acked, "error": error,
        "complete_ns": None if lasts is None else begin + lasts * S // 2,
    },
    TIMES, st.none() | st.integers(-1, 40), st.sampled_from(["ok", "fail", "info"]), st.booleans(),
    st.sampled_from([None, "_MSG_TIMED_OUT: late", "_QUEUE_FULL: full"]),
)  # fmt: skip
READS = st.builds(lambda at: {**read(A, 0), "complete_ns": at}, TIMES)
SEEN = st.builds(
    lambda source, at, leader, epoch, members, asked: {
        "source": source, "observer": f"n{at % 3}", "leader": leader, "leader_epoch": epoch,
        "observed_ns": at, "asked_ns": None if asked is None else at - asked * S // 2,
        "isr": None if source == "list-offsets" else list(range(1, members + 1)),
    },
    st.sampled_from(["list-offsets", "metadata", "metadata", "zookeeper"]), TIMES,
    st.integers(-1, 3), st.integers(0, 2), st.integers(1, 3), st.none() | st.integers(0, 4),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    sends=st.lists(SENDS, max_size=6), polls=st.lists(READS, max_size=2),
    leadership=st.lists(SEEN, max_size=8, unique_by=lambda row: row["observed_ns"]),
)  # fmt: skip
def test_kernels_say_what_the_oracle_says(
    sends: list[Row], polls: list[Row], leadership: list[Row]
) -> None:
    context = about(plan={"budgets": BUDGETS})
    rows = group(context, sends=sends, polls=polls, leadership=leadership)
    tables = {name: rows.table(name).to_pylist() for name in ("sends", "polls", "leadership")}
    told = [
        tuple(each.evidence[name] for name in ("from_ns", "to_ns", "tried_s"))
        for each in found(unavailable.CHECKER, rows).anomalies
    ]
    defined = oracle.outages(
        tables["sends"], CALM, budget_s=BUDGETS["unavailable_s"], last_ns=END.at_ns
    )
    assert told == [
        (CALM + first * S, CALM + (last + 1) * S, tried) for first, last, tried in defined
    ]
    told_of = [
        {name: each.evidence[name] for name in ("from_ns", "to_ns")}
        for each in found(slow_election.CHECKER, rows).anomalies
    ]
    assert told_of == oracle.vacancies(tables, CALM, budget_s=BUDGETS["election_s"])
    shrunk = found(isr_not_restored.CHECKER, rows)
    said = "late" if shrunk.anomalies else ("gap" if shrunk.gaps else None)
    assert said == oracle.isr_not_restored(
        tables["leadership"], CALM, members=3, budget_s=BUDGETS["isr_s"]
    )
