"""The live view of a run, read from its live streams: phase, operations, faults in force."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from results.environment import read_environment
from results.index.reading import is_plain
from results.record.atomic import StoreError
from results.record.clock import NS_PER_S, RunClock
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.stream import read_stream
from results.site.tallies import Tallies

PHASES = {
    "started": "starting the cluster",
    "ready": "creating topics",
    "warmup": "warming up",
    "main": "clients and faults side by side",
    "main-ended": "undoing the faults",
    "healed": "waiting for full ISRs",
    "recovered": "clients continue for a while",
    "stopping-clients": "waiting for operations in progress",
    "final-reads": "final reads of all records",
    "noted": "stopping the brokers",
    "stopped": "collecting files",
    "collected": "judging",
}
"""Description of the phase that begins with each milestone."""
_LATER = "ending"
_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The state of a run in the live view.

    Attributes:
        phase: The current phase, as text.
        milestones: (name, time in seconds; None if it was not reached).
        elapsed_s: Seconds since the run's start; None if unknown.
        operations: (outcome, number of operations).
        pending: Number of operations that began and have not ended.
        faults: The faults that start or are in force come first, and then the faults that are over.
            In both groups, the newest fault comes first.
        in_force: Number of faults in force.
        trouble: The error that ended the run; empty if there is none.
    """

    phase: str
    milestones: tuple[tuple[str, float | None], ...]
    elapsed_s: float | None
    operations: tuple[tuple[str, int], ...]
    pending: int
    faults: tuple["Fault", ...]
    in_force: int
    trouble: str

    @property
    def total(self) -> int:
        """Number of all operations that ended."""
        return sum(count for _, count in self.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The current state of a fault: its kind, its nodes, its times, and whether it is in force."""

    kind: str
    nodes: str
    requested_s: float
    healed_s: float | None
    state: str


def sight_of(paths: RunPaths, tallies: Tallies, *, alive: bool) -> Sight:
    """Return the current state of a run.

    Args:
        paths: The run.
        tallies: Counters that keep the counts of earlier calls.
        alive: Whether the run is still running.
    """
    reached = load_milestones(paths.milestones) if is_plain(paths.milestones) else []
    last = reached[-1].name if reached else ""
    faults = _faults(paths.live)
    begun = tallies.rows(paths.live, "op_invocations")
    ended = tallies.words(paths.live, "op_completions", column="outcome")
    seconds = {each.name: each.at_ns / NS_PER_S for each in reached}
    failed = next(
        (each.detail.get("sentence", "") for each in reached if each.name == "failed"), ""
    )
    return Sight(
        phase=PHASES.get(last, _LATER if reached else "preparing") if alive else "over",
        milestones=tuple((name, seconds.get(name)) for name in PHASES),
        elapsed_s=_elapsed_s(paths) if alive else None,
        operations=tuple(sorted(ended.items(), key=_rank)),
        pending=max(0, begun - sum(ended.values())),
        faults=tuple(faults[:_SHOWN]),
        in_force=sum(each.state == "in force" for each in faults),
        trouble=failed,
    )


def _rank(outcome: tuple[str, int]) -> tuple[int, str]:
    order = ("ok", "fail", "info")
    name = outcome[0]
    return order.index(name) if name in order else len(order), name


def _elapsed_s(paths: RunPaths) -> float | None:
    if not is_plain(paths.environment):
        return None
    try:
        start_ns = read_environment(paths.environment).get("clock_start_ns")
    except StoreError:
        return None
    if not isinstance(start_ns, int):
        return None
    elapsed_s = RunClock(start_ns=start_ns).now_ns() / NS_PER_S
    return elapsed_s if elapsed_s >= 0 else None  # The run belongs to another boot of the machine.


def _batches(live: Path, table: str) -> Iterator[pa.RecordBatch]:
    for path in sorted(live.glob(f"{table}.*.arrows")):
        yield from read_stream(path)


def _faults(live: Path) -> list[Fault]:
    """Return the faults, sorted: not yet over, then over; in each group, the newest comes first."""
    newest: dict[int, dict[str, object]] = {}
    for batch in _batches(live, "faults"):
        if not {"fault_id", "kind", "requested_ns"} <= set(batch.schema.names):
            continue
        for row in batch.to_pylist():
            newest[row["fault_id"]] = row
    faults = [_fault(row) for row in newest.values()]
    return sorted(faults, key=lambda each: (each.state == "over", -each.requested_s))


def _fault(row: dict[str, object]) -> Fault:
    targets = row.get("targets")
    healed_s = _seconds(row.get("healed_ns"))
    confirmed = row.get("confirmed_ns") is not None
    state = "over" if healed_s is not None else "in force" if confirmed else "being brought about"
    return Fault(
        kind=str(row["kind"]),
        nodes=", ".join(map(str, targets)) if isinstance(targets, list) and targets else "no node",
        requested_s=_seconds(row["requested_ns"]) or 0.0,
        healed_s=healed_s,
        state=state,
    )


def _seconds(time_ns: object) -> float | None:
    return time_ns / NS_PER_S if isinstance(time_ns, int) else None
