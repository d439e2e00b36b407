"""How many runs can be under way at once, and which of them not side by side."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import psutil

from results.record.plan import Plan

GIB = 1 << 30
NODE_BYTES = int(0.7 * GIB)
"""A broker with a heap of 512 MiB at most, and what the JVM needs beside it."""
CLIENTS_BYTES = int(0.8 * GIB)
"""The stage, the workers, the nodes' agents."""
JUDGE_BYTES = 3 * GIB


class Part(StrEnum):
    """How far a run is."""

    STARTING = "starting"
    AT_WORK = "at work"
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """How many runs are under way at once.

    Attributes:
        runs: Until their clients end.
        ending: More whose clients have ended: they read to the end, stop and are collected while
            the next ones start.

    At most half of them start at the same time: what starts two clusters together starts none of
    them sooner, and afterwards their main phases begin and end together, too.
    """

    runs: int
    ending: int = 0

    def free(self, parts: Sequence[Part]) -> bool:
        """Tell whether another run may begin now.

        Args:
            parts: How far each of those is that have begun, and are not over.
        """
        if parts.count(Part.STARTING) >= max(1, self.runs // 2):
            return False
        return len(parts) - min(parts.count(Part.ENDING), self.ending) < self.runs


def slots(parallel: int | Literal["auto"], plans: Iterable[Plan]) -> Slots:
    """Return how many runs are played at once here.

    Args:
        parallel: As the suite says: a number is never exceeded.
        plans: Of all entries: the biggest cluster decides.
    """
    if parallel != "auto":
        return Slots(runs=parallel)
    nodes = max((plan.nodes + _controllers(plan) for plan in plans), default=1)
    memory = psutil.virtual_memory().available
    return auto_slots(cores=len(os.sched_getaffinity(0)), memory_bytes=memory, nodes=nodes)


def auto_slots(*, cores: int, memory_bytes: int, nodes: int) -> Slots:
    """Return how many runs fit: one a core, as far as memory lasts, and always one.

    A run's brokers are busy while they start and hardly afterwards, so that one a core leaves room
    for the judge; more would starve clients, and a run without traffic is unknown. Memory that is
    left then is for as many more that end.

    Args:
        cores: That we may use.
        memory_bytes: That is free.
        nodes: Of the biggest cluster.
    """
    run_bytes = nodes * NODE_BYTES + CLIENTS_BYTES
    fitting = max(1, (memory_bytes - JUDGE_BYTES) // run_bytes)
    runs = min(cores, fitting)
    return Slots(runs=runs, ending=min(runs, fitting - runs))


def place_of(plan: Plan) -> str:
    """Return what a run has for itself: ssh hosts; empty if runs of its kind go side by side.

    Namespaces, containers and processes of two runs do not see each other: networks, names and
    ports are each run's own. Brokers on one ssh host would listen on the same port.
    """
    return plan.hosts if plan.hosts.startswith("ssh:") else ""


def _controllers(plan: Plan) -> int:
    return plan.controllers if plan.mode == "controllers" else 0
