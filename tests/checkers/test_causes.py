"""Why an acknowledged record is gone: the sentences of real runs, and what a record cannot say."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.acknowledger import Acked, acknowledgers
from checkers.causes import cause_of_loss
from checkers.facts import Absence, Disturbance
from checkers.group import Group
from checkers.reigns import Reign
from checkers.run import judge_runs
from results.record.paths import RunPaths
from results.record.values import pack_value
from results.samples import copy_sample, find_sample
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, ack, elected, facts, group, leads, log, state
from tests.checkers.reasons import written

TOLD = {
    "loss-acks-1": "only n2 had it: n2 led in epoch 0, acknowledged it (acks=1), was cut off by a"
    " fault that was requested before the send, and n3, in the ISR, was elected in"
    " epoch 1 without it",
    "leader-epoch-1-high-watermark": "n1 led in epoch 0, acknowledged it (acks=all), was killed"
    " within 43.0 s, and n2, which had truncated its log at offset 1, was elected in epoch 2"
    " without it",
    "leader-epoch-2-leader-epoch": "only n1 had it: n1 led alone in epoch 1, acknowledged it"
    " (acks=all), was killed within 0.6 s, and n2, which was not in the last reported ISR, was"
    " elected in epoch 3 without it",
    "loss-unclean": "only n1 had it: n1 led in epoch 0, acknowledged it (acks=all), was cut off"
    " within 8.7 s, and n2, from outside of the in-sync replicas, was elected in epoch 1 without"
    " it",
}


@pytest.mark.parametrize("sample", TOLD)
def test_of_real_runs_it_tells_what_their_brokers_did(sample: str, tmp_path: Path) -> None:
    copy = copy_sample(RunPaths(find_sample(sample)), tmp_path)
    (verdict,) = judge_runs([copy.root], engine="local")
    (lost,), (two, *_) = (
        verdict.anomalies[name].examples[:1] for name in ("lost-write", "inconsistent-offsets")
    )
    assert lost.cause == TOLD[sample]
    # Of the same record, here by its name where it is spoken of first.
    assert lost.evidence["value"] in two.evidence["acknowledged_values"]  # type: ignore[operator]
    assert re.sub(r"(message\d+ \()?value \d+\)?", "it", two.cause) == TOLD[sample]


D = pack_value(1, 9)


def lost(
    *leadership: Row, disturbances: tuple[Disturbance, ...] = (), looks: Sequence[Row] = (),
    copies: Sequence[Row] = (), epochs: bool = True,
    idempotent: bool = True, truncations: Sequence[Row] = (), written: int = 5,
    sends: Sequence[Row] = (), **about: object,
) -> Group:  # fmt: skip
    """B was acknowledged at offset 1; in the end every replica has C there, `written` then."""
    nodes = ("n1", "n2", "n3")
    plan = {} if idempotent else {"client": {"enable.idempotence": "false"}}
    held = ((4, A), (written, C)) if epochs else ((-1, A), (-1, C))
    return group(
        facts(
            plan=plan,
            collected_nodes=frozenset(nodes),
            disturbances=disturbances,
            **about,
        ),
        sends=[ack(A, 0), ack(B, 1, op=2, acks="1"), *sends],
        leadership=list(leadership),
        replica_records=[*(row for node in nodes for row in log(node, *held)), *copies],
        replica_states=[*(state(node, 2) for node in nodes), *looks],
        truncations=list(truncations),
    )


def cause(on: Group, *, weak: bool = True, sent_ns: int = S - 5, acked_ns: int = S) -> str:
    record = Acked(value=B, offset=1, sent_ns=sent_ns, acked_ns=acked_ns, weak=weak)
    return cause_of_loss(on, record, acknowledgers(on, record))


CUT: Row = {"node": "n1", "from_offset": 1, "to_offset": 2, "source": "server-log"}


LED = [leads(1, 4), leads(2, 5, at=8 * S)]
HALF = S // 2
"""What a broker answers about a leader may be so much older than what it does."""


def unaware(asked_ns: int) -> Row:
    """Return what n2 answered before it heard that it leads."""
    return {**leads(1, 4, at=asked_ns + 1, source="metadata"), "observer": "n2"}


def fault(
    kind: str, confirmed_ns: int, *, node: str = "n1", healing_ns: int = 9 * S
) -> Disturbance:
    return Disturbance(
        kind=kind, begun_ns=S // 2, confirmed_ns=confirmed_ns, healing_ns=healing_ns,
        ended_ns=9 * S, nodes=frozenset({node}),
    )  # fmt: skip


def stall(at_ns: int, family: str = "stall") -> Disturbance:
    """Return a fault that is known by its family."""
    return replace(fault("by-its-family", at_ns), family=family)


def test_it_names_what_befell_the_leader_last_and_whether_the_next_one_came_from_outside() -> None:
    led = [leads(1, 4), elected(2, 5, 9, unclean=True), leads(2, 5, at=8 * S)]
    faults = (fault("pause", 2 * S), fault("kill", 3 * S), fault("delay", 4 * S),
              fault("kill", 5 * S, node="n3"), fault("kill", -1), fault("stop", 8 * S + 1),
              fault("rolling-restart", 6 * S))  # fmt: skip
    told = (
        "only n1 had it: n1 led in epoch 4, acknowledged it (acks=1), was killed {},"
        " and n2, from outside of the in-sync replicas, was elected in epoch 5 without it"
    )
    doubt = "; that election may have come before n1 was killed"
    early = "by a fault that was requested before the send"
    asked = [replace(each, begun_ns=2 * S) for each in faults]
    for hits, knew, words in (
        (faults, [], (told + doubt).format(early)),
        (asked, [], (told + doubt).format("within 2.0 s")),
        (asked, [unaware(3 * S + HALF)], told.format("within 2.0 s")),
        (
            asked,
            [unaware(3 * S + HALF - 1)],
            told.format("within 1.0 s").replace("killed", "paused"),
        ),
    ):
        on = lost(*led, *knew, disturbances=tuple(hits), truncations=[CUT])
        assert cause(on) == words


@pytest.mark.parametrize(
    ("hit", "words"),
    [
        (fault("isolate", S - 9), "acknowledged it (acks=1) while it was cut off, and"),
        (stall(S - 9), "acknowledged it (acks=1) while its connections stalled, and"),
        (
            stall(S - 9, "connections"),
            "(acks=1) while its connections were reset or blocked, and",
        ),
        (
            stall(S + HALF, "connections"),
            (
                "(acks=1), had connections reset or blocked in a fault that was requested before"
                " the send, and"
            ),
        ),
        (
            stall(S + HALF),
            "(acks=1), had connections stall in a fault that was requested before the send, and",
        ),
        (
            fault("isolate", S + HALF),
            "(acks=1), was cut off by a fault that was requested before the send, and",
        ),
        (
            replace(fault("isolate", S + HALF), begun_ns=S - 2),
            "by a fault that was requested during the send, and",
        ),
        (
            fault("isolate", S - 3),
            "(acks=1), was cut off by a fault that was requested before the send, and",
        ),
        (
            fault("power-loss", S + HALF),
            ("lost power in a fault that was requested before the send, and"),
        ),
        # Its answer may have come when that was over; and no one saw the last one work.
        (fault("isolate", S - 3, healing_ns=S - 1), "acknowledged it (acks=1), and"),
        (fault("isolate", S - 9, healing_ns=S - 1), "acknowledged it (acks=1), and"),
        (fault("kill", S - 9), "acknowledged it (acks=1), and"),
        (fault("isolate", -1), "acknowledged it (acks=1), and"),
    ],
)
def test_a_fault_is_told_only_as_far_as_it_was_seen_to_work(hit: Disturbance, words: str) -> None:
    assert words in cause(lost(*LED, disturbances=(hit,), truncations=[CUT]))


@pytest.mark.parametrize(
    ("kind", "until_ns", "words"),
    [
        ("pause", 4 * S, " without it while n1 was paused"),
        ("isolate", 4 * S, " without it while n1 was cut off"),
        ("kill", 4 * S, " without it while n1 was down"),
        ("pause", 4 * S - 1, " without it after n1 was paused"),
        ("pause", 3 * S - 1, " without it"),
    ],
)
def test_a_fault_that_was_over_before_a_late_answer_is_told_of_the_election(
    kind: str, until_ns: int, words: str
) -> None:
    """A paused leader answers after its pause, when another one has been elected."""
    led = [leads(1, 4), elected(2, 5, 9), unaware(3 * S + HALF), leads(2, 5, at=4 * S)]
    held = fault(kind, 2 * S, healing_ns=until_ns)
    told = cause(lost(*led, disturbances=(held,), truncations=[CUT]), acked_ns=6 * S)
    assert told.split(";")[0].endswith(words)


def test_a_fault_after_the_next_leader_is_none_of_the_causes() -> None:
    led = [leads(1, 4), elected(2, 5, 9), leads(3, 6, at=5 * S)]
    late = cause(lost(*led, disturbances=(fault("kill", 6 * S),), truncations=[CUT]))
    assert "killed" not in late
    assert "n2 was elected in epoch 5 without it" in late


def test_who_may_have_had_it_is_not_said_to_have_lacked_it() -> None:
    knew = {**leads(1, 4, at=4 * S, source="metadata"), "observer": "n2"}
    led = [leads(1, 4), knew, leads(2, 5, at=8 * S), leads(3, 6, at=9 * S)]
    both = [CUT, {**CUT, "node": "n2"}]
    assert cause(lost(*led, truncations=both, written=6), weak=False) == (
        "n1 led in epoch 4, acknowledged it (acks=all), and n2 was elected in epoch 5; whether"
        " it had the record is not known"
    )
    # Who writes another record there in its own epoch had a log that ended there.
    assert cause(lost(*led, truncations=both), weak=False).endswith(
        "and n2 was elected in epoch 5 without it"
    )


def test_a_leader_that_acknowledged_another_record_there_in_its_epoch_lacked_it() -> None:
    def heard(who: int, at: int) -> Row:
        return {**leads(2, 5, at=at * S, source="metadata"), "observer": f"n{who}"}

    # Nobody else can have acknowledged what was sent at 5 s.
    led = [leads(1, 4), leads(2, 5, at=3 * S), leads(2, 5, at=7 * S), leads(3, 6, at=9 * S),
           unaware(2 * S), heard(3, 7), heard(1, 3), heard(1, 7)]  # fmt: skip
    cuts = [CUT, {**CUT, "node": "n2"}]

    def lacked(*sends: Row, rows: Sequence[Row] = led, copies: Sequence[Row] = ()) -> bool:
        on = lost(*rows, truncations=cuts, written=6, sends=sends, copies=copies)
        told = cause(on, weak=False)
        assert "n2 was elected in epoch 5" in told
        return told.endswith(" without it")

    def sent(value: int, offset: int, at: int = 5 * S) -> Row:
        return {**ack(value, offset, op=7, at=at), "invoke_ns": at - 1}

    assert not lacked()
    assert lacked(sent(D, 1))
    assert lacked(sent(D, 0))
    assert not lacked(sent(D, 2))  # Its log may have had the record when it began to lead.
    assert not lacked({**sent(D, 1), "acked": False})
    assert not lacked(sent(B, 1))  # The record itself, sent again.
    assert not lacked(sent(D, 1, at=S - 1))  # The old leader may have had it first.
    assert not lacked(sent(D, 1), rows=led[:-2])  # n1 may have gone on.
    assert not lacked(sent(D, 1), copies=log("n2", (4, A), (4, B), (5, D), snapshot="step-01"))


def test_followers_in_sync_that_lacked_what_all_had_to_have_are_named() -> None:
    def told(before: list[int], after: list[int], *cuts: Row, weak: bool = False) -> str:
        rows = [
            {**leads(1, 4, at=at, source="metadata"), "isr": isr}
            for at, isr in ((S - 50, before), (S + 50, after))
        ]
        return cause(lost(*LED, *rows, truncations=[CUT, *cuts]), weak=weak)

    both = "acknowledged it (acks=all) though n2 and n3 were in the ISR and did not have it, and n2"
    assert both in told([1, 2, 3], [1, 2, 3])
    assert " though n3 was in the ISR and did not have it, and n2" in told([1, 3], [1, 3])
    for other in (
        told([1, 2, 3], [1, 2, 3], weak=True),  # It did not wait for them.
        told([1, 2, 3], [1]),  # They may have left the ISR first.
        told([1], [1, 2, 3]),
        told([1], [1]),
        told([1, 2, 3], [1, 2, 3], {**CUT, "node": "n3"}),  # It may have had it.
    ):
        assert "in the ISR and did not" not in other


def test_only_one_had_it_is_not_said_against_any_evidence() -> None:
    def only(on: Group) -> bool:
        return cause(on).startswith("only n1 had it")

    assert only(lost(*LED, truncations=[CUT]))
    looks = [
        {"node": "n2", "observed_ns": at * S, "log_end_offset": end} for at, end in ((2, 2), (4, 1))
    ]
    assert not only(lost(*LED, truncations=[CUT], looks=looks))
    copies = log("n2", (4, A), (4, B), snapshot="step-01")
    assert not only(lost(*LED, truncations=[CUT], copies=copies))
    moved = (fault("reassignment", 2 * S, node="n3"),)
    assert not only(lost(*LED, truncations=[CUT], disturbances=moved))
    assert not only(lost(*LED, truncations=[CUT], unreadable_nodes=frozenset({"n3"})))


def test_alone_is_what_the_leader_itself_told_before_and_after() -> None:
    def told(*isrs: tuple[int, int, list[int]]) -> str:
        rows = [
            {**leads(1, 4, at=at, source="metadata"), "observer": f"n{who}", "isr": isr}
            for who, at, isr in isrs
        ]
        return cause(lost(*LED, *rows, truncations=[CUT]))

    assert " alone " in told((1, S - 50, [1]), (1, S + 50, [1]))
    assert " alone " not in told((3, S - 50, [1]), (3, S + 50, [1]))
    assert " alone " not in told((1, S - 50, [1]), (1, S + 50, [1, 2]))
    assert " alone " not in told((1, S + 50, [1]))


def test_what_the_record_lacks_is_named() -> None:
    on = [{**leads(1, epoch), "incarnation": 1} for epoch in (4, 5)]
    alone = cause(lost(*on, truncations=[CUT]))
    assert "n1 led in epoch 4 or 5" in alone
    assert alone.endswith("; no later leader was observed, so the reason for the loss is unknown")
    cuts = [CUT, {**CUT, "node": "n2"}]
    either = cause(lost(leads(1, 4), leads(2, 5, at=2 * S), truncations=cuts))
    assert either.startswith("n1 or n2 acknowledged it (acks=1); the run's record does not show")
    assert cause(lost(leads(1, -1), epochs=False)) == (
        "n1 acknowledged it (acks=1); these brokers report no epochs, so the reason for the loss"
        " is unknown"
    )
    assert cause(lost(epochs=False)).startswith(
        "no leader was observed, so the run's record does not show"
    )
    assert cause(lost()).startswith("an unknown leader acknowledged it (acks=1); the run's")


def test_a_retry_may_have_been_answered_by_a_later_leader_than_the_one_that_wrote_it() -> None:
    led = [leads(1, 4), leads(2, 5, at=2 * S), leads(3, 6, at=9 * S)]
    copies = log("n2", (4, A), (4, B), snapshot="step-01")
    cuts = [CUT, {**CUT, "node": "n2"}]
    slow_ns = S - 100_000_000
    same, plain = (
        lost(*led, copies=copies, idempotent=idempotent, truncations=cuts)
        for idempotent in (True, False)
    )
    for on in (same, plain):
        assert cause(on, sent_ns=slow_ns).startswith("n1 or n2 acknowledged it")
        assert cause(on, sent_ns=slow_ns + 1).startswith("n1 led in epoch 4, acknowledged it")


def test_who_sent_again_may_have_been_answered_by_an_earlier_leader() -> None:
    # A stale leader takes a second try at the offset at which a later one has the first.
    led = [leads(1, 4), leads(2, 5, at=2 * S), leads(3, 6, at=9 * S)]
    copies, cuts = log("n2", (4, A), (5, B), snapshot="step-01"), [CUT, {**CUT, "node": "n2"}]
    plain = lost(*led, copies=copies, idempotent=False, truncations=cuts, written=6)
    assert cause(plain, sent_ns=S // 2).startswith("n1 or n2 acknowledged it")
    assert cause(plain).startswith("n2 led in epoch 5, acknowledged it")
    same = lost(*led, copies=copies, truncations=cuts, written=6)
    assert cause(same, sent_ns=S // 2).startswith("n2 led in epoch 5, acknowledged it")


def test_of_a_fault_that_was_over_it_says_that_the_election_has_another_reason() -> None:
    led = [leads(1, 4), unaware(5 * S), leads(2, 5, at=8 * S)]
    over = replace(fault("isolate", 2 * S, healing_ns=3 * S), ended_ns=4 * S, begun_ns=2 * S)
    told = cause(lost(*led, disturbances=(over,), truncations=[CUT]))
    assert told.endswith(
        "was cut off within 1.0 s, and n2 was elected in epoch 5 without it; that fault was over"
        " before the next election; the reason for that election is unknown"
    )
    late = replace(over, ended_ns=5 * S)
    assert "reason" not in cause(lost(*led, disturbances=(late,), truncations=[CUT]))


def test_two_looks_show_an_answer_between_that_said_nothing_new() -> None:
    hit = replace(fault("kill", 3 * S), begun_ns=2 * S)

    def sure(*looks: int) -> bool:
        rows = [{"node": "n2", "observed_ns": at, "log_end_offset": 1} for at in looks]
        return "may have come" not in cause(
            lost(*LED, disturbances=(hit,), truncations=[CUT], looks=rows)
        )

    assert sure(3 * S + HALF, 4 * S)
    assert not sure(4 * S)
    assert not sure(3 * S + HALF - 1, 4 * S)
    # The second one is of the time after it had heard.
    assert not sure(4 * S, 8 * S)


def test_an_election_before_the_send_is_told_as_one() -> None:
    led = [leads(1, 4), leads(1, 4, at=3 * S), leads(2, 5, at=S // 2)]
    assert "n2 had been elected in epoch 5" in cause(lost(*led, truncations=[CUT]))


def test_a_wrong_belief_is_no_leader_and_two_that_lead_are_both_named() -> None:
    wrong = {**leads(3, 5, at=7 * S, source="metadata"), "observer": "n1"}
    assert "n2 was elected in epoch 5" in cause(lost(wrong, *LED, truncations=[CUT]))
    both = cause(lost(*LED, leads(3, 5, at=8 * S), truncations=[CUT]))
    assert both.endswith("n2 and n3 are reported as leaders of epoch 5")


def test_where_the_epoch_is_not_known_no_election_is_blamed() -> None:
    led = [leads(1, 4), leads(2, 5, at=S), leads(1, 6, at=S), leads(3, 7, at=8 * S)]
    told = cause(lost(*led, truncations=[CUT], written=7))
    assert told == (
        "only n1 had it: n1 led in epoch 4 or 6, and acknowledged it (acks=1); the run's record"
        " does not show in which epoch, so the election that lost it is unknown"
    )
    # A leader that goes on in the next epoch keeps its log.
    on = [leads(1, 4), leads(1, 5, at=2 * S), leads(3, 6, at=8 * S)]
    on = [{**each, "incarnation": 1} for each in on]
    told = cause(lost(*on, truncations=[CUT], written=6))
    assert told.endswith("n1 led in epoch 4 or 5, acknowledged it (acks=1), and n3 was elected in"
                         " epoch 6 without it")  # fmt: skip


@pytest.mark.parametrize(
    ("isr", "unclean", "words"),
    [
        ([1, 3], False, "n2, an eligible leader replica (KIP-966), was elected"),
        ([1, 2], False, "n2, in the ISR, was elected"),
        ([1, 3], True, "n2, from outside of the in-sync replicas, was elected"),
    ],
)
def test_the_metadata_log_says_whence_a_leader_came(
    isr: list[int], unclean: bool, words: str,  # noqa: FBT001 - a parameter of the test
) -> None:  # fmt: skip
    log_rows = [written(1, 4, 8, *isr), written(2, 5, 9, 2, unclean=unclean)]
    own = {**leads(1, 4, at=2 * S, source="metadata"), "isr": [1, 3]}
    assert words in cause(lost(*LED, own, *log_rows, truncations=[CUT]))


def test_who_was_not_in_the_isr_is_no_eligible_replica_of_an_older_kafka_or_after_a_move() -> None:
    move = Disturbance(kind="reassignment", begun_ns=2 * S, ended_ns=9 * S)
    log_rows = [{**elected(1, 4, 8), "isr": [1]}, {**elected(2, 5, 9), "isr": [2]}]
    for version, moves, words in (
        ("4.0.0", (), "n2, an eligible leader replica (KIP-966), was elected"),
        ("3.9.1", (), "n2, which was not in the ISR before, was elected"),
        ("4.0.0", (move,), "n2, which was not in the ISR before, was elected"),
    ):
        on = lost(*LED, unaware(2 * S), *log_rows, truncations=[CUT], disturbances=moves)
        plan = on.facts.plan.model_copy(update={"system": f"kafka:{version}"})
        assert words in cause(replace(on, facts=replace(on.facts, plan=plan)))


def test_a_leader_that_wrote_another_record_there_dropped_it() -> None:
    told = cause(lost(*LED, unaware(2 * S), written=4))
    assert told == (
        "n1 acknowledged it (acks=1) as the leader of epoch 4, and another record of that epoch"
        " is at its offset: the leader dropped the message during that epoch, or never wrote it"
    )
    # One that was cut there may have copied a record that another broker's copy has wrong.
    for on in (
        lost(*LED, unaware(2 * S), written=4, truncations=[CUT]),
        lost(*LED, unaware(2 * S), written=4, truncations=[CUT, {**CUT, "node": "n3"}]),
    ):
        assert "during that epoch" not in cause(on)
    copied = lost(*LED, unaware(2 * S), written=4, truncations=[{**CUT, "node": "n3"}])
    assert cause(copied) == told


def test_who_else_had_it_is_named_with_why_it_did_not_lead() -> None:
    copies = log("n3", (4, A), (4, B), snapshot="step-01")
    cuts = [CUT, {**CUT, "node": "n3"}]

    def told(*rows: Row) -> str:
        return cause(lost(*LED, *rows, copies=copies, truncations=cuts))

    assert told().endswith("; n3 had it too, and the run's record does not show why n2 led instead")
    out = [written(1, 4, 8, 1, 2), written(2, 5, 9, 2)]
    assert told(*out).endswith("; n3 had it too, but was not in the ISR before that election")
    away = Absence(node="n3", from_ns=2 * S, until_ns=9 * S)
    on = lost(*LED, unaware(3 * S), copies=copies, truncations=cuts, absences=(away,))
    assert cause(on).endswith("; n3 had it too, but was down at that election")


def test_who_else_reached_it_is_named_and_so_is_why_another_could_be_elected() -> None:
    log_rows = [written(1, 4, 8, 1, 2, 3), written(2, 5, 9, 2, 3)]

    def told(*looks: tuple[int, int]) -> str:
        rows = [{"node": "n3", "observed_ns": at, "log_end_offset": end} for at, end in looks]
        cuts = [CUT, {**CUT, "node": "n3"}]
        return cause(lost(*LED, unaware(4 * S), *log_rows, looks=rows, truncations=cuts))

    words = (
        "; n3's log had reached its offset too, and it was in the ISR as well: either could be"
        " elected"
    )
    assert told((S - 9, 1), (2 * S, 2)).endswith(words)
    # It had something else there before; it ended there; it came under the next leader, perhaps.
    for looks in (
        [(S - 9, 2), (2 * S, 2)], [(S - 9, 1), (2 * S, 1)], [(S - 9, 1), (4 * S, 2)],
    ):  # fmt: skip
        assert "reached" not in told(*looks)


def test_the_controllers_log_says_before_when_an_election_was_not() -> None:
    hit = replace(fault("kill", 2 * S), begun_ns=2 * S - 1)
    late = Reign(topic="log-0", partition=0, leader=2, epoch=5, from_ns=2 * S, until_ns=9 * S)
    for decided, sure in ((late, True), (replace(late, from_ns=2 * S - 1), False)):
        told = cause(lost(*LED, disturbances=(hit,), truncations=[CUT], reigns=(decided,)))
        assert ("may have come" not in told) is sure


def test_the_leader_that_a_broker_names_in_its_truncation_is_told() -> None:
    led = [leads(1, 4), leads(2, 5, at=8 * S), leads(3, 6, at=9 * S)]

    def told(*brokers: int) -> str:
        cuts = [{**CUT, "reason": f"follower of broker {each}: epoch 4 ends"} for each in brokers]
        return cause(lost(*led, truncations=cuts, written=6))

    assert told(3).endswith("; n1 truncated it only after n3 was elected in epoch 6")
    for brokers in ((2,), (2, 3)):
        assert "truncated" not in told(*brokers)


def test_a_truncation_under_a_later_leader_is_told_with_it() -> None:
    hit = replace(fault("kill", 2 * S), begun_ns=2 * S - 1)
    led = [leads(1, 4), unaware(5 * S), leads(2, 5, at=8 * S), leads(3, 6, at=9 * S)]
    told = cause(lost(*led, disturbances=(hit,), truncations=[CUT], written=6))
    assert told.endswith("; n1 truncated it only after n3 was elected in epoch 6")
    early = replace(hit, healing_ns=9 * S - 1)
    told = cause(lost(*led, disturbances=(early,), truncations=[CUT], written=6))
    assert "truncated" not in told


def gap(
    sequence: int = 5, *, epoch: int = 5, producer_epoch: int = 0, sent_ns: int = S - 5
) -> tuple[str, list[str]]:
    """B was acknowledged between A and C of its process, and another's record has its offset."""
    rows = [
        {**log("n2", (5, A))[0], "sequence": 3},
        {**log("n2", (5, D), start=1)[0], "producer_id": 2},
        {
            **log("n2", (epoch, C), start=2)[0],
            "sequence": sequence,
            "producer_epoch": producer_epoch,
        },
    ]
    nodes = ("n1", "n2", "n3")
    sends = [
        ack(A, 0, at=S // 3),
        {**ack(B, 1, op=2), "invoke_ns": sent_ns},
        ack(C, 2, op=3, at=2 * S),
    ]
    on = group(
        facts(collected_nodes=frozenset(nodes)),
        sends=[*({**each, "process": 1} for each in sends), ack(D, 1, op=4, at=2 * S)],
        leadership=[leads(1, 4), leads(1, 4, at=3 * S), *(leads(2, 5, at=at) for at in (5, 9 * S))],
        replica_records=[{**row, "node": node} for node in nodes for row in rows],
        replica_states=[state(node, 3) for node in nodes],
        truncations=[{**CUT, "from_offset": 0}],
    )  # fmt: skip
    record = Acked(value=B, offset=1, sent_ns=sent_ns, acked_ns=S)
    by = acknowledgers(on, record)
    return cause_of_loss(on, record, by), [each.text for each in by]


@pytest.mark.parametrize("sent_ns", [S - 5, S // 2 - 99])
def test_sequences_tell_which_leader_took_what_no_log_has(sent_ns: int) -> None:
    told, by = gap(sent_ns=sent_ns)
    assert by == ["n2, leader of epoch 5"]
    assert told == (
        "n2 acknowledged it (acks=all) as the leader of epoch 5, and another record of that epoch"
        " is at its offset: the leader dropped the message during that epoch, or never wrote it;"
        " its log has sequence 3 of producer 1 at offset 0 and then sequence 5 at offset 2, so it"
        " had accepted the missing sequence in between"
    )


@pytest.mark.parametrize("more", [{"sequence": 4}, {"sequence": 6}, {"producer_epoch": 1},
                                  {"epoch": 6}])  # fmt: skip
def test_without_a_gap_of_just_that_record_the_sequences_tell_nothing(more: Row) -> None:
    told, by = gap(**more)
    assert "n1, leader of epoch 4" in by
    assert "producer" not in told
