"""The milestones of a run, `milestones.jsonl`: how far it came, and when.

A run that died stops in the middle of them, which is how the pipeline knows that there is no final
snapshot. In order: `looked` (what is on the hosts was noted, to be compared with), `started`,
`ready`, `warmup`, `main`, `main-ended`, `healed`, `recovered` (every partition has a leader and a
full ISR), `stopping-clients` (they begin nothing more, and wait for what is under way),
`final-reads`, `noted` (leaders, high watermarks and log ends before the stop), `stopped`,
`collected`; `failed`, if it was not played to its end; and last `audited`: the hosts were compared
with how they were before. `broker-ended` stands wherever that was found out, `stacks` where the
cluster did not recover or the run was stopped, `stopped-on-violation` where it was stopped for what
was found meanwhile, `watcher-ended` where the process that looks for that ended by itself,
`interrupted` where somebody ended it early by Ctrl-C, `worker-ended` where a process of clients had
crashed, and `open-transactions` and `drained` (a share group was done with all) after
`final-reads`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from results.record.reading import read_lines

DRAINED = "drained"
ENDED = "broker-ended"
INTERRUPTED = "interrupted"
OPEN = "open-transactions"
STOPPING = "stopping-clients"
STACKS = "stacks"
STOPPED_ON = "stopped-on-violation"
WATCHER_ENDED = "watcher-ended"
WORKER_ENDED = "worker-ended"
MAX_NS = 2**63 - 1
"""Of a time, as tables keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """A point that a run reached.

    Attributes:
        name: One of those of the module's docstring.
        at_ns: Nanoseconds since the run's start.
        detail: What is worth knowing of it: `broker-ended` has its `node`, `incarnation`, the
            `code` that it exited with (or minus the signal, or `stopped`, or nothing if nobody saw
            it), and what it `said` of errors, line by line; `open-transactions` has for each
            partition who has one; `stacks` has for each node the deadlocks that its JVM found;
            `stopped-on-violation` has the `anomaly`, its `place` and `sentence`, and when it was
            seen first and again (`first_ns`, `seen_ns`);
            `stopping-clients` has how many `workers` there were; `worker-ended` has which `worker`
            it was, the `signal` of its crash, and what it `said` last, line by line;
            `noted` has how many `lives` the servers had; `stopped` has for each node `clean` or
            `killed`; `healed`, `recovered` and `drained` have `failed` and a sentence if it did not
            come to that; `audited` has what is not as it was before the run, each with how.
    """

    name: str
    at_ns: int
    detail: dict[str, str] = field(default_factory=dict)


def append_milestone(path: Path, milestone: Milestone) -> None:
    """Add a line to the run's milestones."""
    row = {"name": milestone.name, "at_ns": milestone.at_ns, "detail": milestone.detail}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def load_milestones(path: Path) -> list[Milestone]:
    """Read the milestones of a run, up to a line that was cut off or says something else."""
    milestones = []
    for line in read_lines(path):
        try:
            milestone = Milestone(**json.loads(line))
        except (ValueError, TypeError, RecursionError):  # A bundle's may be anything at all.
            break
        if not _sound(milestone):
            break
        milestones.append(milestone)
    return milestones


def _sound(milestone: Milestone) -> bool:
    """Tell whether a line has what was written, not merely sound JSON."""
    name, at_ns, detail = milestone.name, milestone.at_ns, milestone.detail
    return (
        isinstance(name, str)
        and isinstance(at_ns, int)
        and abs(at_ns) <= MAX_NS
        and isinstance(detail, dict)
        and all(isinstance(each, str) for each in detail.values())
    )
