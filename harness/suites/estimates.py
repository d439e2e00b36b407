"""Estimate how long a run will take, from similar runs or by default."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from harness.suites.choosing import JUDGING_S
from harness.suites.expansion import Entry
from results.index import Index
from results.index.reading import lasts_s
from results.record.atomic import StoreError
from results.record.plan import Plan

ALONE_S = 18.0
"""The time that a run takes in addition to its warm-up, main phase and judgement, if no other run
is in progress. The start takes 8 s, the end of clients and final reads 4 s, and the stop of brokers
6 s.

Measured 2026-11: three brokers of Kafka 4.3.1 in processes, 2 cores, 2 runs: 17 s and 18 s.
"""
SIDE_BY_SIDE_S = 33.0
"""Like `ALONE_S`, but for two runs that are in progress at once.

Measured 2026-11 on 2 cores, for 6 runs of log, txn and groups, each with three brokers of Kafka
4.3.1 in namespaces: 22 s to 36 s, median 33 s.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate of how long a run will take.

    Attributes:
        takes_s: The time from the start of the run to its verdict.
        source: A phrase that says where the estimate comes from.
        measured: Whether the estimate comes from runs in the store.
    """

    takes_s: float
    source: str
    measured: bool = False


def estimate(entry: Entry, plan: Plan, index: Index, *, suite: str, at_once: int) -> Estimate:
    """Estimate a run's duration from stored runs of its entry or its kind, or by default.

    Args:
        entry: The suite's entry.
        plan: The run's plan.
        index: The store's index, up to date.
        suite: The suite's name.
        at_once: How many runs are in progress at once.
    """
    for what, alike in _alike(entry, plan, suite).items():
        took = index.overheads_s(**alike)
        if took:
            runs = "1 run" if len(took) == 1 else f"median of {len(took)} runs"
            takes_s = max(0.0, lasts_s(plan) + median(took)) + JUDGING_S
            return Estimate(takes_s=takes_s, source=f"{runs} {what}", measured=True)
    overhead_s = ALONE_S if at_once == 1 else SIDE_BY_SIDE_S
    return Estimate(takes_s=lasts_s(plan) + overhead_s + JUDGING_S, source="default")


def _alike(entry: Entry, plan: Plan, suite: str) -> Mapping[str, Mapping[str, str]]:
    hosts = plan.hosts.partition(":")[0]
    kind = {
        "system": plan.system,
        "workload": plan.workload,
        "scenario": plan.scenario.name if plan.scenario else "",
        "hosts": "" if hosts == "auto" else hosts,
    }
    return {"of this entry": {"suite": suite, "entry": entry.name}, "of this kind": kind}


def refresh(index: Index) -> None:
    """Bring an index up to date. If the store cannot be read, the index stays as it is."""
    try:
        index.refresh()
    except StoreError:
        return
