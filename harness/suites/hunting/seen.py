"""Read the transitions, broken promises and effective faults of a judged run of a hunt."""

import json
from collections.abc import Iterable, Sequence

from harness.suites.journal import Reached
from nemesis.aftermath import Strikes
from results.reached import reached
from results.record.atomic import StoreError
from results.record.clock import NS_PER_S
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan, plan_from
from results.record.plan_parts import PlannedFault
from results.record.terms import Validity
from results.signature import signature_of
from results.tables import DAMAGES, RunTables
from results.verdict_json import read_verdict

UNNAMED = "unnamed"
"""The name of the broken promise if the verdict cannot be read, or names no anomaly."""
_SHORTEST_S = 0.1


def reached_by(paths: RunPaths, item: int, *, before: Iterable[Reached]) -> Reached:
    """Return the journal's line for a judged run. Data that cannot be read are left out.

    Args:
        paths: The run's folder.
        item: The run's number in the night.
        before: Lines of this night. The content of these lines is not repeated, so that the journal
            stays small.
    """
    tables, now, known = RunTables(paths), reached(paths), list(before)
    transitions = now.transitions.difference(*(each.transitions for each in known))
    successions = now.successions.difference(*(each.successions for each in known))
    return Reached(
        item=item,
        transitions=tuple(sorted(transitions)),
        successions=tuple(sorted(successions)),
        broken=_broken(paths),
        faults=_read_faults(tables),
    )


def _broken(paths: RunPaths) -> tuple[str, ...]:
    try:
        verdict, plan = read_verdict(paths.verdict), plan_from(load_plan(paths.plan))
    except (StoreError, PlanError):
        return (UNNAMED,)
    if verdict is None or verdict.valid is not Validity.INVALID:
        return ()
    signature = signature_of(verdict, plan, ())
    return (signature.anomalies if signature else ()) or (UNNAMED,)


def _read_faults(tables: RunTables) -> tuple[PlannedFault, ...]:
    try:
        return _faults(tables)
    except DAMAGES:
        return ()


def _faults(tables: RunTables) -> tuple[PlannedFault, ...]:
    """Return the confirmed faults in the form of a plan, with times in the main phase."""
    reached = {each.name: each.at_ns for each in load_milestones(tables.paths.milestones)}
    found = []
    columns = ["spec", "targets", "requested_ns", "confirmed_ns", "healed_ns"]
    rows = tables.record("faults", columns=columns)
    for row in rows.to_pylist():
        if row["confirmed_ns"] is None or row["requested_ns"] is None:
            continue
        spec = json.loads(row["spec"])
        healed_ns = row["healed_ns"] or row["confirmed_ns"]
        held_s = spec["hold_s"] or (healed_ns - row["confirmed_ns"]) / NS_PER_S
        at_s = (row["requested_ns"] - reached.get("main", 0)) / NS_PER_S
        found.append(
            PlannedFault(
                at_s=round(max(0.0, at_s), 3),
                kind=spec["kind"],
                target=_target(spec["target"], row["targets"]),
                hold_s=max(held_s, _SHORTEST_S),
            )
        )
    return tuple(sorted(found, key=lambda fault: (fault.at_s, fault.kind)))


def _target(told: str, nodes: Sequence[str]) -> str:
    """Return the target of a fault in a plan. For an aftermath, it is the recorded node."""
    return nodes[0] if told in {*Strikes} and nodes else told
