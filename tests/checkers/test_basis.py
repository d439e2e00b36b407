"""What a verdict rests on: by promise what was compared, and what could not show, told as data."""

from dataclasses import replace

import pytest

from checkers.facts import RunFacts
from checkers.guarantees import guarantees
from checkers.judge import Place, weigh
from checkers.protocol import Checker, Promise
from checkers.registry import CHECKERS, checkers_of
from checkers.runner import CheckResult, dump_result, parse_result
from results.record.milestones import Milestone
from results.record.terms import Judge, Validity
from results.record.verdict import Basis, Verdict
from tests.checkers.partition_rows import S, facts
from tests.checkers.test_judge import PLAN, RUN

ONE, TWO = ("log-0", "id-0", 0), ("log-0", "id-0", 1)
QUORUM: Place = ("__cluster_metadata", "", 0)
WHY = "no send failed, so an aborted read could not be detected"
ABOUT = facts(
    plan={**PLAN, "partitions": 2},
    calm_from_ns=50 * S,
    milestones=tuple(
        Milestone(name=name, at_ns=at * S)
        for name, at in (("warmup", 1), ("main", 5), ("final-reads", 60), ("stopped", 70))
    ),
)


def judged(*extra: tuple[Place, CheckResult], about: RunFacts = ABOUT) -> Verdict:
    """Every check compared five things everywhere, but for what is given."""
    given = {(place, each.name) for place, each in extra}
    results: dict[Place, list[CheckResult]] = {
        place: [
            CheckResult(name=name, rows=5)
            for name in dict.fromkeys(each.name for each in CHECKERS)
            if (place, name) not in given
        ]
        for place in (RUN, ONE, TWO)
    }
    for place, each in extra:
        results.setdefault(place, []).append(each)
    return weigh(about, results, judge=about.judge, engine="local", stats={})


def nothing(name: str, *places: Place, why: str = WHY) -> list[tuple[Place, CheckResult]]:
    unshown = (why,) if why else ()
    return [(place, CheckResult(name=name, rows=0, unshown=unshown)) for place in places]


def of(verdict: Verdict, beginning: str) -> Basis:
    (basis,) = (each for each in verdict.basis if each.promise.startswith(beginning))
    return basis


def test_each_guarantee_has_its_checks_with_how_many_and_when() -> None:
    verdict = judged()
    assert tuple(each.promise for each in verdict.basis) == verdict.guarantees == guarantees(ABOUT)
    told = {each.check: each for each in of(verdict, "acks=all").compared}
    assert {"lost-write", "unseen", "under-replicated"} <= told.keys()
    lost, copies = told["lost-write"], told["under-replicated"]
    assert (lost.rows, lost.from_ns, lost.to_ns) == (15, S, 60 * S)
    assert lost.what.startswith("committed sends, searched for in the last leader's log")
    assert (copies.from_ns, copies.to_ns) == (70 * S, 70 * S)
    back = {each.check: each for each in of(verdict, "after the last fault").compared}
    assert (back["unavailable"].from_ns, back["unavailable"].to_ns) == (50 * S, 60 * S)
    assert all(each.looked_at for each in verdict.basis)


def test_what_could_not_show_makes_no_verdict_unknown_and_is_told() -> None:
    verdict = judged(*nothing("G1a", RUN, ONE, TWO))
    assert (verdict.valid, verdict.unknown_because) == (Validity.VALID, ())
    assert verdict.checked["G1a"] == 0
    assert of(verdict, "a partition has one log").unshown == (WHY,)


def test_without_a_reason_it_stays_unknown_as_a_whole_and_in_a_partition() -> None:
    whole = judged(*nothing("G1a", RUN, ONE, TWO, why=""))
    assert whole.unknown_because == ("there was nothing to check for G1a",)
    half = judged(*nothing("G1a", RUN, ONE), *nothing("G1a", TWO, why=""))
    assert half.unknown_because == ("there was nothing to check for G1a",)
    part = judged(*nothing("G1a", TWO, why=""))
    assert part.unknown_because == ("there was nothing to check for G1a in log-0-1",)


def test_a_gap_is_told_once() -> None:
    gap = CheckResult(name="unavailable", rows=0, gaps=("it ended early",))
    verdict = judged((RUN, gap), (ONE, gap), (TWO, gap))
    told = "unavailable could not be checked completely: it ended early"
    assert verdict.unknown_because == (told,)
    assert judged((TWO, gap)).unknown_because == (told,)


def test_partitions_that_differ_are_named() -> None:
    (told,) = of(judged(*nothing("G1a", TWO)), "a partition has one log").unshown
    assert told == f"log-0-1: {WHY}"
    many = [("log-1", "id-1", number) for number in range(5)]
    (told,) = of(judged(*nothing("G1a", *many)), "a partition has one log").unshown
    assert told == f"log-1-0, log-1-1, log-1-2 and 2 more: {WHY}"


def test_the_controllers_log_is_no_partition_among_others() -> None:
    found = nothing("incomplete-leader", QUORUM, why="no controller, so it could not show")
    (told,) = of(judged(*found), "unclean elections").unshown
    assert told == "no controller, so it could not show"
    both = [*found, *nothing("incomplete-leader", RUN, ONE, TWO, why="no leader, so not")]
    assert of(judged(*both), "unclean elections").unshown == (
        "no controller, so it could not show",
        "no leader, so not",
    )


def test_a_partition_that_nobody_wrote_to_needs_no_reason() -> None:
    unwritten = [
        (TWO, CheckResult(name=name, rows=0)) for name in ("malformed-history", "G1a", "phantom")
    ]
    verdict = judged(*unwritten, *nothing("G1a", RUN, ONE))
    assert verdict.unknown_because == ()
    assert of(verdict, "a partition has one log").unshown == (WHY,)


def test_a_promise_of_which_nothing_was_compared_is_not_looked_at() -> None:
    checks = [each.name for each in CHECKERS if each.promise is Promise.ONCE]
    verdict = judged(*(each for name in checks for each in nothing(name, RUN, ONE, TWO)))
    assert verdict.valid is Validity.VALID
    once = of(verdict, "producers are idempotent")
    assert not once.looked_at
    assert [each.rows for each in once.compared] == [0] * len(checks)


def test_what_is_given_up_is_no_promise() -> None:
    without = replace(ABOUT, plan=facts(plan={**PLAN, "acks": "0"}).plan)
    lost = of(judged(about=without), "acks=0")
    assert lost.given_up
    assert not any(each.given_up for each in judged().basis)


def test_jepsens_judge_does_not_look_at_what_clients_do_not_see() -> None:
    verdict = judged(about=replace(ABOUT, judge=Judge.JEPSEN))
    assert not of(verdict, "after the last fault").looked_at
    assert of(verdict, "a partition has one log").looked_at


def test_a_history_of_others_has_no_guarantees() -> None:
    assert judged(about=replace(ABOUT, history=True)).basis == ()


def test_a_run_of_which_nobody_knows_when_it_was_tells_no_times() -> None:
    bare = judged(about=replace(ABOUT, milestones=(), calm_from_ns=None))
    times = {(each.from_ns, each.to_ns) for basis in bare.basis for each in basis.compared}
    assert times == {(-1, -1)}


@pytest.mark.parametrize("workload", ["log", "txn", "groups"])
def test_each_check_with_a_promise_stands_below_one(workload: str) -> None:
    noted = Milestone(name="noted", at_ns=5, detail={"lives": "3"})
    stopping = Milestone(name="stopping-clients", at_ns=4, detail={"workers": "2"})
    about = facts(plan={"workload": workload}, milestones=(stopping, noted))
    found = judged(about=about)
    below = {each.check for basis in found.basis for each in basis.compared}

    def promised(each: Checker) -> bool:
        return each.promise is not None and each.applies(about)

    assert below == {each.name for each in checkers_of(about) if promised(each)}
    assert len(guarantees(about)) == len(Promise) - {"log": 2, "txn": 1, "groups": 1}[workload]


def test_what_could_not_show_travels_between_processes() -> None:
    result = CheckResult(name="G1a", rows=0, unshown=(WHY,))
    assert parse_result(dump_result(result)) == result
