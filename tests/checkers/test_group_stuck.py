"""group-stuck: who of the groups was given something of a partition after the last heal."""

from dataclasses import replace

import pytest

from checkers.facts import RunFacts
from checkers.group_stuck import CHECKER
from checkers.protocol import Findings
from results.record.identities import groups
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, S, ack, facts, found, group, read, sentences

PLAN: Row = {
    "workload": "groups",
    "workers": 1,
    "concurrency": 16,
    "budgets": {"group_s": 10},
}
FIRST, SECOND = "groups-0", "groups-1"
OF_FIRST, OF_SECOND, OF_NONE = 2, 8, 3
CALM = 100


def about(*, stopped: int | None = 140, **changes: object) -> RunFacts:
    stones = [] if stopped is None else [Milestone(name="final-reads", at_ns=stopped * S)]
    known: Row = {"plan": PLAN, "calm_from_ns": CALM * S, "milestones": tuple(stones), **changes}
    return facts(**known)


def sent(*seconds: int) -> list[Row]:
    return [ack(A + at, at, op=at, at=at * S) for at in seconds]


def got(process: int, at: int, **changes: object) -> Row:
    row = read(A, 0, op=500 + at, phase="recovery")
    return {**row, "process": process, "complete_ns": at * S, **changes}


def judged(
    polls: list[Row], *, on: RunFacts | None = None, at: tuple[int, ...] = (105,)
) -> Findings:
    return found(CHECKER, group(on or about(), polls=polls, sends=sent(*at)))


def stuck(findings: Findings) -> list[object]:
    return [each.evidence["group"] for each in findings.anomalies]


def test_times_count_until_clients_were_told_to_stop() -> None:
    stones = tuple(
        Milestone(name=name, at_ns=at * S)
        for name, at in (("stopping-clients", 114), ("final-reads", 149))
    )
    result = judged([], on=about(milestones=stones), at=(105,))
    assert (stuck(result), len(result.gaps)) == ([], 2), "nine seconds, not forty-four"
    assert len(stuck(judged([], on=about(milestones=stones[1:]), at=(105,)))) == 2


def test_there_are_two_groups() -> None:
    assert groups(about().plan) == (FIRST, SECOND)


def test_a_group_of_which_anybody_was_given_something_moves() -> None:
    assert stuck(judged([got(OF_FIRST, 110), got(OF_SECOND, 110)])) == []
    assert stuck(judged([got(OF_FIRST + 16, 110), got(OF_SECOND, 139)])) == []
    assert stuck(judged([got(OF_FIRST, 105), got(OF_SECOND, 105)])) == []


@pytest.mark.parametrize(
    "other",
    [
        got(OF_FIRST, CALM - 1),
        got(OF_NONE, 110),
        got(OF_FIRST, 110, outcome="info"),
        got(OF_FIRST, 140),
        got(OF_FIRST, 141),
        got(-1, 110),
    ],
)
def test_what_came_before_to_others_or_at_the_end_does_not_count(other: Row) -> None:
    findings = judged([other, got(OF_SECOND, 110)])
    assert (stuck(findings), findings.gaps) == ([FIRST], ())
    assert findings.rows == 2
    assert findings.anomalies[0].broken_premises == ()


def test_it_is_told_since_when_and_how_much_there_was_to_read() -> None:
    rows = {"polls": [got(OF_SECOND, 139)], "sends": sent(90, 105, 120, 140)}
    (sentence,) = sentences(CHECKER, group(about(), **rows))
    assert sentence == (
        f"no member of group {FIRST} got a record of log-0-0 from 105.000 s to 140.000 s,"
        " although the partition had 2 unread messages; the budget is 10 s; the last"
        " heal was at 100.000 s"
    )


@pytest.mark.parametrize(("stopped", "lasted"), [(115, "10.000"), (113, "8.000")])
def test_a_look_that_ended_before_the_budget_is_a_gap(stopped: int, lasted: str) -> None:
    findings = judged([got(OF_SECOND, 110)], on=about(stopped=stopped))
    assert stuck(findings) == []
    (gap,) = findings.gaps
    assert gap == (
        f"group {FIRST} got no record of log-0-0 after the last heal, and clients continued for"
        f" {lasted} s after the partition accepted a message; the budget is 10 s"
    )


def test_a_look_that_ended_behind_the_budget_proves_it() -> None:
    assert stuck(judged([got(OF_SECOND, 110)], on=about(stopped=116))) == [FIRST]
    at_once = judged([got(OF_SECOND, 110)], on=about(stopped=111), at=(CALM,))
    (anomaly,) = at_once.anomalies
    assert anomaly.evidence["from_ns"] == CALM * S


def test_a_part_that_the_machine_slept_through_does_not_hide_a_shorter_one() -> None:
    """And a part has only the messages that came before its end."""
    on = replace(about(stopped=180), silences=((130 * S, 175 * S),))
    rows = {"polls": [got(OF_FIRST, 106), got(OF_SECOND, 179)], "sends": sent(108, 120, 160)}
    (anomaly,) = found(CHECKER, group(on, **rows, assignments=[joined(OF_FIRST, 125)])).anomalies
    assert [anomaly.evidence[name] for name in ("from_ns", "to_ns", "messages")] == [
        108 * S, 125 * S, 2,
    ]  # fmt: skip
    assert anomaly.broken_premises == ()


def joined(process: int, at: int) -> Row:
    return {"op_id": 900, "process": process, "kind": "subscribe", "time_ns": at * S}


@pytest.mark.parametrize(
    ("joins", "told"),
    [
        ([], [FIRST]),
        # Another group's members, and one that had time enough to be dealt something.
        ([joined(OF_SECOND, 135)], [FIRST]),
        ([joined(OF_FIRST, 129)], [FIRST]),
        # Who joins moves all partitions, so nobody knows if members join often enough.
        ([joined(OF_FIRST, 118), joined(OF_FIRST, 128)], [FIRST]),
        ([joined(OF_FIRST, 118), joined(OF_FIRST, 128), joined(OF_FIRST, 130)], []),
        # Between two joins there was time enough, too.
        ([joined(OF_FIRST, 101), joined(OF_FIRST, 135)], [FIRST]),
        ([joined(OF_FIRST, 135), joined(OF_FIRST, 111), joined(OF_FIRST, 122)], [FIRST]),
        ([joined(OF_FIRST, 135), joined(OF_FIRST, 118), joined(OF_FIRST, 126)], []),
    ],
)
def test_a_group_that_is_given_no_more_is_stuck_too(joins: list[Row], told: list[str]) -> None:
    rows: dict[str, list[Row]] = {
        "polls": [got(OF_FIRST, 106), got(OF_SECOND, 139)],
        "sends": sent(105, 108, 120),
        "assignments": joins,
    }
    findings = found(CHECKER, group(about(), **rows))
    storm = (
        f"group {FIRST} got no more records of log-0-0 for 32.000 s, which is longer than the"
        " budget of 10 s, but its members joined too often to blame the brokers"
    )
    assert (stuck(findings), findings.gaps) == (told, () if told else (storm,))
    assert findings.rows == 1 + len(told)
    if not joins:
        (anomaly,) = findings.anomalies
        assert (anomaly.evidence["from_ns"], anomaly.evidence["messages"]) == (108 * S, 2)


def test_a_group_that_read_all_that_came_is_not_stuck() -> None:
    for times in ((105,), (105, 106)):
        assert stuck(judged([got(OF_FIRST, 106), got(OF_SECOND, 139)], at=times)) == []
    short = judged([got(OF_FIRST, 106), got(OF_SECOND, 139)], at=(105, 130))
    assert (stuck(short), short.gaps) == ([], ())


@pytest.mark.parametrize("calm", [CALM, 104])
def test_a_message_that_was_given_before_its_acknowledgement_is_not_waited_for(calm: int) -> None:
    """The answer to its sender was lost, or came later: no other message came afterwards."""
    on = about(calm_from_ns=calm * S)
    early = [got(each, 103, value=A + 105) for each in (OF_FIRST, OF_SECOND)]
    result = judged(early, on=on)
    assert (stuck(result), result.gaps) == ([], ())
    assert stuck(judged([*early[:1], got(OF_SECOND, 103)], on=on)) == [SECOND]
    assert stuck(judged(early, on=on, at=(105, 106))) == [FIRST, SECOND]
    late = [got(each, 141, value=A + 105) for each in (OF_FIRST, OF_SECOND)]
    assert stuck(judged(late, on=on)) == [FIRST, SECOND]


def test_where_nothing_was_taken_there_is_nothing_to_be_given() -> None:
    for times in ((), (90,), (140,), (150,)):
        findings = judged([got(OF_SECOND, 110)], at=times)
        assert (stuck(findings), findings.gaps, findings.rows) == ([], (), 0)
    refused = [{**ack(B, 5, at=105 * S), "acked": False, "outcome": "info"}]
    assert stuck(found(CHECKER, group(about(), polls=[got(OF_SECOND, 110)], sends=refused))) == []


def test_nobody_knows_of_a_run_that_was_never_calm_or_did_not_come_to_its_end() -> None:
    for on in (about(calm_from_ns=None), about(stopped=None)):
        findings = judged([got(OF_SECOND, 110)], on=on)
        assert (stuck(findings), findings.rows) == ([], 0)


def test_a_cut_record_or_a_machine_that_stood_still_takes_the_trust() -> None:
    cut = judged([], on=about(cut_streams=True))
    assert {each.broken_premises for each in cut.anomalies} == {("whole-record",)}
    for until in (135, 139):
        asleep = judged([], on=about(silences=((110 * S, until * S),)))
        assert {each.broken_premises for each in asleep.anomalies} == {("awake",)}
    shorter = judged([], on=about(silences=((110 * S, 134 * S),)))
    assert {each.broken_premises for each in shorter.anomalies} == {()}


def test_only_groups_can_be_stuck() -> None:
    assert CHECKER.applies(about())
    assert not CHECKER.applies(facts())
