"""Cuts on machines that do not always answer: a heal that failed is done when it is tried again."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from cluster.hosts.docker.hosts import DockerHosts
from cluster.hosts.linked import LinkedHosts
from cluster.hosts.namespace import NamespaceHosts
from cluster.protocol import CLIENTS, ClusterError, Connection

NODES = ("n1", "n2", "n3")


def containers(folder: Path) -> LinkedHosts:
    return DockerHosts(NODES, folder / "processes.jsonl", image="none")


def namespaces(folder: Path) -> LinkedHosts:
    return NamespaceHosts(NODES, folder / "processes.jsonl")


class Machines:
    """What nft is told on each machine, as far as it answers."""

    def __init__(self, hosts: LinkedHosts, monkeypatch: pytest.MonkeyPatch) -> None:
        self.silent: set[str] = set()
        self.joined: list[str] = []
        monkeypatch.setattr(hosts, "run_nft", self._run)
        monkeypatch.setattr(hosts, "address", lambda node: f"10.0.0.{len(node)}")

    def _run(self, node: str, script: str) -> None:
        if "delete chain" in script:
            if node in self.silent:
                raise ClusterError(f"the agent of {node} does not answer")
            self.joined.append(node)


@pytest.mark.parametrize("make", [containers, namespaces])
def test_who_did_not_answer_is_joined_at_the_next_attempt_and_the_others_at_the_first(
    make: Callable[[Path], LinkedHosts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = make(tmp_path)
    machines = Machines(hosts, monkeypatch)
    hosts.cut("cut", [("n3", "n1"), ("n1", "n3"), ("n2", CLIENTS)])
    machines.silent = {"n1"}
    for _ in range(2):
        with pytest.raises(ClusterError, match="n1 does not answer"):
            hosts.join("cut")
        assert len(set(machines.joined)) == 2, "n3, and the end of the link to the clients"
    machines.silent = set()
    hosts.join("cut")
    assert "n1" in machines.joined
    machines.joined.clear()
    hosts.join("cut")
    assert machines.joined == []


@pytest.mark.parametrize("make", [containers, namespaces])
def test_a_block_is_undone_wherever_nodes_answer_and_later_on_the_others(
    make: Callable[[Path], LinkedHosts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = make(tmp_path)
    machines = Machines(hosts, monkeypatch)
    for client in ("n1", "n2"):
        to_n3 = Connection(client=client, client_port=40_000, server="n3", server_port=9092)
        hosts.block("block", [to_n3])
    machines.silent = {"n1"}
    with pytest.raises(ClusterError, match="n1 does not answer"):
        hosts.unblock("block")
    assert machines.joined == ["n2", "n3"]
    assert hosts.block_ids() == ["block"]
    machines.silent = set()
    hosts.unblock("block")
    assert "n1" in machines.joined
    assert hosts.block_ids() == []


def test_a_block_that_is_extended_while_it_is_undone_stays_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = namespaces(tmp_path)
    rules: set[str] = set()
    first, second = (
        Connection(client=client, client_port=40_000, server="n3", server_port=9092)
        for client in ("n1", "n2")
    )

    with ThreadPoolExecutor(1) as pool:

        def run_nft(node: str, script: str) -> None:
            if "delete chain" not in script:
                rules.add(node)
                return
            rules.discard(node)
            if node == "n1":  # The first that is asked: meanwhile n2 gets rules, and n3 others.
                extending.append(pool.submit(hosts.block, "block", [second]))
                wait([extending[0]], timeout=0.2)

        extending: list[Future[None]] = []
        monkeypatch.setattr(hosts, "run_nft", run_nft)
        monkeypatch.setattr(hosts, "address", lambda node: f"10.0.0.{node[1:]}")
        hosts.block("block", [first])
        hosts.unblock("block")
        extending[0].result(timeout=10)
        assert rules == {"n2", "n3"}
        assert hosts.block_ids() == ["block"]
        extending.clear()
        hosts.unblock("block")
    assert rules == set()
    assert hosts.block_ids() == []
