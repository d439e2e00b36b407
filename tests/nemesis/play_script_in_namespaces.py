"""Runs inside a hub: scripted faults on real namespaces, with sleeping processes as brokers.

Prints what was seen in between, and what `heal_all` said, as JSON.
"""

import json
import sys
from pathlib import Path

from cluster.hosts.namespace import NamespaceHosts
from nemesis.scripted import ScriptedFaults
from results.record.clock import RunClock
from results.record.paths import RunPaths
from tests.nemesis.play_in_namespaces import Sleepers

MACHINES = ["n1", "n2", "n101", "zk"]


def main(folder: Path) -> None:
    """Cut a node off from ZooKeeper one way, pause and kill a controller."""
    paths = RunPaths(folder)
    hosts = NamespaceHosts(MACHINES, paths.processes)
    hosts.up()
    try:
        cluster = Sleepers(["n1", "n2", "n101"], hosts, folder)
        cluster.start()
        cluster.nodes, cluster.controllers = ["n1", "n2"], ["n101"]
        faults = ScriptedFaults(
            cluster=cluster,
            hosts=hosts,
            clock=RunClock.starting_now(),
            paths=paths,
            seed=0,
            machines=MACHINES,
        )
        faults.cut("late", [("zk", "n2"), ("n101", "n2")])
        heard = hosts.probe([("n2", "zk"), ("zk", "n2")])
        deaf = faults.deaf_to("n2")
        faults.pause("n101")
        states = [faults.state("n101")]
        faults.kill("n101")
        states.append(faults.state("n101"))
        report = faults.heal_all()
        states.append(faults.state("n101"))
        faults.close()
    finally:
        hosts.down()
    told = {
        "states": states,
        "deaf": deaf,
        "heard": {"-".join(link): arrived for link, arrived in heard.items()},
        "failed": report.failed,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
