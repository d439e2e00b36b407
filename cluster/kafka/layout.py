"""Assigns addresses, folders and command lines to the servers of a cluster."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cluster.hosts.disk import LocalDisk
from cluster.hosts.process import free_ports
from cluster.kafka.collect import TEMPORARY
from cluster.kafka.programs import KafkaPrograms, Programs, Seat
from cluster.kafka.zookeeper import FOLDER, prepare_zookeeper, zookeeper_command
from cluster.kafka.zookeeper import PORT as ZOOKEEPER_PORT
from cluster.protocol import (
    CanLimitResources,
    CanShiftClock,
    Command,
    Disk,
    Endpoint,
    HasFiles,
    HasSoftware,
    Hosts,
    UserError,
)
from results.record.nodes import (
    ZOOKEEPER_MACHINE,
    broker_names,
    controller_names,
    is_controller,
    machines,
)
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import all_of
from results.record.terms import NO_HANDLE, Mode

TAIL_BYTES = 32_768
WIDE_BYTES = 262_144
"""How many bytes at the end of a log are searched for an error about missing file handles.

After the error, the log has one more line for each partition, so the error may be far before the
end.
"""
MAX_COMPLAINTS = 6
_COMPLAINT = re.compile(
    r"FATAL|ERROR|OutOfMemoryError|Terminating due|fatal error has been|hs_err_|Error:|Traceback"
    rf"|ZooKeeperClientTimeoutException|ZkTimeoutException|{NO_HANDLE}"
)
BROKER_PORT = 9092
CONTROLLER_PORT = 9093


class Layout:
    """Determines the addresses, files and command lines of a run's servers.

    Args:
        plan: The run's plan.
        hosts: The running hosts, with one machine for each of `cluster.nodes.machines`.
        programs: The server programs to run.
        paths: The run's folder; a node's files lie in `nodes/<node>`.

    Attributes:
        brokers: The nodes with a broker.
        controllers: The nodes with a separate controller.
        endpoints: The addresses of brokers and controllers.
        zookeeper: Host and port of ZooKeeper, or None without it.
    """

    def __init__(self, plan: Plan, hosts: Hosts, *, programs: Programs, paths: RunPaths) -> None:
        self.brokers: Sequence[str] = broker_names(plan)
        self.controllers: Sequence[str] = controller_names(plan)
        self._plan, self._programs, self._hosts = plan, programs, hosts
        self._zookeeper_folder = paths.root.absolute() / FOLDER
        self._folders = {
            node: paths.node(node).absolute() for node in (*self.brokers, *self.controllers)
        }
        places = _places(
            hosts, machines(plan), at={each: self.played_by(each) for each in self.brokers}
        )
        keeper = places.pop(ZOOKEEPER_MACHINE, None)
        self.zookeeper = (keeper.host, keeper.broker_port) if keeper else None
        self.endpoints: Mapping[str, Endpoint] = {
            node: self._endpoint(node, place) for node, place in places.items()
        }
        self._inner_ports = {node: place.controller_port for node, place in places.items()}
        self._starts: dict[str, dict[int, list[Mapping[str, int | None]]]] = {}
        """By node and incarnation: the log sizes at each attempt to start. None: unknown."""

    def played_by(self, node: str) -> str:
        """Return the node whose process runs a given node's broker.

        This is usually the node itself. If one process runs all brokers, this is always the first
        node.
        """
        return self.brokers[0] if self._programs.one_process and node in self.brokers else node

    def played_with(self, node: str) -> tuple[str, ...]:
        """Return all brokers' nodes that share one process with a node, including this node.

        Usually each broker has its own process, so the result is only the node itself.
        """
        together = [each for each in self.brokers if self.played_by(each) == self.played_by(node)]
        return tuple(together) or (node,)

    def prepare(self, *, inherited: bool = False) -> None:
        """Write all configuration files, and format the disks if KRaft needs that.

        Args:
            inherited: Whether the disks hold copied data from an earlier cluster of this plan.

        Raises:
            UserError: Kafka cannot use a path or a setting, or the disk is full.
        """
        for node, folder in self._folders.items():
            _refuse_comma(folder)
            (folder / "logs").mkdir(parents=True, exist_ok=inherited)
            (folder / TEMPORARY).mkdir(exist_ok=inherited)
            self._programs.configure(self._seat(node))
        if self.zookeeper is not None:
            prepare_zookeeper(self._zookeeper_folder, self.zookeeper, self._plan.kafka_version)
        if self.zookeeper is None and not inherited:
            # The first disk is copied to the others. If there are controllers, it is a controller's
            # disk, because a broker ignores the extra content.
            self._format([*self.controllers, *self.brokers])
        self._provide()

    def _provide(self) -> None:
        """Copy the prepared files to machines with their own file system, in parallel."""
        hosts, software = self._hosts, self._programs.software
        if isinstance(hosts, HasFiles):
            all_of([partial(hosts.provide, node, software) for node in self._folders], "provide")

    def _format(self, nodes: Sequence[str]) -> None:
        self._programs.format([self._seat(node) for node in nodes])

    def command(self, node: str, incarnation: int = 1) -> Command:
        """Return the command that starts a node's server, or ZooKeeper on its machine.

        The method also records the current sizes of the logs. So `last_words` can skip earlier
        lines.

        Args:
            node: The server's node.
            incarnation: The number of this start of the server. After a failed start, the next try
                has the same number.
        """
        disk, logs = self._logs(node)
        tries = self._starts.setdefault(node, {}).setdefault(incarnation, [])
        tries.append({log: _size(disk, log) for log in logs})
        if node == ZOOKEEPER_MACHINE:
            return self._zookeeper_command(self._java(node))
        seat = self._seat(node)
        log = seat.folder / "logs" / "stdout.log"
        env = {**self._programs.environment(seat), **self._clock_of(node)}
        argv = self._programs.argv(seat, partial(self._java, node))
        limited = self._plan.limits_resources and isinstance(self._hosts, CanLimitResources)
        return Command(argv=argv, log=log, cwd=seat.folder, env=env, limited=limited)

    def _java(self, node: str) -> Path | None:
        return self._hosts.java(node) if isinstance(self._hosts, HasSoftware) else None

    def _zookeeper_command(self, java: Path | None) -> Command:
        programs = self._programs
        assert isinstance(programs, KafkaPrograms), "ZooKeeper comes with Kafka"
        own = replace(programs.java, path=java, elsewhere=True) if java else programs.java
        return zookeeper_command(own, programs.distribution, self._zookeeper_folder)

    def _clock_of(self, node: str) -> Mapping[str, str]:
        """Return the environment variables that a server needs in a run with clock faults.

        The result is an empty mapping if the run has no clock faults.

        Args:
            node: The server's node.
        """
        if not self._plan.shifts_clocks or not isinstance(self._hosts, CanShiftClock):
            return {}
        return self._hosts.clock_environment(node)

    def disk(self, node: str) -> Disk:
        """Return a node's files."""
        return self._hosts.disk(node)

    def last_words(self, node: str, size: int = TAIL_BYTES, *, life: int = 0) -> str:
        """Return the end of a server's log, and the end of its output.

        Args:
            node: The server's node.
            size: The largest number of bytes to return from each file.
            life: Which start of the server wrote the text: 1 is the first start, 0 the last one.

        Returns:
            The text. A file is left out if its size at that start or at the next start is unknown.
        """
        disk, logs = self._logs(node)
        starts = self._starts.get(self.played_by(node), {})
        born = starts.get(life or max(starts, default=0), [{}])[-1]
        next_ = starts.get(life + 1) if life else None
        said = [
            _tail(disk, log, size, since=born.get(log, 0))
            if next_ is None
            else _part(disk, log, size, since=born.get(log, 0), until=next_[0].get(log))
            for log in logs
        ]
        return "\n".join(said)

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last error lines of a server's log, and the log's last line.

        Args:
            node: The server's node.
            life: Which start of the server wrote the lines: 1 is the first start, 0 the last one.
        """
        written = self.last_words(node, life=life).splitlines()
        lines = [line.strip() for line in written if line.strip()]
        bad = [line for line in lines if _COMPLAINT.search(line)][-MAX_COMPLAINTS:]
        said = [*bad, *(line for line in lines[-1:] if line not in bad)]
        wide = self.last_words(node, WIDE_BYTES, life=life).splitlines()
        want = [line.strip() for line in wide if NO_HANDLE in line][-1:]
        return [*(line for line in want if line not in said), *said]

    def _logs(self, node: str) -> tuple[Disk, tuple[str, str]]:
        """Return the disk of a server or of ZooKeeper, and the paths of the log and the output."""
        if node == ZOOKEEPER_MACHINE:
            return LocalDisk(self._zookeeper_folder), ("logs/zookeeper.log", "logs/stdout.log")
        return self._hosts.disk(self.played_by(node)), ("logs/server.log", "logs/stdout.log")

    def _endpoint(self, node: str, place: Endpoint) -> Endpoint:
        if is_controller(node):
            return replace(place, broker_port=place.controller_port)
        combined = self._plan.mode is Mode.COMBINED
        return place if combined else replace(place, controller_port=0)

    def _seat(self, node: str) -> Seat:
        return Seat(
            plan=self._plan,
            node=node,
            folder=self._folders[node],
            endpoints=self.endpoints,
            inner_ports=self._inner_ports,
            zookeeper=f"{self.zookeeper[0]}:{self.zookeeper[1]}" if self.zookeeper else None,
        )


def _places(hosts: Hosts, names: Sequence[str], *, at: Mapping[str, str]) -> dict[str, Endpoint]:
    """Return two ports for each node: one for its broker and one for its controller.

    If each machine has its own address, these are the default ports. Otherwise free ports are
    chosen.

    Args:
        hosts: The running hosts.
        names: The names of all machines.
        at: The machine that runs a node's server, by node.
    """
    own = {hosts.address(name) for name in names}
    addresses = {name: hosts.address(at.get(name, name)) for name in names}
    if len(own) == len(names) > 1:
        usual = {ZOOKEEPER_MACHINE: ZOOKEEPER_PORT}
        shared = len({*addresses.values()}) < len(own)
        ports = [
            port + (2 * number if shared else 0)
            for number, name in enumerate(names)
            for port in (usual.get(name, BROKER_PORT), CONTROLLER_PORT)
        ]
    else:
        ports = free_ports(2 * len(names))
    return {
        name: Endpoint(
            host=addresses[name], broker_port=ports[2 * at], controller_port=ports[2 * at + 1]
        )
        for at, name in enumerate(names)
    }


def _refuse_comma(folder: Path) -> None:
    if "," in str(folder):
        raise UserError(
            f"Kafka would read {folder} as several folders; use --store with a folder whose path"
            " has no comma"
        )


def _size(disk: Disk, path: str) -> int | None:
    """Return the size of a file: 0 if there is none, None if it is unknown."""
    try:
        return disk.size(path)
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def _tail(disk: Disk, path: str, size: int, *, since: int | None) -> str:
    """Return the last bytes after an offset; if the file is shorter, return its last bytes."""
    written = _size(disk, path)
    if since is None or written is None:
        return ""
    return _read(disk, path, max(0 if since > written else since, written - size), written)


def _part(disk: Disk, path: str, size: int, *, since: int | None, until: int | None) -> str:
    """Return the last bytes of a part of a file; empty if the file no longer has this part."""
    written = _size(disk, path)
    if since is None or until is None or written is None or not since <= until <= written:
        return ""
    return _read(disk, path, max(since, until - size), until)


def _read(disk: Disk, path: str, start: int, end: int) -> str:
    try:
        return disk.read(path, at=start, size=end - start).decode("utf-8", errors="replace")
    except OSError:
        return ""
