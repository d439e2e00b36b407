"""Why an acknowledged record is gone: the sentences of real runs, and what a record cannot say."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from checkers.acknowledger import Acked, acknowledgers
from checkers.causes import cause_of_loss
from checkers.facts import Disturbance
from checkers.group import Group
from checkers.run import judge_runs
from results.record.paths import RunPaths
from results.samples import copy_sample, find_sample
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, ack, elected, facts, group, leads, log, state

TOLD = {
    "loss-acks-1": "only n2 had it: n2 led in epoch 0, acknowledged it (acks=1), was cut off within"
    " 0.5 s, and n3 was elected in epoch 1 without it",
    "leader-epoch-1-high-watermark": "n1 led in epoch 0, acknowledged it (acks=all), was killed"
    " within 43.0 s, and n2, which had truncated its log at offset 1, was elected in epoch 2"
    " without it",
    "leader-epoch-2-leader-epoch": "only n1 had it: n1 led alone in epoch 1, acknowledged it"
    " (acks=all), was killed within 0.6 s, and n2, which was not in the last ISR that was told, was"
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


def lost(
    *leadership: Row, disturbances: tuple[Disturbance, ...] = (), looks: Sequence[Row] = (),
    copies: Sequence[Row] = (), unreadable: frozenset[str] = frozenset(), epochs: bool = True,
    idempotent: bool = True, truncations: Sequence[Row] = (), written: int = 5,
) -> Group:  # fmt: skip
    """B was acknowledged at offset 1; in the end every replica has C there, `written` then."""
    nodes = ("n1", "n2", "n3")
    plan = {} if idempotent else {"client": {"enable.idempotence": "false"}}
    held = ((4, A), (written, C)) if epochs else ((-1, A), (-1, C))
    return group(
        facts(
            plan=plan,
            collected_nodes=frozenset(nodes),
            unreadable_nodes=unreadable,
            disturbances=disturbances,
        ),
        sends=[ack(A, 0), ack(B, 1, op=2, acks="1")],
        leadership=list(leadership),
        replica_records=[*(row for node in nodes for row in log(node, *held)), *copies],
        replica_states=[*(state(node, 2) for node in nodes), *looks],
        truncations=list(truncations),
    )


def cause(on: Group, *, weak: bool = True, sent_ns: int = S - 5) -> str:
    record = Acked(value=B, offset=1, sent_ns=sent_ns, acked_ns=S, weak=weak)
    return cause_of_loss(on, record, acknowledgers(on, record))


CUT: Row = {"node": "n1", "from_offset": 1, "to_offset": 2, "source": "server-log"}


LED = [leads(1, 4), leads(2, 5, at=8 * S)]


def fault(
    kind: str, confirmed_ns: int, *, node: str = "n1", healing_ns: int = 9 * S
) -> Disturbance:
    return Disturbance(
        kind=kind, begun_ns=S // 2, confirmed_ns=confirmed_ns, healing_ns=healing_ns,
        ended_ns=9 * S, nodes=frozenset({node}),
    )  # fmt: skip


def test_it_names_what_befell_the_leader_last_and_whether_the_next_one_came_from_outside() -> None:
    led = [leads(1, 4), elected(2, 5, 9, unclean=True), leads(2, 5, at=8 * S)]
    faults = (fault("pause", 2 * S), fault("kill", 3 * S), fault("delay", 4 * S),
              fault("kill", 5 * S, node="n3"), fault("kill", -1), fault("stop", 8 * S + 1),
              fault("rolling-restart", 6 * S))  # fmt: skip
    told = cause(lost(*led, disturbances=faults, truncations=[CUT]))
    assert told == (
        "only n1 had it: n1 led in epoch 4, acknowledged it (acks=1), was killed within 2.0 s, and"
        " n2, from outside of the in-sync replicas, was elected in epoch 5 without it"
    )


@pytest.mark.parametrize(
    ("hit", "words"),
    [
        (fault("isolate", S - 9), "acknowledged it (acks=1) while it was cut off, and"),
        (fault("isolate", S + S // 2), "(acks=1), was cut off within 0.5 s, and"),
        # Its answer may have come before, or after it was over; and nobody saw the last one work.
        (fault("isolate", S - 3), "acknowledged it (acks=1), and"),
        (fault("isolate", S - 9, healing_ns=S - 1), "acknowledged it (acks=1), and"),
        (fault("kill", S - 9), "acknowledged it (acks=1), and"),
        (fault("isolate", -1), "acknowledged it (acks=1), and"),
    ],
)
def test_a_fault_is_told_only_as_far_as_it_was_seen_to_work(hit: Disturbance, words: str) -> None:
    assert words in cause(lost(*LED, disturbances=(hit,), truncations=[CUT]))


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
    assert not only(lost(*LED, truncations=[CUT], unreadable=frozenset({"n3"})))


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
    alone = cause(lost(leads(1, 4), leads(1, 5), truncations=[CUT]))
    assert "n1 led in epoch 4 or 5" in alone
    assert alone.endswith("; no later leader was seen, so the record does not tell what took it")
    cuts = [CUT, {**CUT, "node": "n2"}]
    either = cause(lost(leads(1, 4), leads(2, 5, at=2 * S), truncations=cuts))
    assert either.startswith("n1 or n2 acknowledged it (acks=1); who it was the record does not")
    assert cause(lost(leads(1, -1), epochs=False)) == (
        "n1 acknowledged it (acks=1); these brokers tell no epochs, so why it is gone is not known"
    )
    assert cause(lost(epochs=False)).startswith("nobody was seen to lead, so the record does not")
    assert cause(lost()).startswith("an unknown leader acknowledged it (acks=1); who it was")


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
    plain = lost(*led, copies=copies, idempotent=False, truncations=cuts)
    assert cause(plain, sent_ns=S // 2).startswith("n1 or n2 acknowledged it")
    assert cause(plain).startswith("n2 led in epoch 5, acknowledged it")
    same = lost(*led, copies=copies, truncations=cuts)
    assert cause(same, sent_ns=S // 2).startswith("n2 led in epoch 5, acknowledged it")
