"""Decide how many runs are in progress at once, and which runs must not share machines."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import psutil

from results.record.plan import Plan

GIB = 1 << 30
NODE_BYTES = int(0.7 * GIB)
"""The memory of a broker: a heap of at most 512 MiB, and the JVM's own memory."""
CLIENTS_BYTES = int(0.8 * GIB)
"""The memory of the stage, the workers and the nodes' agents."""
JUDGE_BYTES = 3 * GIB


class Part(StrEnum):
    """The phases of a run in progress."""

    STARTING = "starting"
    AT_WORK = "at work"
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """How many runs are in progress at once.

    Attributes:
        runs: The number of runs whose clients have not ended.
        ending: How many runs whose clients have ended may be in progress in addition. Such runs do
            final reads, stop and collect files while the next runs start.

    At most half of the runs may be starting at the same time. If two clusters start together,
    neither of them starts faster. Their main phases would then also begin and end together.
    """

    runs: int
    ending: int = 0

    def free(self, parts: Sequence[Part]) -> bool:
        """Return whether another run may begin now.

        Args:
            parts: The phase of each run in progress.
        """
        if parts.count(Part.STARTING) >= max(1, self.runs // 2):
            return False
        return len(parts) - min(parts.count(Part.ENDING), self.ending) < self.runs


def slots(parallel: int | Literal["auto"], plans: Iterable[Plan]) -> Slots:
    """Return the number of runs that are played at the same time on this machine.

    Args:
        parallel: The setting of the suite. If it is a number, that number is returned.
        plans: The plans of all entries. The biggest cluster in them decides.
    """
    if parallel != "auto":
        return Slots(runs=parallel)
    nodes = max((plan.nodes + _controllers(plan) for plan in plans), default=1)
    memory = psutil.virtual_memory().available
    return auto_slots(cores=len(os.sched_getaffinity(0)), memory_bytes=memory, nodes=nodes)


def auto_slots(*, cores: int, memory_bytes: int, nodes: int) -> Slots:
    """Return how many runs fit: at least one, and one for each core if there is enough memory.

    A run's brokers are busy while they start, and hardly busy afterwards. So one run for each core
    leaves room for the judge. More runs would slow down clients, and with too little traffic the
    verdict of a run is unknown. The rest of the memory is for more runs, whose clients have ended.

    Args:
        cores: The cores that Logquake may use.
        memory_bytes: The free memory.
        nodes: The number of nodes in the biggest cluster.
    """
    run_bytes = nodes * NODE_BYTES + CLIENTS_BYTES
    fitting = max(1, (memory_bytes - JUDGE_BYTES) // run_bytes)
    runs = min(cores, fitting)
    return Slots(runs=runs, ending=min(runs, fitting - runs))


def place_of(plan: Plan) -> str:
    """Return the ssh hosts that a run must not share; empty for any other kind of hosts.

    Two runs in namespaces, containers or processes do not disturb each other: each run has its own
    networks, names and ports. Brokers on one ssh host would listen on the same port.
    """
    return plan.hosts if plan.hosts.startswith("ssh:") else ""


def _controllers(plan: Plan) -> int:
    return plan.controllers if plan.mode == "controllers" else 0
