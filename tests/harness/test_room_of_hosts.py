"""A run ends before a host's disk is full, and says which."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console

from cluster.hosts.ssh.hosts import SshHosts
from cluster.protocol import UserError
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.world import RealWorld
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan

HOSTS = "".join(f'[[hosts]]\naddress = "192.0.2.{number}"\n' for number in (1, 2))


class FarHosts(SshHosts):
    """Two that have told how much room they have."""

    left: Mapping[str, int]

    def room(self) -> Mapping[str, int]:
        """Return it."""
        return self.left


def test_a_disk_that_gets_full_on_a_host_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "HOSTS.toml").write_text(HOSTS)
    hosts = FarHosts(["n1", "n2"], tmp_path / "processes.jsonl", file=tmp_path / "HOSTS.toml")
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
    hosts.left = {"n1": 1 << 30, "n2": 1 << 30}
    arena.refuse_a_full_disk()
    hosts.left = {"n1": 1 << 30, "n2": 3 << 20}
    with pytest.raises(UserError, match=r"the disk of n2 is full \(3.1 MB left\); free some space"):
        arena.pass_s(30)
