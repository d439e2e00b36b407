"""Hosts reached by ssh: each node is a separate machine. This machine is not a node.

    here:  harness, clients === ssh ===> n1: warden, agent, broker, the run's folder, its nft table
                            === ssh ===> n2: ...

A run has its own objects on a host: a folder, an nft table, and processes with its mark. `down` or
`logquake heal` removes them. Otherwise the host's warden removes them after `ttl_s` seconds without
a message from the harness. If a connection is lost for a shorter time, nothing changes on the
hosts. Faults stay in force, and the harness connects again (`cluster.hosts.ssh.line`).
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

from cluster.hosts import agent, shaper, sockets
from cluster.hosts.agent import Message
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.linked import LinkedHosts
from cluster.hosts.machine import Machine
from cluster.hosts.ssh import errands
from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.disk import SftpDisk
from cluster.hosts.ssh.examine import examine_host, nft_of
from cluster.hosts.ssh.file import SshHost, load_hosts
from cluster.hosts.ssh.line import SshLine
from cluster.hosts.ssh.paths import SOFTWARE, Abroad, named
from cluster.hosts.ssh.run import FILE, SshRun, id_of
from cluster.hosts.ssh.tar import fetch_tar, send_tar
from cluster.hosts.ssh.undoing import MARK, WARDEN
from cluster.protocol import CLIENTS, ClusterError, Command, Disk, Link, ProcessId, UserError
from results.record.paths import RunPaths

T = TypeVar("T")

LEFT_OUT = (".index", ".timeindex", ".txnindex", ".snapshot", ".lock")
"""Suffixes of files that stay on the host, because Kafka can rebuild them from the segments."""
LOGS = "logs"
"""The name of a folder inside each node's folder: it has the output of the node's programs."""
PROGRAMS = tuple(
    Path(text) for text in (agent.__file__, errands.__file__, shaper.__file__, sockets.__file__)
)
"""Programs that the warden writes into the run's folder."""


class SshHosts(LinkedHosts):
    """The nodes of a run on machines of `HOSTS.toml`. Implements `HasSoftware` and `CanAudit`.

    Args:
        nodes: The names of the nodes, in the order of the file's hosts.
        processes_file: `RunPaths.processes`.
        file: `HOSTS.toml`.

    Raises:
        UserError: The file is wrong, or has fewer hosts than there are nodes.
    """

    kind = "ssh"

    def __init__(self, nodes: Sequence[str], processes_file: Path, *, file: Path) -> None:
        super().__init__()
        hosts = load_hosts(file)
        refuse_too_few(hosts, nodes, file)
        self._paths = RunPaths(processes_file.parent.absolute())
        self._ledger = ProcessLedger(processes_file)
        self._note = processes_file.with_name(FILE)
        self._run = SshRun(run=id_of(self._paths.root), hosts=dict(zip(nodes, hosts, strict=False)))
        self.table = self._run.table
        self._connections = {node: SshConnection(host) for node, host in self._run.hosts.items()}
        self._abroad: dict[str, Abroad] = {}
        self._touched: set[str] = set()
        self._to_fetch: set[str] = set()

    def up(self) -> None:
        """Start a warden and an agent on each host, on all hosts at once.

        Raises:
            UserError: A host cannot be reached, refuses the login, or does not have all that a run
                needs.
        """
        if self.machines:
            return
        self._run.note(self._note)
        try:
            self._everywhere(self._start)
        except BaseException:
            # The first failure gives the reason. The host's warden removes the rest.
            with contextlib.suppress(ClusterError):
                self.down()
            raise

    def address(self, node: str) -> str:
        """Return the address at which brokers reach a node."""
        if node not in self._run.hosts:
            raise ClusterError(
                f"there is no node {node}; the nodes are {', '.join(self._run.hosts)}"
            )
        return self._run.hosts[node].address

    def nft(self, node: str) -> Sequence[str]:
        """Return the command line that starts nft on a host, with sudo if the host needs it."""
        return nft_of(self._run.hosts[node])

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop the packets that travel over links between nodes.

        Raises:
            ClusterError: A link begins or ends at the clients. The cut would end the harness's own
                connections.
        """
        directed = frozenset(links)
        if any(CLIENTS in link for link in directed):
            raise ClusterError("on ssh hosts, the harness and its clients cannot be cut off")
        super().cut(cut_id, directed)

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process on a host.

        The process ends when the hosts are taken down, or when the harness's lease runs out.
        """
        abroad = self._where(node)
        translated = Command(
            argv=[abroad.text(word) for word in command.argv],
            log=Path(abroad.path(command.log.absolute())),
            cwd=Path(abroad.path(command.cwd.absolute())),
            env={name: abroad.text(value) for name, value in command.env.items()},
        )
        return self.machine(node).spawn(node, translated)

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the process group of a process; False if it has already ended."""
        return process.machine in self.machines and self.machine(process.machine).send_signal(
            process, number
        )

    def state_of(self, process: ProcessId) -> str | None:
        """Return a process's state letter, as in `/proc/PID/stat`; None if it no longer exists."""
        if process.machine not in self.machines:  # The hosts are down: no process is left.
            return None
        return self.machine(process.machine).state_of(process)

    def disk(self, node: str) -> Disk:
        """Return access to the files of a node's folder on its host."""
        there = self._where(node).path(self._paths.node(node))
        return SftpDisk(self._connections[node], there)

    def java(self, node: str) -> Path:
        """Return the path of `java` on a host; `up` has checked its version."""
        return Path(self._run.hosts[node].java)

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Copy the software, and the node's folder that was prepared here, to the node's host.

        From then on the host has the node's data, and the data folder on this machine is deleted.
        Otherwise, a program could later read this old copy as if it were the current data.
        """
        abroad = self._where(node)
        new = [path for path in software if path not in abroad.software]
        abroad = Abroad(
            here=abroad.here, there=abroad.there, software=named(abroad.software, tuple(new))
        )
        folder = self._paths.node(node)
        sent = {
            PurePosixPath(SOFTWARE, abroad.software[path], inner): path.resolve() / inner
            for path in new
            for inner in _inside(path)
        }
        sent |= {
            PurePosixPath(path.relative_to(self._paths.root)): path for path in folder.rglob("*")
        }
        send_tar(self._connections[node], str(abroad.there), sent, change=abroad.text)
        self._abroad[node] = abroad
        self._to_fetch.add(node)
        shutil.rmtree(folder / "data", ignore_errors=True)

    def fetch(self, node: str) -> None:
        """Copy a node's folder from its host back to this machine. Idempotent.

        Raises:
            ClusterError: The host does not answer, or the copy is incomplete.
        """
        abroad = self._where(node)
        here = self._paths.node(node)
        folder = str(abroad.path(here))
        fetch_tar(self._connections[node], str(abroad.there), (folder, here), left_out=LEFT_OUT)
        self._to_fetch.discard(node)

    def room(self) -> Mapping[str, int]:
        """Return the free bytes on each host's disk, as last reported."""
        lines = {node: machine.line for node, machine in self.machines.items()}
        return {
            node: line.free_bytes
            for node, line in lines.items()
            if isinstance(line, SshLine) and line.free_bytes is not None
        }

    def traces(self) -> Mapping[str, str]:
        """Return the traces that the run left on the hosts, each with a description."""
        try:
            found = self._everywhere(lambda node: self._call(node, "traces")["traces"])
        finally:
            if not self.machines:  # A mere audit leaves no connection open.
                for connection in self._connections.values():
                    connection.close()
        return {f"{node}: {what}": value for node, those in found for what, value in those.items()}

    def down(self) -> None:
        """Undo all changes on every host, and check that they are undone. Idempotent.

        If a node's files were not fetched, for example because its broker did not start, the node's
        logs are first copied to this machine. The logs explain the failure.

        Raises:
            ClusterError: Something on a host could not be undone, or a host cannot be reached.
        """
        if self._to_fetch:
            self._everywhere(self._fetch_logs)
        machines, self.machines = self.machines, {}
        for book in (self._cuts, self._shapes, self._blocks, self._abroad, self._to_fetch):
            book.clear()
        for machine in machines.values():
            machine.close()
        failed = [said for _, said in self._everywhere(self._undone) if said]
        for machine in machines.values():
            machine.wait_closed()
        for connection in self._connections.values():
            connection.close()
        if failed:
            raise ClusterError("; ".join(failed))
        self._touched.clear()
        self._note.unlink(missing_ok=True)

    def _fetch_logs(self, node: str) -> None:
        if node not in self._to_fetch:
            return
        there, here = self._where(node), self._paths.node(node) / LOGS
        with contextlib.suppress(ClusterError, OSError):  # The run's own error matters more.
            folders = (str(there.path(here)), here)
            fetch_tar(self._connections[node], str(there.there), folders, left_out=())

    def _undone(self, node: str) -> str:
        """Undo everything on a host; return the reason if this fails, otherwise an empty string."""
        host = self._run.hosts[node]
        if node not in self._touched:
            return ""
        try:
            failed = self._call(node, "undo")["failed"]
        except ClusterError as refused:
            return (
                f"{refused}; the host itself undoes the run's changes within {host.ttl_s:g} s; to"
                " undo them now, type: logquake heal"
            )
        return f"{host.name} is not as it was before the run: {'; '.join(failed)}" if failed else ""

    def _start(self, node: str) -> None:
        host, connection = self._run.hosts[node], self._connections[node]
        examine_host(connection, list(self._run.hosts.values()))
        programs = {path.name: path.read_text(encoding="utf-8") for path in PROGRAMS}
        order = {"ttl_s": host.ttl_s, "listen": host.address, "programs": programs}
        marks = {MARK: self._run.run, WARDEN: "1"}
        self._touched.add(node)
        kept = connection.call("keep", {**self._run.order(host), **order}, environment=marks)
        self._abroad[node] = Abroad(here=self._paths.root, there=PurePosixPath(kept["folder"]))
        machine = Machine(node, self._ledger, line=SshLine(connection, kept["folder"]))
        self.machines[node] = machine
        machine.wait_ready()
        self.drop_what_cuts_mark(node)

    def _where(self, node: str) -> Abroad:
        self.address(node)
        if node not in self._abroad:
            raise ClusterError("the hosts are down")
        return self._abroad[node]

    def _call(self, node: str, do: str) -> Message:
        return self._connections[node].call(do, self._run.order(self._run.hosts[node]))

    def _everywhere(self, deed: Callable[[str], T]) -> list[tuple[str, T]]:
        """Call a function for all hosts in parallel.

        After all calls have ended, raise the first failure.
        """
        with ThreadPoolExecutor(len(self._run.hosts)) as pool:
            return list(zip(self._run.hosts, pool.map(deed, self._run.hosts), strict=True))


def refuse_too_few(hosts: Sequence[SshHost], nodes: Sequence[str], file: Path) -> None:
    """Raise if a hosts file has fewer hosts than there are nodes.

    Raises:
        UserError: The file has fewer hosts.
    """
    if len(hosts) < len(nodes):
        raise UserError(
            f"{file} has {len(hosts)} hosts, but the nodes {', '.join(nodes)} need {len(nodes)}:"
            " add hosts, or use fewer nodes"
        )


def _inside(software: Path) -> list[Path]:
    """Return the paths to copy for one software entry, relative to the entry.

    The result begins with an empty path, which stands for the entry itself. If the entry is a
    folder of classes, the paths of the folder's contents follow.
    """
    there = software.resolve()  # A symbolic link would not work on a host.
    return [Path(), *(each.relative_to(there) for each in sorted(there.rglob("*")))]


def try_hosts(file: Path, nodes: Sequence[str] = ()) -> str:
    """Check that every host of a file can take part in a run; return a sentence about the hosts.

    Args:
        file: `HOSTS.toml`.
        nodes: The names of the run's nodes.

    Raises:
        UserError: A host cannot take part. The message has the remedy.
    """
    hosts = load_hosts(file)
    refuse_too_few(hosts, nodes, file)
    used = hosts[: len(nodes)] if nodes else hosts
    connections = [SshConnection(host) for host in used]
    try:
        with ThreadPoolExecutor(len(connections)) as pool:
            list(pool.map(lambda each: examine_host(each, used), connections))
    finally:
        for connection in connections:
            connection.close()
    return f"{len(used)} hosts of {os.fspath(file)} answer"
