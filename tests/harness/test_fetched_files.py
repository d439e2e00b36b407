"""The nodes' files are brought here from all hosts side by side."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from cluster.hosts.ssh.hosts import SshHosts
from cluster.protocol import ClusterError
from cluster.systems.system import Deployment
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.world import RealWorld
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan

NODES = ("n1", "n2", "n3", "n101")
LIMIT_S = 20.0


class FarHosts(SshHosts):
    """Each hands its files over when all others are asked for theirs."""

    together: threading.Barrier
    fetched: list[str]
    refuses: str = ""

    def fetch(self, node: str) -> None:
        """Wait for the others."""
        self.together.wait(LIMIT_S)
        if node == self.refuses:
            raise ClusterError(f"{node} does not answer")
        self.fetched.append(node)


class Cluster:
    """Three brokers, and a controller of its own."""

    nodes: Sequence[str] = NODES[:3]
    controllers: Sequence[str] = NODES[3:]


@pytest.fixture(name="arena")
def make_arena(tmp_path: Path) -> Arena:
    file = tmp_path / "HOSTS.toml"
    file.write_text("".join(f'[[hosts]]\naddress = "192.0.2.{each}"\n' for each in range(1, 5)))
    hosts = FarHosts([*NODES], tmp_path / "processes.jsonl", file=file)
    hosts.together, hosts.fetched = threading.Barrier(len(NODES)), []
    arena = Arena(
        plan=Plan(),
        paths=RunPaths(tmp_path),
        clock=RunClock.starting_now(),
        progress=Progress(Console(quiet=True), Snapshot),
        interrupts=Interrupts(),
        undo=ExitStack(),
        world=RealWorld(),
    )
    arena.hosts = hosts
    return arena


def test_no_host_waits_for_the_files_of_another(arena: Arena) -> None:
    arena._fetch(cast("Deployment", Cluster()))
    assert sorted(cast("FarHosts", arena.hosts).fetched) == sorted(NODES)


def test_a_host_that_is_gone_costs_the_files_of_no_other(arena: Arena) -> None:
    hosts = cast("FarHosts", arena.hosts)
    hosts.refuses = "n1"
    with pytest.raises(ClusterError, match="n1 does not answer"):
        arena._fetch(cast("Deployment", Cluster()))
    assert sorted(hosts.fetched) == sorted(NODES[1:])
