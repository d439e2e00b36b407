"""Simulated machines as the hosts of a run, with the same interface as all other hosts."""

import errno
import itertools
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from random import Random
from uuid import UUID

from cluster.protocol import (
    CLIENTS,
    MOST_FLOWS,
    ClusterError,
    Command,
    Connection,
    Disk,
    Ends,
    Link,
    Measured,
    Opening,
    PowerCut,
    ProcessId,
    Quality,
    ShapeEnd,
    Socket,
)
from cluster.reference.broker.boot import boot
from cluster.reference.settings import Settings, parsed
from cluster.reference.simulator.badness import MS, Badness
from cluster.reference.simulator.clock import PPM
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.files import MachineFiles
from cluster.reference.simulator.host import Booted, Host
from cluster.reference.simulator.network import CLIENT
from cluster.reference.simulator.network import Connection as SimulatedConnection
from cluster.reference.simulator.series import SentVolley, Series, Spacing, measure
from cluster.reference.simulator.simulation import Simulation
from results.record.clock import NS_PER_S, pause_until, stopwatch_s
from results.record.runtime import new_event

SETTINGS = "server.properties"
PROBES = 5
"""The number of datagrams for each probe. Several datagrams are sent, because one may be lost."""
PORT = 9092
"""The port number that means every listening port."""
DISK_BYTES = 1 << 40
"""Size in bytes of a machine's disk if none is given."""
PAGE, PAGE_BYTES = "logquake-probe", 4096
"""The name and size of the probe file. It is removed at the virtual time of its creation."""
_INCARNATIONS = 1_000_000
"""A process id is the node's number times this factor, plus the number of the start."""


@dataclass(slots=True, eq=False)
class _Machine:
    """The simulated machine of one node."""

    host: Host
    files: MachineFiles
    folder: Path
    random: Random
    flushes: Random
    settings: Settings = field(default_factory=Settings)
    codes: dict[int, int] = field(default_factory=dict)
    """The exit code of each start, or the negated number of the signal, by the start's number."""
    usual_flush_ns: int | None = None
    """For a slowed disk: the duration of a flush before the fault, in nanoseconds."""


class SimulatedMachines:
    """Simulated machines as hosts: implements `Hosts`, `HasFiles` and all abilities of hosts.

    Args:
        simulation: The simulation.
        nodes: The names of the nodes.
        folder_of: Returns a node's folder in the run, where its files are prepared.
        disk_mb: The size of each disk in MiB; None: practically unlimited.
    """

    kind = "simulated"

    def __init__(
        self,
        simulation: Simulation,
        nodes: Sequence[str],
        folder_of: Callable[[str], Path],
        *,
        disk_mb: int | None = None,
    ) -> None:
        self._simulation = simulation
        self._disk_bytes = None if disk_mb is None else disk_mb << 20
        self._folder_of = folder_of
        self._nodes = tuple(nodes)
        self._machines: dict[str, _Machine] = {}
        self._cuts: dict[str, tuple[Link, ...]] = {}
        self._dropped_before: dict[str, dict[Link, int]] = {}
        self._shapes: dict[str, tuple[Link, ...]] = {}
        self._blocks: dict[str, dict[Connection, SimulatedConnection]] = {}

    def up(self) -> None:
        """Create the machines; each is off."""
        for node in self._nodes:
            number = int(node.removeprefix("n"))
            host = self._simulation.add(number, partial(self._boot, node))
            folder = self._folder_of(node).absolute()
            machine = _Machine(
                host=host,
                files=MachineFiles(host, folder),
                folder=folder,
                random=self._simulation.streams.of(f"{node}/ids"),
                flushes=self._simulation.streams.of(f"{node}/flushes"),
            )
            machine.host.disk.capacity = self._disk_bytes
            self._machines[node] = machine

    def host(self, node: str) -> Host:
        """Return the simulator's machine of a node."""
        return self._machines[node].host

    def address(self, node: str) -> str:
        """Return a node's name, which is its address here."""
        return node

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a node from its disk."""
        del command
        host = self.host(node)
        host.start()
        return ProcessId(
            pid=host.id * _INCARNATIONS + host.incarnation,
            start_ticks=self._simulation.now_ns // (10 * MS),
            machine=node,
        )

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Kill, stop, pause or resume a process; other signals have no effect."""
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
                pass  # Other signals have no effect.
        return True

    def state_of(self, process: ProcessId) -> str | None:
        """Return "S" if a process runs, "T" if it is paused, and None if it has ended."""
        host = self.host(process.machine)
        if host.process is None or process.pid % _INCARNATIONS != host.incarnation:
            return None
        return "T" if host.process.paused else "S"

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        """Return 0 if a process ended by itself, or the negated signal; None if it still runs."""
        if self.state_of(process) is not None:
            return None
        return self._machines[node].codes.get(process.pid % _INCARNATIONS, 0)

    def disk(self, node: str) -> Disk:
        """Return access to a machine's files, which are `data` and `logs` in the node's folder."""
        return self._machines[node].files

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Copy the files that were prepared in a node's folder to the node's machine."""
        del software
        machine = self._machines[node]
        machine.settings = parsed((machine.folder / SETTINGS).read_text(encoding="utf-8"))
        data = machine.folder / "data"
        for path in sorted(each for each in data.rglob("*") if each.is_file()):
            machine.host.disk.replace(path.relative_to(data).as_posix(), path.read_bytes())

    def fetch(self, node: str) -> None:
        """Write a machine's files to the node's folder.

        Delete files in the folder that the machine no longer has.
        """
        machine = self._machines[node]
        machine.files.copy_to(machine.folder)

    def down(self) -> None:
        """End every process. Idempotent."""
        for machine in self._machines.values():
            machine.host.kill()

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Cut links. A message that is sent during a cut arrives after it: TCP sends it again."""
        self.join(cut_id)
        cut = tuple(dict.fromkeys(links))
        self._dropped_before[cut_id] = {link: self._dropped(link) for link in cut}
        self._cuts[cut_id] = cut
        self._simulation.network.cut([self._numbered(link) for link in cut])

    def join(self, cut_id: str) -> None:
        """Undo the cut with this id. Idempotent."""
        links = self._cuts.pop(cut_id, ())
        if links:
            self._simulation.network.join([self._numbered(link) for link in links])

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return the number of messages that each link of a cut has held back so far."""
        before = self._dropped_before.get(cut_id, {})
        return {
            link: self._dropped(link) - before.get(link, 0) for link in self._cuts.get(cut_id, ())
        }

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send datagrams over each link; wait until each link has delivered one."""
        found, whole = dict.fromkeys(links, False), new_event()

        def arrived(link: Link) -> None:
            found[link] = True
            if all(found.values()):
                whole.set()

        for link in [*found] * PROBES:
            self._simulation.network.probe(self._numbered(link), partial(arrived, link))
        whole.wait(timeout_s)
        return dict(found)

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Shape links. Messages of connections are only delayed, but datagrams may be lost.

        Raises:
            ClusterError: One of the links already has another shape.
        """
        self.unshape(shape_id)
        shaped = tuple(dict.fromkeys(links))
        for other, those in self._shapes.items():
            if taken := [link for link in shaped if link in those]:
                sender, receiver = taken[0]
                raise ClusterError(
                    f"{other} has already shaped the link from {sender} to {receiver}"
                )
        self._shapes[shape_id] = shaped
        self._simulation.network.make_bad(
            [self._numbered(link) for link in shaped], _badness(quality), seed=quality.seed
        )

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        """Undo the shape with this id. (A simulated shape never ends by itself.) Idempotent."""
        links = self._shapes.pop(shape_id, ())
        self._simulation.network.make_good([self._numbered(link) for link in links])
        return {sender: ShapeEnd() for sender, _ in links}

    def shape_ids(self) -> list[str]:
        """Return the ids of the active shapes, oldest first."""
        return list(self._shapes)

    def measure(
        self,
        links: Iterable[Link],
        *,
        count: int = 50,
        size: int = 64,
        interval_s: float = 0.005,
        burst: int = 1,
    ) -> Mapping[Link, Measured]:
        """Send a series of datagrams over each link; the receiver answers each datagram."""
        names = {self._numbered(link): link for link in links}
        spacing = Spacing(count=count, size=size, interval_s=interval_s, burst=burst)
        network, agenda = self._simulation.network, self._simulation.agenda
        told = measure(network, agenda, list(names), spacing)
        return {names[numbers]: each for numbers, each in told.items()}

    def volley(self, links: Iterable[Link], *, count: int, flows: int = 1) -> SentVolley:
        """Send datagrams over each link at once, without waiting; the receiver answers each.

        Raises:
            ClusterError: No machine has as many ports as `flows`.
        """
        if flows > MOST_FLOWS:
            raise ClusterError(f"a machine can send from {MOST_FLOWS} ports, not from {flows}")
        spacing = Spacing(count=count, size=64, interval_s=0.0, burst=count, flows=flows)
        network, agenda = self._simulation.network, self._simulation.agenda
        series = {link: Series(network, agenda, self._numbered(link), spacing) for link in links}
        for each in series.values():
            each.send(count)
        return SentVolley(series)

    def connections(self, links: Iterable[Link]) -> Mapping[Connection, Ends]:
        """Return the connections over links, in both directions.

        The client's port is the number of the connection.
        """
        pairs = {frozenset(link) for link in links}
        return {
            named: Ends(
                client=_socket(each.number, each.held_there) if each.at_client else None,
                server=_socket(each.number, each.held_back) if each.at_server else None,
            )
            for named, each in self._connections().items()
            if frozenset({named.client, named.server}) in pairs
        }

    def reset(self, wanted: Collection[Connection]) -> Collection[Connection]:
        """Reset connections: messages in transit are lost, and both ends notice."""
        there = self._connections()
        ended = [each for each in wanted if each in there and not there[each].broken]
        for each in ended:
            self._simulation.network.break_off(there[each])
        return ended

    def block(self, block_id: str, wanted: Collection[Connection]) -> None:
        """Stop all messages over connections; the two ends do not notice."""
        there = self._connections()
        those = {each: there[each] for each in wanted if each in there}
        self._blocks.setdefault(block_id, {}).update(those)
        for each in those.values():
            self._simulation.network.block(each, block_id)

    def unblock(self, block_id: str) -> None:
        """Undo the block with this id. Idempotent."""
        for each in self._blocks.pop(block_id, {}).values():
            self._simulation.network.unblock(each, block_id)

    def blocked(self, block_id: str) -> Mapping[Connection, int]:
        """Return, for each connection, the number of messages that a block has delayed."""
        block = self._blocks.get(block_id, {})
        return {named: each.blocked.get(block_id, 0) for named, each in block.items()}

    def block_ids(self) -> list[str]:
        """Return the ids of the active blocks, oldest first."""
        return list(self._blocks)

    def is_blocked(self, block_id: str) -> bool:
        """Return whether the network still applies a block to any connection."""
        return any(block_id in each.blocked for each in self._simulation.network.connections())

    def connects(self, openings: Collection[Opening]) -> Mapping[Opening, bool]:
        """Return, for each wanted connection, whether datagrams pass in both directions."""
        ways = ((link, link[::-1]) for link in (each[:2] for each in openings))
        through = self.probe(dict.fromkeys(itertools.chain.from_iterable(ways)))
        return {(a, b, port): through[a, b] and through[b, a] for a, b, port in openings}

    def _connections(self) -> Mapping[Connection, SimulatedConnection]:
        names = {CLIENT: CLIENTS}
        names |= {machine.host.id: node for node, machine in self._machines.items()}
        return {
            Connection(
                client=names[each.ahead[0]],
                client_port=each.number,
                server=names[each.ahead[1]],
                server_port=PORT,
            ): each
            for each in self._simulation.network.connections()
        }

    def fill_disk(self, node: str) -> int:
        """Fill a machine's disk completely; return how many bytes were free before."""
        disk = self.host(node).disk
        taken = (self._disk_bytes or DISK_BYTES) - disk.used
        disk.capacity = disk.used
        return taken

    def empty_disk(self, node: str) -> None:
        """Restore the disk's size. Idempotent."""
        self.host(node).disk.capacity = self._disk_bytes

    def lock_disk(self, node: str) -> None:
        """Make a machine's disk read-only.

        Raises:
            ClusterError: The broker runs and has files open.
        """
        host = self.host(node)
        if host.process is not None:
            raise ClusterError(f"the disk of {node} is in use, because its broker runs")
        host.disk.refuses = errno.EROFS

    def unlock_disk(self, node: str) -> None:
        """Make a machine's disk writable again. Idempotent."""
        self.host(node).disk.refuses = None

    def try_disk(self, node: str) -> str:
        """Write a page to a machine's disk; return the error name, or an empty string."""
        disk = self.host(node).disk
        try:
            disk.append(PAGE, bytes(PAGE_BYTES))
        except OSError as failed:
            return errno.errorcode.get(failed.errno or 0, str(failed))
        finally:
            disk.remove(PAGE)
        return ""

    def slow_disk(self, node: str, flush_s: float) -> None:
        """Let each flush on a machine's disk take up to `flush_s` seconds."""
        machine = self._machines[node]
        if machine.usual_flush_ns is None:
            machine.usual_flush_ns = machine.host.slow_flush_ns
        machine.host.slow_flush_ns = round(flush_s * NS_PER_S)

    def quicken_disk(self, node: str) -> None:
        """End the delays on a machine's disk. Idempotent."""
        machine = self._machines[node]
        if machine.usual_flush_ns is not None:
            machine.host.slow_flush_ns = machine.usual_flush_ns
            machine.usual_flush_ns = None

    def time_flush_s(self, node: str) -> float:
        """Return the seconds that a flush of one page takes."""
        machine = self._machines[node]
        began_s = stopwatch_s()
        pause_until(began_s + machine.host.flush_ns(machine.flushes) / NS_PER_S)
        return stopwatch_s() - began_s

    def lose_power(self, node: str) -> Mapping[PurePosixPath, PowerCut]:
        """Power a machine off. Its disk keeps flushed bytes, and a random part of the others.

        The next start of the machine's broker powers the machine on.
        """
        machine = self._machines[node]
        disk = machine.host.disk
        flushed = {path: len(disk.read_flushed(path)) for path in disk.paths()}
        if machine.host.process is not None:
            machine.codes[machine.host.incarnation] = -signal.SIGKILL
        lost = machine.host.lose_power()
        return {
            PurePosixPath("data", path): PowerCut(
                flushed=safe, kept=disk.size(path), lost=lost.get(path, 0)
            )
            for path, safe in flushed.items()
        }

    def clock_environment(self, node: str) -> Mapping[str, str]:
        """Return no variables, because a simulated clock can always be set."""
        del node
        return {}

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Set the time and the rate of a machine's only clock. Timers use this clock, too."""
        self.host(node).set_clock(round(offset_s * NS_PER_S), round((rate - 1) * PPM))

    def reset_clock(self, node: str) -> None:
        """Set a machine's clock back to the correct time. Idempotent."""
        self.host(node).set_clock(0)

    def clock_offset_s(self, node: str) -> float:
        """Return how many seconds a machine's clock is now ahead of the true time."""
        return self.host(node).clock.ahead_ns(self._simulation.now_ns) / NS_PER_S

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


def _socket(number: int, held: Sequence[object]) -> Socket:
    return Socket(inode=number, unacknowledged=len(held), again=int(bool(held)))


def _badness(quality: Quality) -> Badness:
    """Convert a link's quality to the simulator's form. A negative delay becomes 0."""
    earliest_ms = max(0.0, quality.delay_ms - quality.jitter_ms)
    latest_ms = quality.delay_ms + quality.jitter_ms
    return Badness(
        delay_ns=round(earliest_ms * MS),
        spread_ns=round((latest_ms - earliest_ms) * MS),
        loss=quality.loss,
        duplicate=quality.duplicate,
        reorder=quality.reorder,
        rate_kbit=quality.rate_kbit,
        stall_ns=round(quality.stall_ms * MS),
        open_ns=round(quality.open_ms * MS),
        stall_share=quality.stall_share,
    )
