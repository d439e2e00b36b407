"""Slow disks, drifting clocks and disputed elections, seen by witnesses that are none of theirs."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.playing import play_here
from checkers.run import judge_runs
from cluster.files.quorum_log import quorum_votes
from cluster.hosts.abilities import built_for
from cluster.reference.simulator.process import Process
from cluster.reference.simulator.simulation import Simulation
from nemesis.overlaps import LONG, QUICK, deal_overlapping
from nemesis.registry import KINDS
from nemesis.schedule import played_families
from nemesis.scheduled import MIN_HOLD_S
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.terms import Validity

S = 1_000_000_000
FAULTS = [
    {"kind": "clock-drift", "target": "n2", "at_s": 1, "hold_s": 3},
    {"kind": "slow-disk", "target": "n1", "at_s": 1, "hold_s": 5},
    {"kind": "disputed-election", "target": "all", "at_s": 8, "hold_s": 4},
]


@dataclass
class Witness:
    """What a node's processes show after each event: their own clock, and how long they write."""

    clock: list[tuple[int, int]] = field(default_factory=list)
    wrote: list[tuple[int, int]] = field(default_factory=list)
    since: int | None = None

    def look(self, process: Process) -> None:
        now = process.host.agenda.now
        self.clock.append((now, process.host.clock.read(now)))
        if self.since is not None:
            self.wrote.append((self.since, now - self.since))
        self.since = now if process.writing else None

    def rate(self, start: int, end: int) -> float:
        """Return how quick the clock was between two moments."""
        seen = [each for each in self.clock if start <= each[0] <= end]
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])

    def longest_s(self, start: int, end: int) -> float:
        """Return the longest that an event waited for the disk."""
        return max((took for at, took in self.wrote if start <= at <= end), default=0) / S


@dataclass
class Told:
    """A run, and what its witnesses saw."""

    paths: RunPaths
    rows: dict[str, dict[str, Any]]
    seen: dict[int, Witness]


def plan_of(**settings: object) -> Plan:
    return plan_from({
        "system": "reference", "hosts": "simulated", "seed": 4, "rate": 40, "concurrency": 4,
        "topics": 1, "partitions": 1, "warmup_s": 1, "time_limit_s": 14,
        "minimums": {"ok_sends": 10, "ok_polls": 0, "around_faults": 0}, **settings,
    })  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    seen: dict[int, Witness] = defaultdict(Witness)

    def before(simulation: Simulation) -> None:
        simulation.watch = lambda process: seen[process.id].look(process)

    paths = play_here(plan_of(faults=FAULTS), tmp_path_factory.mktemp("slow"), before=before).paths
    verdict = judge_runs([paths.root], engine="local")[0]
    assert verdict.valid is Validity.VALID, verdict.unknown_because
    rows = {row["kind"]: row for row in pq.read_table(paths.table("faults")).to_pylist()}
    return Told(paths=paths, rows=rows, seen=seen)


def test_a_drifting_clock_is_as_quick_as_its_fault_says(told: Told) -> None:
    row = told.rows["clock-drift"]
    rate = json.loads(row["effect"])["rate"]
    witness = told.seen[2]
    assert rate != 1
    assert witness.rate(row["confirmed_ns"], row["healed_ns"] - S) == pytest.approx(rate, rel=1e-3)
    assert witness.rate(row["healed_ns"], row["healed_ns"] + S) == pytest.approx(1, rel=1e-3)
    assert told.seen[3].rate(row["confirmed_ns"], row["healed_ns"]) == pytest.approx(1, rel=1e-3)


def test_a_slow_disk_holds_up_its_broker(told: Told) -> None:
    row = told.rows["slow-disk"]
    before_s, during_s = json.loads(row["effect"])["flushes_s"]["n1"]
    assert during_s > 10 * before_s
    witness = told.seen[1]
    usual_s = witness.longest_s(0, row["requested_ns"])
    assert witness.longest_s(row["confirmed_ns"], row["healed_ns"]) > 5 * usual_s > 0


def test_a_voter_is_struck_after_the_vote_that_its_log_tells_of(told: Told) -> None:
    struck = json.loads(told.rows["disputed-election"]["effect"])["struck"]
    assert struck
    for each in struck:
        log = (told.paths.node(each["node"]) / "logs" / "server.log").read_text().splitlines()
        votes = {(vote.epoch, f"n{vote.voted_for}") for vote in quorum_votes(log)}
        assert (each["epoch"], each["voted_for"]) in votes
    after = json.loads(told.rows["disputed-election"]["heal_effect"])
    pids = {each["node"]: each["pid"] for each in after["processes"]}
    assert all(pids[each["node"]] != after["pid_before"][each["node"]] for each in struck)


def test_overlapping_faults_are_of_every_kind_and_over_in_time() -> None:
    plan = plan_of(time_limit_s=900, nemesis="all")
    families = played_families(plan, abilities=built_for(plan.hosts))
    faults = deal_overlapping(plan, families)
    assert faults == deal_overlapping(plan, families)
    assert {fault.kind for fault in faults} == {
        name for all_of in families.values() for name in all_of
    }
    assert all(fault.at_s + fault.hold_s < plan.time_limit_s for fault in faults)
    long = [fault for fault in faults if fault.lane == LONG]
    quick = [fault for fault in faults if fault.lane == QUICK]
    assert min(fault.hold_s for fault in long) >= MIN_HOLD_S > max(f.hold_s for f in quick)
    assert not [fault for fault in quick if KINDS[fault.kind].when_whole]
    assert any(
        one.at_s < other.at_s + other.hold_s and other.at_s < one.at_s + one.hold_s
        for one in long
        for other in quick
    )
