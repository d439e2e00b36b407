"""What a power loss on every replica took was never promised to last; on fewer, it was."""

import json
from pathlib import Path

import pyarrow as pa

from checkers import inconsistent_offsets, lost_write
from checkers.facts import PowerCut, RunFacts
from checkers.judge import allowed
from checkers.power_loss import power_cuts
from checkers.run import judge_runs
from checkers.stored import load_facts
from results.record.tables import TABLES
from results.record.terms import Judge
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.hand import A, B, S, ack, facts, found, group, leads, read, state


def cut(
    *nodes: str, after: int = 0, before: int = 1, at: int = 2 * S, partition: int = 0
) -> PowerCut:
    return PowerCut(
        nodes=frozenset(nodes), topic="log-0", partition=partition, end_after=after,
        end_before=before, confirmed_ns=at,
    )  # fmt: skip


def about(*cuts: PowerCut) -> RunFacts:
    return facts(plan={"replication": 2, "nodes": 2}, power_cuts=cuts)


def lost(
    *cuts: PowerCut, nodes: tuple[str, ...] = ("n1", "n2"), acked_ns: int = S
) -> tuple[str, ...]:
    """Return what excuses the loss of offset 0, by the logs of some nodes, which are empty."""
    on = group(
        about(*cuts),
        sends=[ack(A, 0, at=acked_ns)],
        leadership=[leads(1, 0)],
        replica_states=[state(node, 0) for node in nodes],
    )
    (anomaly,) = found(lost_write.CHECKER, on).anomalies
    return anomaly.excuses


def test_a_loss_is_excused_if_every_replica_lost_power_with_it() -> None:
    assert lost(cut("n1"), cut("n2")) == ("power-loss",)
    assert lost(cut("n1", "n2")) == ("power-loss",)
    assert lost(cut("n1"), cut("n2", before=0)) == ("power-loss",)  # n2 had not got it yet.


def test_a_loss_is_not_excused_if_a_replica_should_have_kept_it() -> None:
    assert lost() == ()
    assert lost(cut("n1")) == ()  # n2 did not lose power.
    assert lost(cut("n1", "n2", after=1, before=2)) == ()  # It was flushed everywhere.
    assert lost(cut("n1"), cut("n2", after=1, before=2)) == ()  # It was flushed on n2.
    assert lost(cut("n1", "n2", before=0)) == ()  # It was not there to be cut.
    assert lost(cut("n1", "n2", at=S // 2)) == ()  # It was acknowledged after that.
    assert lost(cut("n1", "n2", partition=1)) == ()
    assert lost(cut("n1"), nodes=("n1",)) == ()  # Nothing is known of the other replica.


def test_what_takes_the_place_of_a_lost_record_is_excused_as_the_loss_is() -> None:
    rows = {"sends": [ack(A, 0)], "polls": [read(B, 0)],
            "replica_states": [state("n1", 1), state("n2", 1)]}  # fmt: skip
    (excused,) = found(
        inconsistent_offsets.CHECKER, group(about(cut("n1", "n2")), **rows)
    ).anomalies
    assert excused.excuses == ("power-loss",)
    (other,) = found(inconsistent_offsets.CHECKER, group(about(cut("n1")), **rows)).anomalies
    assert other.excuses == ()


def test_the_contract_allows_it_and_the_strict_judge_does_not() -> None:
    for name in ("lost-write", "inconsistent-offsets"):
        assert allowed(name, ("power-loss",), Judge.CONTRACT) == "power-loss"
        assert allowed(name, ("power-loss",), Judge.STRICT) is None
    assert allowed("log-divergence", ("power-loss",), Judge.CONTRACT) is None


def fault(**changes: object) -> Row:
    replicas = [
        {"topic": "log-0", "partition": 0, "log_end_before": 9, "log_end_after": after}
        for after in (3, 5)
    ]
    return {
        "fault_id": 1, "kind": "power-loss", "spec": "{}", "targets": ["n1", "n2"],
        "requested_ns": S, "confirmed_ns": 2 * S, "effect": json.dumps({"replicas": replicas}),
        **changes,
    }  # fmt: skip


def told(row: Row) -> tuple[PowerCut, ...]:
    return power_cuts(pa.Table.from_pylist([row], schema=TABLES["faults"]))


def test_cuts_are_read_from_the_effects_of_confirmed_power_losses() -> None:
    assert told(fault()) == (cut("n1", "n2", after=5, before=9),)  # Each has at most 5 left.
    assert told(fault(kind="kill")) == ()
    assert told(fault(confirmed_ns=None)) == ()
    for damaged in (None, "{", "{}", "[]", '{"replicas": [{"topic": "log-0"}]}'):
        assert told(fault(effect=damaged)) == ()


def test_a_runs_folder_tells_of_its_power_losses(tmp_path: Path) -> None:
    run = FaithfulRun(1)
    run.rows["faults"] = [fault(healed_ns=3 * S)]
    root = run.write(tmp_path / "t" / "dark")
    judge_runs([root], engine="local")
    assert load_facts(root).power_cuts == (cut("n1", "n2", after=5, before=9),)
