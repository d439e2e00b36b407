"""Ground truth of a simulated run: the faults as the simulator executed them.

`Deeds` watches the simulator's own methods: kill, stop, pause, power loss and link cuts. So it
knows which fault hit which node, from when to when, without the run's record. Only the time of the
request comes from the record, because the harness makes the request.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from checkers.causes import BEFELL
from checkers.columns import NEVER
from cluster.reference.simulator.host import Host
from cluster.reference.simulator.network import Link, Network
from cluster.reference.simulator.process import Process
from cluster.reference.simulator.simulation import Simulation
from tests.checkers.known_truth import Deed

_HITS = {"kill": "kill", "lose_power": "power-loss", "pause": "pause", "ask_to_stop": "stop"}
"""The kind of fault for each method of the simulator."""
_CUT_OFF = {(True, True): "isolate", (True, False): "one-way-in", (False, True): "one-way-out"}
"""The kind of network partition, by two facts about a node.

The first fact: the node cannot hear most other nodes. The second fact: most other nodes cannot hear
it.
"""
_DOWN = ("kill", "power-loss", "stop")
_ENDS = {"start": _DOWN, "resume": ("pause",)}


class Deeds:
    """Collects the faults that the simulator executes.

    Args:
        simulation: The simulation to watch.

    Attributes:
        done: The faults, in order of time.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.done: list[Deed] = []
        self._simulation = simulation
        self._cuts: Counter[Link] = Counter()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the faults on the simulation's machines and links while the block runs."""
        seams: dict[type, tuple[str, ...]] = {
            Host: ("kill", "lose_power", "start"),
            Process: ("pause", "resume", "ask_to_stop"),
            Network: ("cut", "join"),
        }
        with ExitStack() as stack:
            for owner, names in seams.items():
                for name in names:
                    seen = self._seen(name, getattr(owner, name))
                    stack.enter_context(patch.object(owner, name, seen))
            yield

    def _seen(self, name: str, does: Callable[..., object]) -> Callable[..., object]:
        def seen(on: Host | Process | Network, *args: Sequence[Link]) -> object:
            if isinstance(on, Network):
                self._linked(args[0], 1 if name == "cut" else -1)
            elif on.id >= 0 and (name in _ENDS or self._hits(name, on)):
                self._machine(name, f"n{on.id}")
            return does(on, *args)

        return seen

    def _hits(self, name: str, on: Host | Process) -> bool:
        """Return whether the call hits a process. A kill of an idle machine hits no process."""
        return name == "lose_power" or isinstance(on, Process) or on.process is not None

    def _machine(self, name: str, node: str) -> None:
        for kind in _ENDS.get(name, ()):
            self._ends(kind, node)
        ends_itself = name == "kill" and self._open("stop", node)
        if name in _HITS and not ends_itself:
            self._begins(_HITS[name], node)

    def _linked(self, links: Sequence[Link], more: int) -> None:
        for link in links:
            self._cuts[link] += more
        nodes = [number for number in self._simulation.hosts if number >= 0]
        for node in nodes:
            others = [each for each in nodes if each != node]
            deaf = sum(self._cuts[each, node] > 0 for each in others) * 2 > len(others)
            mute = sum(self._cuts[node, each] > 0 for each in others) * 2 > len(others)
            now = _CUT_OFF.get((deaf, mute))
            for kind in _CUT_OFF.values():
                if kind != now:
                    self._ends(kind, f"n{node}")
            if now and not self._open(now, f"n{node}"):
                self._begins(now, f"n{node}")

    def _open(self, kind: str, node: str) -> list[int]:
        return [
            at
            for at, each in enumerate(self.done)
            if (each.kind, each.ended_ns) == (kind, NEVER) and node in each.nodes
        ]

    def _begins(self, kind: str, node: str) -> None:
        now = self._simulation.now_ns
        self.done.append(Deed(kind=kind, nodes=frozenset({node}), asked_ns=now, begun_ns=now,
                              ended_ns=NEVER))  # fmt: skip

    def _ends(self, kind: str, node: str) -> None:
        for at in self._open(kind, node):
            self.done[at] = replace(self.done[at], ended_ns=self._simulation.now_ns)

    def asked(self, faults: Sequence[dict[str, Any]]) -> list[Deed]:
        """Return the faults, each with the time at which the harness requested it.

        Args:
            faults: Rows of the `faults` table of the run's record.
        """
        return [replace(each, asked_ns=_asked_ns(each, faults)) for each in self.done]


def _asked_ns(deed: Deed, faults: Sequence[dict[str, Any]]) -> int:
    times = [
        row["requested_ns"]
        for row in faults
        if BEFELL.get(row["kind"]) == BEFELL[deed.kind]
        and deed.nodes & {*(row["targets"] or ())}
        and row["requested_ns"] is not None
        and row["requested_ns"] <= deed.begun_ns
    ]
    return max(times, default=deed.begun_ns)
