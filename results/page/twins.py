"""Find a run of the scenario with another rule, and the first step at which the runs differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results.page.changes import listed, names_between, truncated
from results.page.logs import Log
from results.page.scenes import Scene
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan
from results.record.steps import load_steps
from results.record.terms import Rule
from results.samples import is_sample, sample_paths
from results.store import Store, StoreError, is_alive

COMPARED = ("rule", "elr")
"""Scenario choices by which two runs can be compared. If a scenario has both choices, its runs are
compared by the first."""
_ORDER: dict[str, int] = {
    Rule.HIGH_WATERMARK: 0,
    Rule.LEADER_EPOCH: 1,
    Rule.LEADER_EPOCH_V0: 2,
    "False": 0,
    "True": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first difference between two scripted runs.

    Attributes:
        number: Number of the first step at which a replica's log or the leader differs.
        sentences: For each of the two runs, a sentence about the logs or the leader at this step.
    """

    number: int
    sentences: tuple[str, str]


def compared_choice(paths: RunPaths) -> tuple[str, str] | None:
    """Return the (choice, value) that can be compared, such as `("rule", "leader-epoch")`."""
    scenario = _scenario(paths) or {}
    key = next((each for each in COMPARED if each in scenario), None)
    if key is None:
        return None
    return key, {"False": "off", "True": "on"}.get(str(scenario[key]), str(scenario[key]))


def twin_of(paths: RunPaths) -> RunPaths | None:
    """Return the newest run that differs from this run only in the compared choice, such as `rule`.

    If there are such runs with different values, the run with the oldest rule is preferred.
    """
    mine = _alike(paths)
    if mine is None:
        return None
    found: dict[str, RunPaths] = {}
    for other in _neighbours(paths):
        theirs = _alike(other)
        if theirs and theirs[0] != mine[0] and theirs[1] == mine[1] and _tells(other):
            found.setdefault(theirs[0], other)
    best = min(found, key=lambda value: _ORDER.get(value, len(_ORDER)), default=None)
    return None if best is None else found[best]


def in_order(paths: RunPaths, other: RunPaths) -> bool:
    """Return whether a run's column comes before the other run's: the old rule comes first."""
    mine, theirs = _alike(paths), _alike(other)
    unknown = len(_ORDER)
    return (
        mine is None
        or theirs is None
        or (_ORDER.get(mine[0], unknown) <= _ORDER.get(theirs[0], unknown))
    )


def parting(first: Sequence[Scene], second: Sequence[Scene]) -> Parting | None:
    """Return the first step at which two runs differ in a log or in the leader, or None."""
    for at, (one, two) in enumerate(zip(first, second, strict=False)):
        nodes = [
            replica.node
            for replica in one.replicas
            if (other := two.replica(replica.node)) and not same_names(replica.log, other.log)
        ]
        if nodes:
            return Parting(
                number=one.step.number,
                sentences=(
                    _held(one, nodes, before=first[at - 1] if at else None),
                    _held(two, nodes, before=second[at - 1] if at else None),
                ),
            )
        # If a scenario ended early, the later leader is unknown.
        if _leader(one) != _leader(two) and not (one.step.failed or two.step.failed):
            return Parting(
                number=one.step.number,
                sentences=(f"{_leader(one)} leads", f"{_leader(two)} leads"),
            )
    return None


def same_names(one: Log, two: Log) -> bool:
    """Return whether two logs hold records with equal names; the leader epochs may differ."""
    edges = sorted(one.edges | two.edges)
    for first in edges:
        left, right = one.at(first), two.at(first)
        names = [run.name_at(first) if run else None for run in (left, right)]
        if names[0] != names[1]:
            return False
    return True


def _leader(scene: Scene) -> str:
    return scene.broker(scene.step.leader)


def _held(scene: Scene, nodes: Sequence[str], *, before: Scene | None) -> str:
    """Return each node's log as text: `B truncated message2 and holds message1`."""
    told = []
    for node in nodes:
        replica = scene.replica(node)
        if replica is None:
            continue
        old = before.replica(node) if before else None
        cut = truncated(old.log if old else None, replica.log)
        held = [
            name
            for run in replica.log.runs
            for name in names_between(replica.log, run.first, run.last)
        ]
        dropped = f"truncated {listed(cut)} and " if cut else ""
        told.append(f"{replica.called} {dropped}holds {listed(held)}")
    return "; ".join(told)


def _neighbours(paths: RunPaths) -> list[RunPaths]:
    if is_sample(paths):
        runs = [RunPaths(path) for path in sample_paths()]
    else:
        try:
            runs = Store(paths.root.parent.parent).runs()
        except StoreError:
            return []
    return [each for each in runs if each.root.resolve() != paths.root.resolve()]


def _alike(paths: RunPaths) -> tuple[str, tuple[object, ...]] | None:
    """Return (the compared value, the values that comparable runs have in common), or None."""
    plan = _plan(paths)
    scenario = plan.get("scenario")
    if not isinstance(scenario, dict):
        return None
    key = next((each for each in COMPARED if each in scenario), None)
    if key is None:
        return None
    rest = tuple(sorted((name, str(each)) for name, each in scenario.items() if name != key))
    return str(scenario[key]), (plan.get("system"), key, rest)


def _scenario(paths: RunPaths) -> dict[str, Any] | None:
    scenario = _plan(paths).get("scenario")
    return scenario if isinstance(scenario, dict) else None


def _plan(paths: RunPaths) -> dict[str, Any]:
    try:
        return load_plan(paths.plan)
    except PlanError:
        return {}


def _tells(paths: RunPaths) -> bool:
    """Return whether a scripted run has ended with a successful last step."""
    try:
        steps = [] if is_alive(paths) else load_steps(paths.steps)
    except (OSError, StoreError):
        return False
    return bool(steps) and not steps[-1].failed
