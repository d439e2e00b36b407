"""Simulated machines as hosts: what is done to them is asked for as on all others."""

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from uuid import UUID

from cluster.protocol import CLIENTS, ClusterError, Command, Disk, Link, ProcessId
from cluster.reference.broker.boot import boot
from cluster.reference.settings import Settings, parsed
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.files import MachineFiles, collect_disk
from cluster.reference.simulator.host import Booted, Host
from cluster.reference.simulator.network import CLIENT, MS
from cluster.reference.simulator.simulation import Simulation
from results.record.clock import pause_until, stopwatch_s

SETTINGS = "server.properties"
PROBES, PROBE_EVERY_S = 5, 0.1
"""So many datagrams of our own for each look: one may be as late as a packet that was lost."""
_INCARNATIONS = 1_000_000
"""Process ids of a machine: its node's number, and behind it which of its starts."""


@dataclass(slots=True, eq=False)
class _Machine:
    """One node's."""

    host: Host
    folder: Path
    random: Random
    settings: Settings = field(default_factory=Settings)
    codes: dict[int, int] = field(default_factory=dict)
    """Exit codes, or minus a signal, by incarnation."""
    files: MachineFiles = field(init=False)

    def __post_init__(self) -> None:
        self.files = MachineFiles(self.host)


class SimulatedMachines:
    """Implements `Hosts`, `HasFiles` and `CanPartition` by a simulation's machines.

    Args:
        simulation: Where they are.
        nodes: Their names.
        folder_of: Returns the folder of a node in the run, where its files are prepared.
    """

    kind = "simulated"

    def __init__(
        self, simulation: Simulation, nodes: Sequence[str], folder_of: Callable[[str], Path]
    ) -> None:
        self._simulation = simulation
        self._folder_of = folder_of
        self._nodes = tuple(nodes)
        self._machines: dict[str, _Machine] = {}
        self._cuts: dict[str, tuple[Link, ...]] = {}
        self._dropped_before: dict[str, dict[Link, int]] = {}

    def up(self) -> None:
        """Make the machines; each is off."""
        for node in self._nodes:
            number = int(node.removeprefix("n"))
            machine = _Machine(
                host=self._simulation.add(number, partial(self._boot, node)),
                folder=self._folder_of(node).absolute(),
                random=self._simulation.streams.of(f"{node}/ids"),
            )
            self._machines[node] = machine

    def host(self, node: str) -> Host:
        """Return a machine as the simulator has it."""
        return self._machines[node].host

    def address(self, node: str) -> str:
        """Return a node's name: machines are called by it."""
        return node

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a node on what its disk holds."""
        del command
        host = self.host(node)
        host.start()
        return ProcessId(
            pid=host.id * _INCARNATIONS + host.incarnation,
            start_ticks=self._simulation.now_ns // (10 * MS),
            machine=node,
        )

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Kill a process, ask it to end, have it stand still or go on; nobody heeds another one."""
        if self.state_of(process) is None:
            return False
        machine = self._machines[process.machine]
        running = machine.host.process
        assert running is not None, "it has a state"
        match number:
            case signal.SIGKILL:
                machine.codes[machine.host.incarnation] = -signal.SIGKILL
                machine.host.kill()
            case signal.SIGTERM:
                running.ask_to_stop()
            case signal.SIGSTOP:
                running.pause()
            case signal.SIGCONT:
                running.resume()
            case _:
                pass  # Nobody heeds it.
        return True

    def state_of(self, process: ProcessId) -> str | None:
        """Return S, T of one that stands still; None: it has ended."""
        host = self.host(process.machine)
        if host.process is None or process.pid % _INCARNATIONS != host.incarnation:
            return None
        return "T" if host.process.paused else "S"

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        """Return 0 of who ended by itself, else minus the signal; None: it has not ended."""
        if self.state_of(process) is not None:
            return None
        return self._machines[node].codes.get(process.pid % _INCARNATIONS, 0)

    def disk(self, node: str) -> Disk:
        """Return the files of a machine: `data` and `logs` in its node's folder."""
        return self._machines[node].files

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Put what was prepared in the node's folder on its machine."""
        del software
        machine = self._machines[node]
        machine.settings = parsed((machine.folder / SETTINGS).read_text(encoding="utf-8"))
        data = machine.folder / "data"
        for path in sorted(each for each in data.rglob("*") if each.is_file()):
            machine.host.disk.replace(path.relative_to(data).as_posix(), path.read_bytes())

    def fetch(self, node: str) -> None:
        """Write what the machine has into the node's folder; what is not on it any more, goes."""
        machine = self._machines[node]
        collect_disk(machine.host, machine.folder)

    def down(self) -> None:
        """End every process. Idempotent."""
        for machine in self._machines.values():
            machine.host.kill()

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Let nothing through; what is sent meanwhile comes as TCP sends it again."""
        self.join(cut_id)
        cut = tuple(dict.fromkeys(links))
        self._dropped_before[cut_id] = {link: self._dropped(link) for link in cut}
        self._cuts[cut_id] = cut
        self._simulation.network.cut([self._numbered(link) for link in cut])

    def join(self, cut_id: str) -> None:
        """Undo one cut, and no other. Idempotent."""
        links = self._cuts.pop(cut_id, ())
        if links:
            self._simulation.network.join([self._numbered(link) for link in links])

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return how often something did not get through each link of a cut."""
        before = self._dropped_before.get(cut_id, {})
        return {
            link: self._dropped(link) - before.get(link, 0) for link in self._cuts.get(cut_id, ())
        }

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send datagrams of our own over each link, which may be as late as any packet."""
        arrived: dict[Link, bool] = dict.fromkeys(links, False)
        for _ in range(PROBES):
            for link in arrived:
                self._simulation.network.probe(self._numbered(link), _noting(arrived, link))
            pause_until(stopwatch_s() + PROBE_EVERY_S)
        pause_until(stopwatch_s() + timeout_s)
        return dict(arrived)

    def _boot(self, node: str, disk: SimulatedDisk) -> Booted:
        machine = self._machines[node]
        incarnation = UUID(bytes=machine.random.randbytes(16), version=4)
        made = boot(machine.settings, disk, incarnation=incarnation)
        return Booted(machine=made.machine, storage=made.storage, said=made.said)

    def _dropped(self, link: Link) -> int:
        return self._simulation.network.dropped.get(self._numbered(link), 0)

    def _numbered(self, link: Link) -> tuple[int, int]:
        return self._number(link[0]), self._number(link[1])

    def _number(self, node: str) -> int:
        if node == CLIENTS:
            return CLIENT
        if node not in self._machines:
            raise ClusterError(f"there is no machine {node}")
        return self._machines[node].host.id


def _noting(arrived: dict[Link, bool], link: Link) -> Callable[[], None]:
    def note() -> None:
        arrived[link] = True

    return note
