"""Why an acknowledged record is gone: the sentences of real runs, and what a record cannot say."""

import re
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
    "loss-acks-1": "only n2 had it: n2 led in epoch 0, acknowledged it (acks=1), was cut off at"
    " about that time, and n3 was elected in epoch 1 without it",
    "leader-epoch-1-high-watermark": "n1 led in epoch 0, acknowledged it (acks=all), was killed"
    " 42.9 s later, and n2, which had truncated its log at offset 1, was elected in epoch 2"
    " without it",
    "leader-epoch-2-leader-epoch": "only n1 had it: n1 led alone in epoch 1, acknowledged it"
    " (acks=all), was killed 0.5 s later, and n2, which was not in the last ISR that was told, was"
    " elected in epoch 3 without it",
    "loss-unclean": "only n1 had it: n1 led in epoch 0, acknowledged it (acks=all), was cut"
    " off 7.8 s later, and n2, from outside of the in-sync replicas, was elected in epoch 1"
    " without it",
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


def lost(*leadership: Row, acks: str = "1", disturbances: tuple[Disturbance, ...] = (),
         **rows: list[Row]) -> Group:  # fmt: skip
    """B was acknowledged at offset 1; in the end every replica has C there."""
    nodes = frozenset({"n1", "n2", "n3"})
    return group(
        facts(collected_nodes=nodes, disturbances=disturbances),
        sends=[ack(A, 0), ack(B, 1, op=2, acks=acks)],
        leadership=list(leadership),
        replica_records=[row for node in nodes for row in log(node, (4, A), (5, C))],
        replica_states=[state(node, 2) for node in nodes],
        **rows,
    )


def cause(on: Group, *, weak: bool = True) -> str:
    record = Acked(value=B, offset=1, sent_ns=S - 5, acked_ns=S, weak=weak)
    return cause_of_loss(on, record, acknowledgers(on, record))


CUT: Row = {"node": "n1", "from_offset": 1, "to_offset": 2, "source": "server-log"}


def test_it_names_what_befell_the_leader_last_and_whether_the_next_one_came_from_outside() -> None:
    led = [leads(1, 4), elected(2, 5, 9, unclean=True), leads(2, 5, at=8 * S)]
    faults = tuple(
        Disturbance(kind=kind, begun_ns=at * S, ended_ns=9 * S, nodes=frozenset({node}))
        for kind, at, node in (("pause", 2, "n1"), ("kill", 3, "n1"), ("delay", 4, "n1"),
                               ("kill", 5, "n3"))
    )  # fmt: skip
    told = cause(lost(*led, disturbances=faults, truncations=[CUT]))
    assert told == (
        "only n1 had it: n1 led in epoch 4, acknowledged it (acks=1), was killed 2.0 s later, and"
        " n2, from outside of the in-sync replicas, was elected in epoch 5 without it"
    )


def test_a_fault_that_was_seen_to_work_by_then_is_told_as_meanwhile() -> None:
    led = [leads(1, 4), leads(2, 5, at=8 * S)]
    for confirmed_ns, words in ((S - 1, "acknowledged it (acks=1) while it was cut off, and"),
                                (S + 1, "(acks=1), was cut off at about that time, and"),
                                (-1, "(acks=1), was cut off at about that time, and")):  # fmt: skip
        fault = Disturbance(
            kind="isolate", begun_ns=S - 9, ended_ns=9 * S, confirmed_ns=confirmed_ns,
            nodes=frozenset({"n1"}),
        )  # fmt: skip
        assert words in cause(lost(*led, disturbances=(fault,), truncations=[CUT]))


def test_who_may_have_had_it_is_not_said_to_have_lacked_it() -> None:
    knew = {**leads(1, 4, at=4 * S, source="metadata"), "observer": "n2"}
    led = [leads(1, 4), knew, leads(2, 5, at=8 * S), leads(3, 6, at=9 * S)]
    both = [CUT, {**CUT, "node": "n2"}]
    assert cause(lost(*led, truncations=both), weak=False) == (
        "n1 led in epoch 4, acknowledged it (acks=all), and n2 was elected in epoch 5; whether"
        " it had the record is not known"
    )


def test_what_the_record_lacks_is_named() -> None:
    alone = cause(lost(leads(1, 4), truncations=[CUT]))
    assert alone.endswith("; no later leader was seen, so the record does not tell what took it")
    either = cause(
        lost(leads(1, 4), leads(2, 5, at=2 * S), truncations=[CUT, {**CUT, "node": "n2"}])
    )
    assert either.startswith("n1 or n2 acknowledged it (acks=1); the record does not tell which")
    assert cause(lost()).startswith("nobody who was seen to lead acknowledged it")
