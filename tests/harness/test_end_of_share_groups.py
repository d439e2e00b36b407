"""The end of a run with a share group: its last member comes after the final reads."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from rich.console import Console

from cluster.systems.system import Deployment
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.world import World
from results.record.clock import RunClock
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream
from results.record.topics import CreatedTopic
from workloads.protocol import Batch, Key, Reader

PLACE = ("log-0", 0)
TOPICS = [CreatedTopic(topic="log-0", topic_id="id-0", partitions=1)]


class TwoRecords:
    """A reader of a partition of two records."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        assert list(starts) == [PLACE]
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:  # noqa: ARG002 - the protocol's
        return Batch(
            spans=[(PLACE, 2)], offsets=np.arange(2), values=np.arange(2),
            leader_epochs=np.zeros(2, np.int32), ends={}, error=None,
        )  # fmt: skip

    def close(self) -> None:
        pass


class WorldOfReaders:
    def reader(self, plan: Plan, bootstrap: str) -> Callable[[int], Reader]:  # noqa: ARG002 - the protocol's
        return lambda _: cast("Reader", TwoRecords())


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """A cluster where no broker listens, but that says how far a group is."""

    live: Path
    lag: int = 0
    fails: bool = False
    final_reads: int = -1
    """How many rows there were of them when it was asked first."""

    def bootstrap(self) -> str:
        return "127.0.0.1:1"

    def leader_ends(
        self, places: Iterable[Key], *, committed: bool, timeout_s: float
    ) -> dict[Key, int]:
        assert committed
        assert timeout_s
        return dict.fromkeys(places, 2)

    def share_lags(self, group: str, places: Collection[Key]) -> dict[Key, int]:
        assert group == "shares-0"
        if self.final_reads < 0:
            self.final_reads = rows(self.live)
        if self.fails:
            raise OSError
        return dict.fromkeys(places, self.lag)


def rows(live: Path) -> int:
    return sum(each.num_rows for each in read_stream(live / "final_reads.final.arrows"))


def arena_in(folder: Path) -> Arena:
    paths = RunPaths(folder / "log" / "run")
    paths.live.mkdir(parents=True)
    return Arena(
        plan=Plan(workload="shares", topics=1, partitions=1), paths=paths,
        clock=RunClock.starting_now(), progress=Progress(Console(quiet=True), Snapshot),
        interrupts=Interrupts(), undo=ExitStack(), world=cast("World", WorldOfReaders()),
    )  # fmt: skip


def drained(arena: Arena) -> list[str]:
    """What is noted of the group's end."""
    stones = load_milestones(arena.paths.milestones)
    return [each.detail.get("failed", "") for each in stones if each.name == "drained"]


def test_the_group_comes_to_its_end_after_the_final_reads(tmp_path: Path) -> None:
    arena = arena_in(tmp_path)
    cluster = Coordinator(live=arena.paths.live)
    arena.read_all(cast("Deployment", cluster), TOPICS)
    assert cluster.final_reads == 1
    assert drained(arena) == [""]


def test_a_failure_there_costs_no_final_read(tmp_path: Path) -> None:
    arena = arena_in(tmp_path)
    cluster = Coordinator(live=arena.paths.live, fails=True)
    with pytest.raises(OSError):  # noqa: PT011 - the cluster's own
        arena.read_all(cast("Deployment", cluster), TOPICS)
    assert rows(arena.paths.live) == 1
    assert drained(arena) == []


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    arena = arena_in(tmp_path)
    arena.interrupts.abandon.set()
    arena.read_all(cast("Deployment", Coordinator(live=arena.paths.live, lag=1)), TOPICS)
    assert drained(arena) == [
        ("the group had not processed all records when the run was interrupted")
    ]
