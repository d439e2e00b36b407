"""Faults of disks on disks that took nothing before: what was so already is no effect."""

from dataclasses import replace
from random import Random
from threading import Event

import pytest

from nemesis.disk_full import DiskFull
from nemesis.protocol import Aim, FaultMaker, Patience
from nemesis.read_only import ReadOnly
from tests.nemesis.conftest import FakeNetwork, World


class FakeDisks(FakeNetwork):
    """Hosts whose disks are full, or locked, or both; `try_disk` tells."""

    def __init__(self) -> None:
        super().__init__()
        self.full: set[str] = set()
        self.locked: set[str] = set()

    def fill_disk(self, node: str) -> int:
        self.full.add(node)
        return 4096

    def empty_disk(self, node: str) -> None:
        self.full.discard(node)

    def lock_disk(self, node: str) -> None:
        self.locked.add(node)

    def unlock_disk(self, node: str) -> None:
        self.locked.discard(node)

    def try_disk(self, node: str) -> str:
        return "EROFS" if node in self.locked else "ENOSPC" if node in self.full else ""


@pytest.mark.parametrize("make", [DiskFull, ReadOnly])
@pytest.mark.parametrize("before", ["", "full", "locked"])
def test_a_disk_that_took_nothing_before_proves_nothing(
    world: World, make: FaultMaker, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = FakeDisks()
    cluster = world.cluster
    hosts.full |= {"n1"} if before == "full" else set()
    hosts.locked |= {"n1"} if before == "locked" else set()
    start = cluster.start_node

    def ends_on_a_bad_disk(node: str) -> object:
        process = start(node)
        if hosts.try_disk(node):
            cluster.kill_node(node)
        return process

    monkeypatch.setattr(cluster, "start_node", ends_on_a_bad_disk)
    site = replace(world.site(), hosts=hosts)
    fault = make(Aim(fault_id=1, targets=("n1",), rng=Random(0)), site)
    fault.inject()
    assert (fault.confirm(Patience(limit_s=0.2)) is not None) is (before == "")


def test_a_disk_stays_full_while_its_broker_frees_space(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = FakeDisks()
    fault = DiskFull(
        Aim(fault_id=1, targets=("n1",), rng=Random(0)), replace(world.site(), hosts=hosts)
    )
    fault.inject()
    hosts.full.clear()  # The broker has removed a file.
    monkeypatch.setattr("nemesis.disk_full.REFILL_S", 0.05)
    effect = fault.confirm(Patience(limit_s=0.3))
    assert effect is not None
    assert effect.errors == {"n1": ("", "ENOSPC")}
    assert not effect.ended


def test_nothing_is_filled_again_after_a_stop(world: World) -> None:
    hosts, stop = FakeDisks(), Event()
    fault = DiskFull(
        Aim(fault_id=1, targets=("n1",), rng=Random(0)), replace(world.site(), hosts=hosts)
    )
    fault.inject()
    hosts.full.clear()
    stop.set()
    assert fault.confirm(Patience(limit_s=5.0, stop=stop)) is None
