"""Arrivals that count as calm: those of the main phase, at least a second away from faults."""

from checkers.statistics import run_statistics
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, group

REQUESTED: Row = {"kind": "kill", "targets": ["n1"], "effect": "{}", "requested_ns": 10 * S}
BEGUN = {**REQUESTED, "spec": '{"begun": true}'}


def calm_seconds(*faults: Row) -> list[int]:
    arrivals = [
        {"window_ns": second * S, "phase": "main" if second < 20 else "final", "offered": 1,
         "missed": 0}
        for second in range(8, 22)
    ]  # fmt: skip
    found = run_statistics(group(arrivals=arrivals, faults=list(faults)))["offered"].to_pylist()
    return [row["window_ns"] // S for row in found if row["calm_offered"]]


def test_arrivals_near_a_fault_are_not_calm() -> None:
    assert calm_seconds() == list(range(8, 20))
    assert calm_seconds({**BEGUN, "healed_ns": 13 * S}) == [8, *range(15, 20)]
    assert calm_seconds(BEGUN) == [8]  # It was never healed.


def test_a_fault_that_never_began_disturbs_nothing() -> None:
    assert calm_seconds({**REQUESTED, "spec": '{"begun": false}'}) == list(range(8, 20))
    assert calm_seconds({**BEGUN, "requested_ns": None}) == list(range(8, 20))
