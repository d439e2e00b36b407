"""Runs inside a hub: faults on real namespaces, with sleeping processes in place of brokers.

Prints the last rows of the `faults` table, and what `heal_all` said, as JSON.
"""

import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from cluster.hosts.namespace import NamespaceHosts
from cluster.hosts.signals import is_running, send_signal, state_of, wait_gone
from cluster.protocol import ClusterView, Command, Hosts, ProcessId
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream

KINDS = ("isolate", "halves", "one-way-in", "one-way-out", "kill", "stop", "pause")


class Sleepers:
    """A cluster of processes that sleep; one that runs is registered."""

    def __init__(self, nodes: Sequence[str], hosts: Hosts, folder: Path) -> None:
        self.nodes = nodes
        self.controllers: Sequence[str] = ()
        self._hosts = hosts
        self._folder = folder
        self._processes: dict[str, ProcessId] = {}

    def start(self) -> None:
        for node in self.nodes:
            self.start_node(node)

    def start_node(self, node: str) -> ProcessId:
        command = Command(argv=["sleep", "600"], log=self._folder / f"{node}.log", cwd=self._folder)
        self._processes[node] = self._hosts.spawn(node, command)
        return self._processes[node]

    def stop_node(self, node: str, timeout_s: float) -> bool:
        send_signal(self._processes[node], signal.SIGTERM)
        wait_gone([self._processes[node]], timeout_s=timeout_s)
        return True

    def kill_node(self, node: str) -> None:
        send_signal(self._processes[node], signal.SIGKILL)

    def pause_node(self, node: str) -> None:
        send_signal(self._processes[node], signal.SIGSTOP)

    def resume_node(self, node: str) -> None:
        send_signal(self._processes[node], signal.SIGCONT)

    def process(self, node: str) -> ProcessId | None:
        return self._processes.get(node)

    def view(self) -> ClusterView | None:
        up = [n for n in self._processes if self._awake(self._processes[n])]
        return ClusterView(asked=up[0], registered=frozenset(up), controller=up[0], partitions={})

    def bootstrap(self) -> str:
        return ""

    def _awake(self, process: ProcessId) -> bool:
        return is_running(process) and state_of(process) != "T"


def main(folder: Path) -> None:
    """Drive one fault of each kind."""
    paths = RunPaths(folder)
    nodes = ["n1", "n2", "n3"]
    hosts = NamespaceHosts(nodes, paths.processes)
    hosts.up()
    try:
        cluster = Sleepers(nodes, hosts, folder)
        cluster.start()
        faults = tuple(
            ScheduledFault(fault_id=number, at_s=0, kind=kind, target="n3", hold_s=0.1)
            for number, kind in enumerate(KINDS, start=1)
        )
        nemesis = Nemesis(
            plan=Plan(),
            schedule=Schedule(faults=faults, overlapping=False),
            cluster=cluster,
            hosts=hosts,
            clock=RunClock.starting_now(),
            paths=paths,
        )
        nemesis.run(threading.Event())
        report = nemesis.heal_all()
        nemesis.close()
    finally:
        hosts.down()
    batches = list(read_stream(paths.live / "faults.nemesis.arrows"))
    rows = [row for batch in batches for row in batch.to_pylist()]
    last = list({row["fault_id"]: row for row in rows}.values())
    sys.stdout.write(json.dumps({"rows": last, "done": report.done, "failed": report.failed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
