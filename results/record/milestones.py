"""The milestones of a run, `milestones.jsonl`: the phases that the run reached, with times.

If a run died, the list of milestones ends early. From this, the pipeline knows that there is no
final snapshot. The regular milestones, in order, are:

- `looked`: the state of the hosts was recorded; it is compared at the end.
- `started`, `ready`, `warmup`, `main`, `main-ended`, `healed`.
- `recovered`: every partition has a leader and a full ISR.
- `stopping-clients`: clients begin no more ops, and wait for their open ops.
- `final-reads`.
- `noted`: leaders, high watermarks and log ends before the stop were recorded.
- `stopped`, `collected`.
- `audited`, always last: the hosts were compared with their earlier state.

Further milestones occur only in some runs:

- `failed`: the run did not finish its plan.
- `broker-ended`: a broker ended; the milestone has the time at which Logquake noticed this.
- `stacks`: thread stacks were recorded, because the cluster did not recover or the run was stopped.
- `stopped-on-violation`: the run was stopped because a violation had been found.
- `watcher-ended`: the process that searches for violations ended unexpectedly.
- `interrupted`: the user stopped the run with Ctrl-C.
- `worker-ended`: a client process crashed.
- `open-transactions`, after `final-reads`: all open transactions were listed.
- `drained`, after `final-reads`: a share group had processed all records.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from results.record.reading import read_lines

DRAINED = "drained"
ENDED = "broker-ended"
INTERRUPTED = "interrupted"
MAIN_ENDED = "main-ended"
OPEN = "open-transactions"
STOPPING = "stopping-clients"
STACKS = "stacks"
STOPPED_ON = "stopped-on-violation"
WATCHER_ENDED = "watcher-ended"
WORKER_ENDED = "worker-ended"
MAX_NS = 2**63 - 1
"""The largest time that a table can store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """A point that a run reached.

    Attributes:
        name: One of the names in the module's docstring.
        at_ns: Nanoseconds since the run's start.
        detail: Further facts; the keys depend on the milestone, as listed below.

    The keys of `detail` are:

    - `broker-ended`: the `node`, its `incarnation`, the node's last error lines (`said`), and the
      exit `code`. A negative code is a signal. The code may also be `stopped` or missing.
    - `main-ended`: the machine's `load` average of the last minute, and its `cores`.
    - `open-transactions`: for each partition, the owner of an open transaction.
    - `stacks`: for each node, the deadlocks that its JVM found.
    - `stopped-on-violation`: the `anomaly`, its `place` and `sentence`, and the times of the first
      and second observation (`first_ns`, `seen_ns`).
    - `stopping-clients`: the number of `workers`.
    - `worker-ended`: the `worker`, the `signal` of its crash, and its last lines (`said`).
    - `noted`: the number of server starts so far (`lives`).
    - `stopped`: for each node `clean` or `killed`.
    - `healed`, `recovered`, `drained`: `failed` has the reason if the run did not get that far.
    - `audited`: each difference between the hosts before the run and the hosts now.
    """

    name: str
    at_ns: int
    detail: dict[str, str] = field(default_factory=dict)


def append_milestone(path: Path, milestone: Milestone) -> None:
    """Append a milestone to the run's milestones file."""
    row = {"name": milestone.name, "at_ns": milestone.at_ns, "detail": milestone.detail}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def load_milestones(path: Path) -> list[Milestone]:
    """Read the milestones of a run, up to the first line that is cut off or invalid."""
    milestones = []
    for line in read_lines(path):
        try:
            milestone = Milestone(**json.loads(line))
        except (ValueError, TypeError, RecursionError):  # A bundle's file may contain anything.
            break
        if not _sound(milestone):
            break
        milestones.append(milestone)
    return milestones


def _sound(milestone: Milestone) -> bool:
    """Return whether a milestone's fields have the types that a run writes."""
    name, at_ns, detail = milestone.name, milestone.at_ns, milestone.detail
    return (
        isinstance(name, str)
        and isinstance(at_ns, int)
        and abs(at_ns) <= MAX_NS
        and isinstance(detail, dict)
        and all(isinstance(each, str) for each in detail.values())
    )
