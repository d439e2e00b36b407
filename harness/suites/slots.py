"""How many runs can be under way at once, and which of them not side by side."""

import os
from collections.abc import Iterable
from typing import Literal

import psutil

from results.record.plan import Plan

GIB = 1 << 30
NODE_BYTES = int(0.7 * GIB)
"""A broker with a heap of 512 MiB at most, and what the JVM needs beside it."""
CLIENTS_BYTES = int(0.8 * GIB)
"""The stage, the workers, the nodes' agents."""
JUDGE_BYTES = 3 * GIB


def slots(parallel: int | Literal["auto"], plans: Iterable[Plan]) -> int:
    """Return how many runs are played at once here.

    Args:
        parallel: As the suite says.
        plans: Of all entries: the biggest cluster decides.
    """
    if parallel != "auto":
        return parallel
    nodes = max((plan.nodes + _controllers(plan) for plan in plans), default=1)
    return auto_slots(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().available,
        nodes=nodes,
    )


def auto_slots(*, cores: int, memory_bytes: int, nodes: int) -> int:
    """Return how many runs fit: one a core, as far as memory lasts, and always one.

    A run's brokers are busy while they start and hardly afterwards, so that one a core leaves room
    for the judge; more would starve clients, and a run without traffic is unknown.

    Args:
        cores: That we may use.
        memory_bytes: That is free.
        nodes: Of the biggest cluster.
    """
    run_bytes = nodes * NODE_BYTES + CLIENTS_BYTES
    return max(1, min(cores, (memory_bytes - JUDGE_BYTES) // run_bytes))


def place_of(plan: Plan) -> str:
    """Return what a run has for itself: ssh hosts; empty if runs of its kind go side by side.

    Namespaces, containers and processes of two runs do not see each other: networks, names and
    ports are each run's own. Brokers on one ssh host would listen on the same port.
    """
    return plan.hosts if plan.hosts.startswith("ssh:") else ""


def _controllers(plan: Plan) -> int:
    return plan.controllers if plan.mode == "controllers" else 0
