"""An unclean election that a fault ordered excuses what it lost, in its partition and no other."""

import json

import pyarrow as pa
import pytest

from checkers.facts import RunFacts
from checkers.group import Group, group_of
from checkers.guarantees import guarantees
from checkers.unclean_orders import unclean_orders
from results.record.plan import Plan, PlannedFault

LEADERSHIP = pa.table({"source": ["metadata-log"], "unclean": [True]})


def _faults(
    kind: str, target: str, effect: object, *, targets: list[str] | None = None
) -> pa.Table:
    return pa.table(
        {
            "kind": [kind],
            "targets": pa.array([["n1"] if targets is None else targets], pa.list_(pa.string())),
            "spec": [json.dumps({"target": target})],
            "effect": [json.dumps(effect)],
        }
    )


@pytest.mark.parametrize(
    ("kind", "target", "effect", "places"),
    [
        ("unclean-election", "replicas(log-0, 2)", {"place": ["log-0", 2]}, {("log-0", 2)}),
        ("unclean-election", "replicas", {"place": ["log-1", 0]}, {("log-1", 0)}),
        # It may have been carried out, though nobody saw that.
        ("unclean-election", "replicas(log-0,2)", {"without_effect": "late"}, {("log-0", 2)}),
        ("unclean-election", "replicas", {"without_effect": "late"}, set()),
        ("unclean-election", "replicas", {"place": "log-1"}, set()),
        ("unclean-election", "replicas", {"place": ["log-1", float("inf")]}, set()),
        ("kill", "replicas(log-0,2)", {"place": ["log-0", 2]}, set()),
    ],
)
def test_the_place_is_the_effect_s_or_the_target_s(
    kind: str, target: str, effect: object, places: set[tuple[str, int]]
) -> None:
    assert unclean_orders(_faults(kind, target, effect)) == places


def test_an_order_that_was_left_out_was_never_given() -> None:
    """It waited for full ISRs in vain: nobody was sought, and so nothing is excused."""
    why = {"without_effect": "it takes what a replica has, and an ISR was not full"}
    left_out = _faults("unclean-election", "replicas(log-0,2)", why, targets=[])
    assert unclean_orders(left_out) == frozenset()


def test_the_guarantees_name_the_order_be_it_written_or_dealt() -> None:
    by_hand = Plan(faults=(PlannedFault(kind="unclean-election"),))
    dealt = frozenset({("log-0", 2)})
    for plan, orders in ((by_hand, frozenset[tuple[str, int]]()), (Plan(), dealt)):
        facts = RunFacts(run_id="r", recorded_id="r", plan=plan, unclean_orders=orders)
        assert "but for those that faults order" in " ".join(guarantees(facts))
    none = RunFacts(run_id="r", recorded_id="r", plan=Plan())
    assert "only an in-sync replica becomes the leader" in " ".join(guarantees(none))


def _group(*, ordered: tuple[str, int], plan: Plan, seen: bool = True) -> Group:
    facts = RunFacts(run_id="r", recorded_id="r", plan=plan, unclean_orders=frozenset({ordered}))
    rows = LEADERSHIP if seen else LEADERSHIP.slice(0, 0)
    return group_of(facts, {"leadership": rows}, topic="log-0", topic_id="t", partition=2)


def test_an_order_and_the_metadata_log_together_are_an_unclean_election_that_was_seen() -> None:
    assert _group(ordered=("log-0", 2), plan=Plan()).unclean_election_seen
    assert not _group(ordered=("log-0", 2), plan=Plan(), seen=False).unclean_election_seen
    assert not _group(ordered=("log-0", 1), plan=Plan()).unclean_election_seen
