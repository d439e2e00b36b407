"""Runs inside a hub: faults of processes and of disks on real brokers, whose disks are their own.

Before each fault, while it is in force, and after its heal the nodes are looked at from outside, by
the shell's own tools in a node's namespace and by `/proc`: nothing of it is a fault's own. Prints
what was seen, what each fault said of itself, and which records could be read in the end, as JSON.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from cluster.hosts.node_disks import NamespaceDisks
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import fetch_kafka
from cluster.kafka.java import find_java
from nemesis.protocol import Aim, Patience, Site
from nemesis.registry import KINDS
from nemesis.replicas import wait_whole
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan
from workloads.scripted import Script

NODES = ["n1", "n2", "n3"]
LOG = "story-0/00000000000000000000.log"
LIMIT_S = 90.0
LATENT, NOTICED = 1, 2
"""Seeds: whose first draw lets a bit flip stop the broker in order, and kill it."""

Seen = dict[str, Any]


class Brokers:
    """Three real brokers with a topic of one partition, on disks of 64 MiB."""

    def __init__(self, folder: Path) -> None:
        self.paths = RunPaths(folder)
        self.plan = Plan(disk_mb=64)
        self.hosts = NamespaceDisks(NODES, self.paths.processes, disk_mb=64)
        self.hosts.up()
        self.cluster = KafkaCluster(
            self.plan,
            self.hosts,
            distribution=fetch_kafka(self.plan.kafka_version, progress=lambda _: None),
            java=find_java(),
            paths=self.paths,
        )
        self.cluster.start()
        self.site = Site(
            cluster=self.cluster,
            network=None,
            state_of=self.hosts.state_of,
            hosts=self.hosts,
            disk_of=self.hosts.disk,
        )
        (topic,) = self.cluster.create_topics(["story"], partitions=1, replication=3)
        clock, live = RunClock.starting_now(), self.paths.live
        self.script = Script(self.plan, topic, self.cluster.bootstrap(), clock=clock, live=live)

    def inside(self, node: str, script: str) -> str:
        """Run a script in a node's data folder, as the node sees it; what fails is told, too."""
        data = self.paths.node(node).absolute() / "data"
        agent = self.hosts.machine(node).process.pid
        words = ["nsenter", "--target", str(agent), "--mount", "--", "sh", "-c"]
        done = subprocess.run(
            [*words, f"cd {data} && {{ {script}; }} 2>&1"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    def brokers_of(self, node: str) -> list[int]:
        """Return the pids of all servers of a node, by the command lines in `/proc`."""
        settings = str(self.paths.node(node).absolute() / "server.properties").encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if settings in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def files(self, node: str) -> Seen:
        """Look at a node's replica, and at another's."""
        other = next(each for each in NODES if each != node)
        theirs = f"/proc/{self.hosts.machine(other).process.pid}/root"
        theirs += str(self.paths.node(other).absolute() / "data" / LOG)
        return {
            "brokers": self.brokers_of(node),
            "size": self.inside(node, f"stat -c %s {LOG}"),
            "folders": self.inside(node, "ls -A"),
            "differs": len(self.inside(node, f"cmp -l {LOG} {theirs}").splitlines()),
        }

    def disk(self, node: str) -> Seen:
        """Try a node's disk."""
        return {
            "brokers": self.brokers_of(node),
            "free": self.inside(node, "df --output=avail . | tail -1"),
            "write": self.inside(node, "dd if=/dev/zero of=probe bs=4096 count=1 status=none"),
            "gone": self.inside(node, "rm -f probe"),
        }

    def play(
        self, kind: str, nodes: Sequence[str], look: Callable[[str], Seen], *, seed: int = 0
    ) -> Seen:
        """Let a fault live, and look at its first node before, during and after."""
        node = nodes[0]
        self.script.send(40)
        wait_whole(self.site, Patience(limit_s=LIMIT_S))
        before = look(node)
        aim = Aim(fault_id=1, targets=tuple(nodes), rng=Random(seed))
        fault = KINDS[kind].make(aim, self.site)
        undo = fault.undo()
        fault.inject()
        effect = fault.confirm(Patience(limit_s=5))
        during = look(node)
        fault.heal()
        healed = fault.confirm_healed(Patience(limit_s=LIMIT_S))
        wait_whole(self.site, Patience(limit_s=LIMIT_S))
        return {
            "undo": [each.kind for each in undo],
            "before": before,
            "during": during,
            "after": look(node),
            "effect": asdict(effect) if effect else None,
            "healed": asdict(healed) if healed else None,
        }

    def close(self) -> None:
        """End everything, with the files brought back."""
        self.script.close()
        self.cluster.stop(20)
        for node in NODES:
            self.hosts.fetch(node)


def main(folder: Path) -> None:
    """Play each fault once."""
    brokers = Brokers(folder)
    try:
        seen: Seen = {
            "power-loss": brokers.play("power-loss", ["n1"], brokers.files),
            "latent": brokers.play("bit-flip", ["n2"], brokers.files, seed=LATENT),
            "noticed": brokers.play("bit-flip", ["n3"], brokers.files, seed=NOTICED),
            "wipe": brokers.play("wipe", ["n1"], brokers.files),
            "disk-full": brokers.play("disk-full", ["n2"], brokers.disk),
            "read-only": brokers.play("read-only", ["n3"], brokers.disk),
            "rolling": brokers.play("rolling-restart", ["n1", "n2"], brokers.files),
            "read": [record.name for record in brokers.script.read()],
            "said": (brokers.paths.node("n3") / "logs" / "server.log").read_text(),
        }
        brokers.close()
    finally:
        brokers.hosts.down()
    files = [brokers.paths.node(node) / "data" / LOG for node in NODES]
    seen["collected"] = [path.stat().st_size for path in files]
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
