"""One process may play several brokers: what hits one of them hits all, and the record says so."""

import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.protocol import ClusterView, Command, PartitionState, ProcessId
from nemesis.ledger import open_entries
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from results.record.clock import RunClock, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream

TOGETHER = {"n1": ("n1", "n2"), "n2": ("n1", "n2"), "n3": ("n3",)}
_IGNORES_NOTHING = "import time\nwhile True: time.sleep(60)\n"


class SharedCluster:
    """Three brokers in two processes of this machine; whose process runs is registered."""

    def __init__(self, hosts: ProcessHosts, folder: Path) -> None:
        self.nodes: Sequence[str] = ("n1", "n2", "n3")
        self.starts = 0
        self._hosts, self._folder = hosts, folder
        self._processes: dict[str, ProcessId] = {}

    def played_with(self, node: str) -> tuple[str, ...]:
        return TOGETHER[node]

    def start(self) -> None:
        for node in ("n1", "n3"):
            self.start_node(node)

    def start_node(self, node: str) -> ProcessId:
        self.starts += 1
        command = Command(
            argv=(sys.executable, "-c", _IGNORES_NOTHING),
            log=self._folder / f"{node}.log",
            cwd=self._folder,
        )
        process = self._hosts.spawn(node, command)
        self._processes |= dict.fromkeys(TOGETHER[node], process)
        return process

    def stop_node(self, node: str, timeout_s: float) -> bool:
        self._send(node, signal.SIGTERM)
        gone = {None, "Z", "X"}
        return wait_until(
            lambda: self._state(node) in gone, timeout_s=timeout_s, what=f"{node} to end"
        )

    def kill_node(self, node: str) -> None:
        self._send(node, signal.SIGKILL)

    def pause_node(self, node: str) -> None:
        self._send(node, signal.SIGSTOP)

    def resume_node(self, node: str) -> None:
        self._send(node, signal.SIGCONT)

    def process(self, node: str) -> ProcessId | None:
        return self._processes.get(node)

    def view(self) -> ClusterView | None:
        running = [node for node in self.nodes if self._state(node) in {"R", "S", "D"}]
        if not running:
            return None
        state = PartitionState(
            topic="log-0", partition=0, leader=running[0], leader_epoch=1,
            replicas=tuple(self.nodes), isr=tuple(running),
        )  # fmt: skip
        return ClusterView(
            asked=running[-1],
            registered=frozenset(running),
            controller=None,
            partitions={("log-0", 0): state},
        )

    def bootstrap(self) -> str:
        return "nowhere:9092"

    def _send(self, node: str, number: signal.Signals) -> None:
        self._hosts.send_signal(self._processes[node], number)

    def _state(self, node: str) -> str | None:
        return self._hosts.state_of(self._processes[node])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SharedCluster]:
    hosts = ProcessHosts(("n1", "n2", "n3"), tmp_path / "processes.jsonl")
    try:
        hosts.up()
        made = SharedCluster(hosts, tmp_path)
        made.start()
        yield made
    finally:
        hosts.down()


def _played(
    cluster: SharedCluster, tmp_path: Path, *faults: tuple[str, str]
) -> list[dict[str, Any]]:
    """Return the last row of each fault, of (kind, target) each, one after the other."""
    paths = RunPaths(tmp_path / "log" / "20261121T120000Z-0")
    paths.live.mkdir(parents=True)
    scheduled = [
        ScheduledFault(fault_id=at, at_s=0, kind=kind, target=target, hold_s=0.2)
        for at, (kind, target) in enumerate(faults, start=1)
    ]
    nemesis = Nemesis(
        plan=Plan(),
        schedule=Schedule(faults=tuple(scheduled), overlapping=False, spares_majority=False),
        cluster=cluster,
        hosts=cluster._hosts,
        clock=RunClock.starting_now(),
        paths=paths,
    )
    try:
        nemesis.run(threading.Event())
    finally:
        nemesis.close()
    assert open_entries(paths.ledger) == ()
    batches = read_stream(paths.live / "faults.nemesis.arrows")
    rows = [row for batch in batches for row in batch.to_pylist()]
    return list({row["fault_id"]: row for row in rows}.values())


@pytest.mark.parametrize("kind", ["kill", "stop", "pause"])
def test_a_fault_of_one_broker_hits_all_of_its_process(
    cluster: SharedCluster, tmp_path: Path, kind: str
) -> None:
    before = cluster.process("n1")
    other = cluster.process("n3")
    assert before is not None
    (row,) = _played(cluster, tmp_path, (kind, "n2"))
    assert row["targets"] == ["n1", "n2"]
    assert row["confirmed_ns"] < row["healed_ns"]
    hit = json.loads(row["effect"])["processes"]
    assert [(each["node"], each["pid"]) for each in hit] == [("n1", before.pid), ("n2", before.pid)]
    assert cluster.process("n3") == other
    # One start brings both back, and is not done twice.
    assert cluster.starts == (2 if kind == "pause" else 3)
    assert (cluster.process("n1") == before) is (kind == "pause")
    assert cluster.process("n1") == cluster.process("n2")
    if kind == "stop":
        assert json.loads(row["effect"])["graceful"] == ["n1", "n2"]


def test_a_broker_of_its_own_is_hit_alone_and_what_needs_brokers_apart_is_refused(
    cluster: SharedCluster, tmp_path: Path
) -> None:
    alone, rolled, shaken = _played(
        cluster, tmp_path, ("kill", "n3"), ("rolling-restart", "all"), ("isolate", "n3")
    )
    assert alone["targets"] == ["n3"]
    assert alone["confirmed_ns"] < alone["healed_ns"]
    why = "the brokers n1, n2 run in one process, so no fault can hit one of them alone"
    for row in (rolled, shaken):
        assert row["confirmed_ns"] is None
        assert json.loads(row["spec"])["without_effect"] == why
    assert cluster.starts == 3
