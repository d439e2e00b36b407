"""The choice of hosts and what doctor says: tried on machines that can and that cannot."""

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hosts import examine as examine_module
from cluster.hosts.agent import LOOPBACK
from cluster.hosts.choose import HostKind, choose_hosts
from cluster.hosts.examine import examine
from cluster.hosts.process import free_ports
from cluster.protocol import UserError

CHOOSE = """
import json
from cluster.hosts.choose import choose_hosts
choice = choose_hosts("auto")
print(json.dumps([choice.kind, choice.why]))
"""


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="clouds is not one of auto, namespace, docker"):
        choose_hosts("clouds")


def test_process_hosts_are_chosen_when_asked_for() -> None:
    assert choose_hosts("process").kind == HostKind.PROCESS


def test_a_missing_program_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine_module, "search_path", lambda: str(tmp_path))
    with pytest.raises(
        UserError, match=r"command unshare does not work.*apt-get install util-linux"
    ):
        choose_hosts("namespace")
    choice = choose_hosts("auto")
    assert choice.kind == HostKind.PROCESS
    assert "apt-get install util-linux" in choice.why
    assert "cannot be cut" in choice.why
    with pytest.raises(UserError, match="or use --hosts process, without partitions"):
        choose_hosts("namespace")
    assert choose_hosts("auto", own_cuts=True).why.endswith("the nodes cut their own links")
    with pytest.raises(UserError, match="or use --hosts process, whose nodes cut their own"):
        choose_hosts("namespace", own_cuts=True)


@pytest.mark.namespaces
def test_namespaces_are_chosen_where_they_work() -> None:
    assert choose_hosts("auto").kind == HostKind.NAMESPACE


@pytest.mark.namespaces
def test_forbidden_user_namespaces_are_named_with_the_setting() -> None:
    # An ordinary user in a user namespace, below which this user has forbidden further ones.
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" -c "$1"'
    user = ["unshare", "--user", "--map-user=1000", "--keep-caps"]
    done = subprocess.run(
        [*user, "sh", "-ec", script, sys.executable, CHOOSE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kind, why = json.loads(done.stdout)
    assert kind == "process"
    assert "sysctl -w user.max_user_namespaces=10000" in why


def test_doctor_says_what_was_seen_or_what_to_do() -> None:
    findings = examine()
    assert {finding.what for finding in findings} >= {
        "user", "Docker", "shaping of links (TUN device)", "shifting of clocks (libfaketime)"
    }  # fmt: skip
    for finding in findings:
        assert finding.detail
        assert bool(finding.remedy) != finding.works, finding


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(socket.create_server((LOOPBACK, port)))


def test_no_connection_can_be_given_a_port_that_a_broker_will_want_back() -> None:
    listing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(listing.read_text().split()[0]) if listing.exists() else 32_768
    assert all(1024 <= port < first for _ in range(20) for port in free_ports(6))
