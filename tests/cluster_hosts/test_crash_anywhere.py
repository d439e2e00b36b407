"""kill -9 at any moment: after `logquake heal` nothing of the run is left, on any kind of hosts.

All fifty moments are `python -m benchmarks.crashes --times 50`; these are a sample of them.
"""

from pathlib import Path
from random import Random

import pytest

from cluster.hosts.abilities import abilities_of
from cluster.protocol import Ability
from results.record.plan import Plan
from tests.cluster_hosts.crashes import crash
from tests.machine import needs, tun_opens
from tests.ssh_lab import Lab

pytestmark = pytest.mark.everything

SEED = 20261121


@pytest.mark.parametrize("number", range(2))
def test_of_processes_nothing_is_left(number: int, tmp_path: Path) -> None:
    killed = crash(Plan(hosts="process"), tmp_path, Random(f"{SEED}/process/{number}"))
    assert killed.left == (), killed


@pytest.mark.namespaces
@pytest.mark.parametrize(
    "number",
    [0, pytest.param(1, marks=pytest.mark.night), pytest.param(2, marks=pytest.mark.night)],
)
def test_of_namespaces_nothing_is_left(number: int, tmp_path: Path) -> None:
    rng = Random(f"{SEED}/namespace/{number}")
    plan = Plan(hosts="namespace", disk_mb=64 if number % 2 else None)
    killed = crash(plan, tmp_path, rng)
    assert killed.left == (), killed


@pytest.mark.namespaces
def test_of_links_that_stall_nothing_is_left(tmp_path: Path) -> None:
    if abilities_of("namespace")[Ability.SHAPE]:
        assert not tun_opens()
        return
    rng = Random(f"{SEED}/stall")
    killed = crash(Plan(hosts="namespace"), tmp_path, rng, part="session", fault="stall")
    assert killed.deed == "heal stall", killed
    assert killed.left == (), killed


@pytest.mark.namespaces
def test_of_blocked_connections_nothing_is_left(tmp_path: Path) -> None:
    rng = Random(f"{SEED}/block")
    killed = crash(Plan(hosts="namespace"), tmp_path, rng, part="session", fault="block")
    assert killed.deed == "heal block", killed
    assert killed.left == (), killed


@pytest.mark.namespaces
@pytest.mark.parametrize("part", ["stage", "agent", "frozen"])
def test_whichever_part_is_killed_nothing_is_left(part: str, tmp_path: Path) -> None:
    killed = crash(Plan(hosts="namespace"), tmp_path, Random(f"{SEED}/{part}"), part=part)
    assert killed.left == (), killed
    if part == "frozen":
        assert killed.healed.done, "what stands still cannot end by itself"


@pytest.mark.namespaces
@needs("fuse")
@pytest.mark.parametrize(
    "part", ["session", "agent", pytest.param("frozen", marks=pytest.mark.night)]
)
def test_of_file_systems_below_the_data_nothing_is_left(part: str, tmp_path: Path) -> None:
    """Nor of one whose disk below is full, and of brokers that wait for it."""
    hosts, disk_mb = ("process", None) if part == "session" else ("namespace", 64)
    plan = Plan(hosts=hosts, disk_mb=disk_mb, nemesis=("disk-errors", "slow-disks"))
    killed = crash(plan, tmp_path, Random(f"{SEED}/disks/{part}"), part=part)
    assert killed.left == (), killed


@pytest.mark.docker
@pytest.mark.parametrize("part", ["session", pytest.param("frozen", marks=pytest.mark.night)])
def test_of_containers_nothing_is_left(part: str, java: str, tmp_path: Path) -> None:
    plan = Plan(hosts="docker", image=java)
    # While hosts are made or taken down there may be nothing to remove.
    killed = crash(plan, tmp_path, Random(f"{SEED}/docker/{part}"), part=part, fault="cut")
    assert killed.deed == "heal cut", killed
    assert killed.left == (), killed
    assert "removed the container" in str(killed.healed.done), "what has ended is still there"


@pytest.mark.ssh
@pytest.mark.parametrize(
    ("part", "fault"),
    [
        pytest.param("session", "cut", marks=pytest.mark.night),
        ("session", "block"),
        ("warden", "cut"),
    ],
)
def test_of_ssh_hosts_nothing_is_left(part: str, fault: str, lab: Lab, tmp_path: Path) -> None:
    plan = Plan(hosts=f"ssh:{lab.hosts_file()}")
    # While hosts are made or taken down there may be no table to delete.
    killed = crash(plan, tmp_path, Random(f"{SEED}/ssh/{part}"), part=part, fault=fault)
    assert killed.deed == f"heal {fault}", killed
    assert killed.left == (), killed
    assert "deleted the nft table" in str(killed.healed.done), "the lease would last longer"
