"""The audit sees what is on hosts elsewhere: containers, and machines that are reached by ssh."""

from pathlib import Path

import pytest

from cluster.hosts.audit import mount_points
from cluster.hosts.choose import make_hosts
from harness import audit as audit_module
from harness.audit import audit
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.ssh_lab import Lab

pytestmark = pytest.mark.everything


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "SETTLE_LIMIT_S", 0.1)


def changes_around(plan: Plan, folder: Path) -> tuple[str, dict[str, str]]:
    """Return what differs while hosts are up, and after they went down."""
    paths = RunPaths(folder)
    before = audit(plan, paths)
    assert before.changes() == {}, before
    hosts = make_hosts(plan.hosts, machines(plan), paths.processes, image=plan.image)
    hosts.up()
    try:
        during = before.changes()
    finally:
        hosts.down()
    return str(during), before.changes()


def test_a_mount_is_found_whatever_its_folder_is_called() -> None:
    info = "36 35 0:31 / /srv/h\u00e4user\\040und\\011mehr rw - tmpfs tmpfs rw\n".encode()
    assert mount_points(info) == ["/srv/h\u00e4user und\tmehr"]


@pytest.mark.docker
def test_containers_and_networks_are_seen(java: str, tmp_path: Path) -> None:
    plan = Plan(hosts="docker", image=java, nodes=1, replication=1, min_insync=1)
    during, after = changes_around(plan, tmp_path)
    assert "container logquake-" in during
    assert "network logquake-" in during
    assert after == {}


@pytest.mark.ssh
def test_processes_tables_and_folders_on_ssh_hosts_are_seen(lab: Lab, tmp_path: Path) -> None:
    plan = Plan(hosts=f"ssh:{lab.hosts_file()}", nodes=2, replication=2)
    during, after = changes_around(plan, tmp_path)
    for node in ("n1", "n2"):
        assert f"{node}: process " in during
        assert f"{node}: nft table logquake_" in during
        assert f"{node}: folder " in during
    assert after == {}
