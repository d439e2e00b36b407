"""Hosts that are reached by ssh: each node a machine of its own, and none of them this one.

    here:  harness, clients === ssh ===> n1: warden, agent, broker, the run's folder, its nft table
                            === ssh ===> n2: ...

Everything of a run on a host is its own: a folder, a table of nft, processes that carry its mark.
`down` removes them; so does `logquake heal`; and if nobody does, each host's warden, when it has
not heard of the harness for `ttl_s`. A connection that is lost for less than that changes nothing
on the hosts: faults stay in force, and the line is taken up again (`cluster.hosts.ssh.line`).
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
"""Endings of files that can be made again from the segments: they stay on the host."""
LOGS = "logs"
"""In a node's folder: what its programs said."""
PROGRAMS = tuple(
    Path(text) for text in (agent.__file__, errands.__file__, shaper.__file__, sockets.__file__)
)
"""What the warden puts into the run's folder."""


class SshHosts(LinkedHosts):
    """The nodes of a run on machines that `HOSTS.toml` names. Implements `HasSoftware`, `CanAudit`.

    Args:
        nodes: Their names, in the order of the file's hosts.
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
        """Start a warden and an agent on each host, all at once.

        Raises:
            UserError: A host cannot be reached, refuses us, or lacks something.
        """
        if self.machines:
            return
        self._run.note(self._note)
        try:
            self._everywhere(self._start)
        except BaseException:
            # The first failure tells why; of what is left then, the host's warden takes care.
            with contextlib.suppress(ClusterError):
                self.down()
            raise

    def address(self, node: str) -> str:
        """Return the address of a node, as its brokers reach each other."""
        if node not in self._run.hosts:
            raise ClusterError(f"there is no node {node}, only {', '.join(self._run.hosts)}")
        return self._run.hosts[node].address

    def nft(self, node: str) -> Sequence[str]:
        """Return how nft is called on a host."""
        return nft_of(self._run.hosts[node])

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop what travels over the links; never what the harness and its clients send.

        Raises:
            ClusterError: A link is one of the harness's: it would cut off its own connections.
        """
        directed = frozenset(links)
        if any(CLIENTS in link for link in directed):
            raise ClusterError("the harness and its clients cannot be cut off ssh hosts")
        super().cut(cut_id, directed)

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process on a host; it dies with the hosts, and with the lease of the harness."""
        abroad = self._where(node)
        translated = Command(
            argv=[abroad.text(word) for word in command.argv],
            log=Path(abroad.path(command.log.absolute())),
            cwd=Path(abroad.path(command.cwd.absolute())),
            env={name: abroad.text(value) for name, value in command.env.items()},
        )
        return self.machine(node).spawn(node, translated)

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the group that a process leads; False if it has ended already."""
        return process.machine in self.machines and self.machine(process.machine).send_signal(
            process, number
        )

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of its state, as in `/proc/PID/stat`; None: there is none any more."""
        if process.machine not in self.machines:  # The hosts are down: nothing of the run is left.
            return None
        return self.machine(process.machine).state_of(process)

    def disk(self, node: str) -> Disk:
        """Return the files of a node's folder on its host."""
        there = self._where(node).path(self._paths.node(node))
        return SftpDisk(self._connections[node], there)

    def java(self, node: str) -> Path:
        """Return the program `java` of a host; `up` has seen that it is new enough."""
        return Path(self._run.hosts[node].java)

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Bring the node's folder, as it was prepared here, and files of software to its host.

        The folder's data are the host's from now on; the copy here goes, so that nobody takes it
        for the node's if it cannot be fetched.
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
        """Bring the node's folder back here. Idempotent.

        Raises:
            ClusterError: The host does not answer, or not to the end.
        """
        abroad = self._where(node)
        here = self._paths.node(node)
        folder = str(abroad.path(here))
        fetch_tar(self._connections[node], str(abroad.there), (folder, here), left_out=LEFT_OUT)
        self._to_fetch.discard(node)

    def room(self) -> Mapping[str, int]:
        """Return how many bytes were left on the disks of hosts when they were last heard of."""
        lines = {node: machine.line for node, machine in self.machines.items()}
        return {
            node: line.free_bytes
            for node, line in lines.items()
            if isinstance(line, SshLine) and line.free_bytes is not None
        }

    def traces(self) -> Mapping[str, str]:
        """Return what of this run is on the hosts, by what it is."""
        try:
            found = self._everywhere(lambda node: self._call(node, "traces")["traces"])
        finally:
            if not self.machines:  # Who only looks keeps no connection.
                for connection in self._connections.values():
                    connection.close()
        return {f"{node}: {what}": value for node, those in found for what, value in those.items()}

    def down(self) -> None:
        """Undo everything on every host, and see that it is undone. Idempotent.

        Of a node whose files nobody has fetched, as when its broker did not start, the logs are
        brought here before: they tell why.

        Raises:
            ClusterError: A host did not do all of it, or cannot be reached.
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
        with contextlib.suppress(ClusterError, OSError):  # Why the run ended matters more.
            folders = (str(there.path(here)), here)
            fetch_tar(self._connections[node], str(there.there), folders, left_out=())

    def _undone(self, node: str) -> str:
        """Undo all on a host; return why that could not be done, if so."""
        host = self._run.hosts[node]
        if node not in self._touched:
            return ""
        try:
            failed = self._call(node, "undo")["failed"]
        except ClusterError as refused:
            return (
                f"{refused}; what the run did there is undone within {host.ttl_s:g} s by the host"
                " itself, or at once by: logquake heal"
            )
        return f"{host.name} is not as it was: {'; '.join(failed)}" if failed else ""

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
        """Do something on all hosts at once; the first failure is raised when all have ended."""
        with ThreadPoolExecutor(len(self._run.hosts)) as pool:
            return list(zip(self._run.hosts, pool.map(deed, self._run.hosts), strict=True))


def refuse_too_few(hosts: Sequence[SshHost], nodes: Sequence[str], file: Path) -> None:
    """Refuse a file with fewer hosts than nodes.

    Raises:
        UserError: It has fewer.
    """
    if len(hosts) < len(nodes):
        raise UserError(
            f"{file} names {len(hosts)} hosts, and {len(nodes)} are needed"
            f" ({', '.join(nodes)}): add some, or ask for fewer nodes"
        )


def _inside(software: Path) -> list[Path]:
    """Return what to send of a file, or of a folder of classes, relative to it."""
    there = software.resolve()  # A link would lead nowhere on a host.
    return [Path(), *(each.relative_to(there) for each in sorted(there.rglob("*")))]


def try_hosts(file: Path, nodes: Sequence[str] = ()) -> str:
    """See that every host of a file can take part; return a sentence on them.

    Args:
        file: `HOSTS.toml`.
        nodes: That will be asked for.

    Raises:
        UserError: One cannot; the remedy.
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
