"""Runs inside a hub: faults of links on real namespaces, and what sockets of our own see of them.

For each kind: before, while it is in force, and after its heal, a program on n1 and one in the hub
send numbered datagrams to programs on other nodes that echo them. Prints JSON: by kind the effects,
and what was seen from outside, `{moment: {"n1-n2": {...}}}`.
"""

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from cluster.hosts.choose import make_hosts
from cluster.hosts.docker.hosts import DockerHosts
from cluster.hosts.namespace import NamespaceHosts
from cluster.protocol import CLIENTS, Command
from nemesis.effects import effect_to_json
from nemesis.network import Network
from nemesis.protocol import Aim, Fault, Patience, Site
from nemesis.registry import KINDS
from results.record.clock import pause_until, stopwatch_s, wait_until
from tests.nemesis.in_a_hub import Sleepers

NODES = ("n1", "n2", "n3")
PORT = 9100
ECHO = f"""
import socket
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("", {PORT}))
open("NODE.ready", "w").close()
while True:
    data, sender = echo.recvfrom(4096)
    echo.sendto(data, sender)
"""
ASK = f"""
import json, select, socket, sys, time
addresses, count, size = sys.argv[3:], int(sys.argv[1]), int(sys.argv[2])
ask = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ask.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
seen, sent = {{each: [] for each in addresses}}, {{}}

def hear(until):
    while (left := until - time.monotonic()) > 0:
        if len(sent) == count * len(addresses) == sum(map(len, seen.values())):
            left = 0.05  # All are back; copies may follow.
            until = min(until, time.monotonic() + left)
        if select.select([ask], [], [], left)[0]:
            data, sender = ask.recvfrom(4096)
            seen[sender[0]].append((int(data[:6]), time.monotonic()))

start = time.monotonic()
for number in range(count):
    for address in addresses:
        sent[address, number] = time.monotonic()
        ask.sendto(b"%06d" % number + bytes(size - 6), (address, {PORT}))
    hear(start + number * 0.003)
hear(time.monotonic() + 0.9)
told = {{}}
for address, answers in seen.items():
    first = dict(reversed(answers))
    order = list(dict.fromkeys(number for number, _ in answers))
    trips = sorted((at - sent[address, number]) * 1000 for number, at in first.items())
    last = answers[-1][1] - answers[0][1] if answers else 0
    told[address] = {{
        "answered": len(order),
        "copies": len(answers) - len(order),
        "overtaken": sum(number < max(order[: at + 1]) for at, number in enumerate(order)),
        "trips": trips,
        "kbit": len(answers) * size * 8 / 1000 / last if last else 0,
    }}
print(json.dumps(told))
"""
COUNT, SIZE = 150, 1200


class Hub:
    """Hosts with a program on each node that echoes datagrams."""

    def __init__(self, folder: Path, where: str, image: str) -> None:
        self.folder = folder
        hosts = make_hosts(where, NODES, folder / "processes.jsonl", image=image)
        assert isinstance(hosts, NamespaceHosts | DockerHosts)
        self.hosts = hosts
        self.hosts.up()
        self.cluster = Sleepers(NODES, self.hosts, folder)
        self.network = Network(self.hosts)
        for node in NODES:
            source = ECHO.replace("NODE", node)
            argv = [sys.executable, "-I", "-S", "-c", source]
            # By the agent: a container has no Python.
            echo = Command(argv=argv, log=folder / f"{node}.log", cwd=folder)
            self.hosts.machine(node).spawn(node, echo)
        for node in NODES:
            wait_until((folder / f"{node}.ready").exists, timeout_s=20, what="an echo")

    def site(self) -> Site:
        """Return what faults work upon."""
        return Site(
            cluster=self.cluster,
            network=self.network,
            state_of=self.hosts.state_of,
            hosts=self.hosts,
        )

    def fault(self, kind: str, number: int, *targets: str) -> Fault:
        """Make a fault."""
        aim = Aim(fault_id=number, targets=targets, rng=Random(f"{kind}/{number}"))
        return KINDS[kind].make(aim, self.site())

    def seen(self) -> Mapping[str, Any]:
        """Return what n1 sees of n2 and n3, n2 of n3, and the hub of n1 and n2."""
        asking = (("n1", ("n2", "n3")), ("n2", ("n3",)), (CLIENTS, ("n1", "n2")))
        with ThreadPoolExecutor() as pool:
            told = pool.map(lambda each: self._seen_by(*each), asking)
            return {link: seen for each in told for link, seen in each.items()}

    def _seen_by(self, asker: str, asked: Sequence[str]) -> Mapping[str, Any]:
        names = {self.hosts.address(node): node for node in asked}
        argv = [sys.executable, "-I", "-S", "-c", ASK, str(COUNT), str(SIZE), *names]
        told = json.loads(self.hosts.machine(asker).run(argv))
        return {f"{asker}-{names[address]}": each for address, each in told.items()}

    def routes(self) -> str:
        """Return every node's routes, devices and rules, as the kernel tells them."""
        script = "ip -brief link | cut -d' ' -f1; ip route; ip rule; nft list ruleset"
        # This machine itself, beside containers, has rules of Docker with counters.
        asked = NODES if isinstance(self.hosts, DockerHosts) else (*NODES, CLIENTS)
        return "".join(self.hosts.machine(each).run(["sh", "-ec", script]) for each in asked)


def played(hub: Hub, number: int, kind: str) -> dict[str, Any]:
    """Return the story of one fault on n2."""
    fault = hub.fault(kind, number, "n2")
    clean = hub.routes()
    fault.inject()
    effect = fault.confirm(Patience(limit_s=15))
    assert effect is not None, kind
    during = hub.seen() if kind != "flapping" else watched(hub)
    fault.heal()
    healed = fault.confirm_healed(Patience(limit_s=15))
    assert healed is not None, kind
    return {
        "undo": [asdict(each) for each in fault.undo()],
        "effect": json.loads(effect_to_json(effect)),
        "healed": json.loads(effect_to_json(healed)),
        "during": during,
        "after": hub.seen(),
        "clean": hub.routes() == clean,
    }


def watched(hub: Hub) -> list[int]:
    """Return how many of a few datagrams n2 answered n1, again and again: until all came twice."""
    argv = [sys.executable, "-I", "-S", "-c", ASK.replace("+ 0.9", "+ 0.1"), "5", "100"]
    answered: list[int] = []
    end_s = stopwatch_s() + 15
    while stopwatch_s() < end_s and _turns(answered) < 3:
        told = json.loads(hub.hosts.machine("n1").run([*argv, hub.hosts.address("n2")]))
        answered += [each["answered"] for each in told.values()]
        pause_until(stopwatch_s() + 0.05)
    return answered


def _turns(answered: list[int]) -> int:
    """Return how often the links went from dead to alive, or back."""
    return sum(bool(a) != bool(b) for a, b in itertools.pairwise(answered))


def main(folder: Path, where: str, image: str, *kinds: str) -> None:
    """Play one fault of each kind."""
    folder.mkdir()
    hub = Hub(folder, where, image)
    try:
        told: dict[str, Any] = {"before": hub.seen()}
        for number, kind in enumerate(kinds, start=1):
            told[kind] = played(hub, number, kind)
    finally:
        hub.hosts.down()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
