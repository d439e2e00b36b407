"""The machines of an attached cluster. They can do only what the user's commands can do."""

import signal
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile

from cluster.hosts.disk import LocalDisk
from cluster.protocol import ClusterError, Command, Disk, Endpoint, Link, ProcessId, UserError
from cluster.systems.attached.asking import Attached
from cluster.systems.attached.clean import clean_up, left_of
from cluster.systems.attached.commands import CommandError, Runner, failed
from cluster.systems.attached.marker import Marker, write_marker
from cluster.systems.attached.status import GONE, PAUSED, RUNNING, state_said
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import node_id
from results.record.paths import RunPaths
from results.record.runtime import all_of, new_lock

_BY_SIGNAL = {
    signal.SIGKILL: "kill", signal.SIGTERM: "stop", signal.SIGSTOP: "pause",
    signal.SIGCONT: "resume",
}  # fmt: skip
BACK_LIMIT_S = 60.0
"""Seconds to wait until a started broker is registered. The broker first reads its logs."""
SEGMENT, IDENTITY = ".log", "partition.metadata"
"""From a partition's folder, only these files are kept. The files with this suffix contain the
records; the file with this name contains the topic's id."""


class AttachedHosts:
    """Implements `Hosts`, `HasFiles`, `CanAudit`, and `CanPartition` with the user's commands.

    Args:
        attached: The cluster.
        nodes: The names of its brokers.
        prefix: The prefix of the run's names.
        paths: The run's paths.
    """

    kind = "attached"

    def __init__(
        self, attached: Attached, nodes: Sequence[str], *, prefix: str, paths: RunPaths
    ) -> None:
        self.attached = attached
        self._runner = Runner(attached.file, attached.path)
        self._nodes, self._prefix, self._paths = tuple(nodes), prefix, paths
        self._endpoints: Mapping[str, Endpoint] = {}
        self._cuts: dict[str, frozenset[frozenset[str]]] = {}
        self._lock = new_lock()

    def up(self) -> None:
        """Find the brokers, and record what must be cleaned up after the run.

        Raises:
            UserError: The brokers do not answer.
            ClusterError: A broker is no longer registered.
        """
        places = self.places()
        marker = Marker(
            file=str(self.attached.path),
            prefix=self._prefix,
            endpoints={node: (at.host, at.broker_port) for node, at in places.items()},
        )
        write_marker(self._paths.attached, marker)

    def places(self) -> Mapping[str, Endpoint]:
        """Return the addresses of the brokers. The first call asks the brokers.

        Raises:
            ClusterError: A broker is not registered.
        """
        if not self._endpoints:
            found = self.attached.endpoints()
            if missing := [node for node in self._nodes if node not in found]:
                lack = f"{', '.join(missing)} of the attached cluster"
                raise ClusterError(f"{lack} {'is' if len(missing) == 1 else 'are'} not registered")
            self._endpoints = found
        return self._endpoints

    def address(self, node: str) -> str:
        """Return the address that a broker announces."""
        return self.places()[node].host

    def spawn(self, node: str, command: Command) -> ProcessId:  # noqa: ARG002 - the user's counts
        """Run a broker's start command; return when the `status` command names the process.

        Raises:
            ClusterError: Another program has started the broker, or the command fails to start the
                broker.
        """
        if self._state(node)[0] is not GONE:
            raise ClusterError(
                f"{node} was running again before Logquake started it, so another program starts"
                " it; disable this program during the test (systemd: Restart=no)"
            )
        self._do(node, "start")

        def process() -> ProcessId | None:
            state, pid = self._state(node)
            return ProcessId(pid=pid, start_ticks=0, machine=node) if state is RUNNING else None

        limit_s = self._runner.file.limits.start_s
        return wait_until(process, timeout_s=limit_s, what=f"the start of {node}")

    def running(self, node: str) -> ProcessId:
        """Return the process of a running broker.

        Raises:
            ClusterError: The `status` command reports that the broker does not run.
        """
        if not self._runner.has(node_id(node), "status"):
            return ProcessId(pid=node_id(node) + 2, start_ticks=0, machine=node)
        state, pid = self._state(node)
        if state is not RUNNING:
            how = "is paused" if state is PAUSED else "does not run"
            raise ClusterError(f"{node} {how} (by its command `status`); start the cluster")
        return ProcessId(pid=pid, start_ticks=0, machine=node)

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Run the user's command that replaces a signal; return False if the process has ended."""
        state = self.state_of(process)
        if state is GONE:
            return False
        if number is signal.SIGCONT and state is not PAUSED:
            return True
        self._do(process.machine, _BY_SIGNAL[number], pid=process.pid)
        return True

    def state_of(self, process: ProcessId) -> str | None:
        """Return the process's state as `status` reports it: `S`, `T` or None.

        Without `status` a broker counts as running.
        """
        if not self._runner.has(node_id(process.machine), "status"):
            return RUNNING
        try:
            state, pid = self._state(process.machine)
        except CommandError:  # The network may have caused a single failure.
            state, pid = self._state(process.machine)
        return state if pid == process.pid else GONE

    def exit_of(self, node: str, process: ProcessId) -> int | None:  # noqa: ARG002 - it is unknown
        """Return None: the exit code is not known here."""
        return None

    def disk(self, node: str) -> Disk:
        """Return access to the local folder with the files that were fetched from a node."""
        return LocalDisk(self._paths.node(node).absolute())

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Do nothing, because the node already has all files that it needs."""

    def fetch(self, node: str) -> None:
        """Copy the logs of only the run's own partitions from a node to this machine.

        Raises:
            ClusterError: The command fails or does not print a tar.
        """
        if not self._runner.has(node_id(node), "files"):
            return
        with TemporaryFile(dir=self._paths.root) as out:
            said = self._runner.run(node_id(node), "files", self._about(node), into=out)
            if said.code:
                raise failed("files", node_id(node), said)
            out.seek(0)
            try:
                with tarfile.open(fileobj=out, mode="r:*") as tar:
                    self._keep(tar, self._paths.node(node) / "data")
            except (tarfile.TarError, EOFError) as refused:
                raise ClusterError(
                    f"the output of the command `files` of {node} is not a tar archive ({refused})"
                ) from refused

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Cut pairs of nodes off from each other, with the `cut` commands of both nodes.

        Raises:
            ClusterError: A command fails, or a link would be cut in one direction only.
        """
        wanted = {*links}
        if one_way := [link for link in wanted if link[::-1] not in wanted]:
            raise ClusterError(
                f"the link between {one_way[0][0]} and {one_way[0][1]} can be cut in both"
                " directions only, not in one"
            )
        pairs = frozenset(frozenset(link) for link in wanted)
        there = self._pairs()
        self._cuts[cut_id] = pairs
        self._on_both("cut", pairs - there)

    def join(self, cut_id: str) -> None:
        """Undo one cut, except for pairs that another cut also contains. Idempotent."""
        pairs = self._cuts.get(cut_id, frozenset())
        others = self._pairs(but=cut_id)
        self._on_both("join", pairs - others)
        self._cuts.pop(cut_id, None)

    def dropped(self, cut_id: str) -> Mapping[Link, int]:  # noqa: ARG002 - not counted
        """Return nothing: the commands count no packets."""
        return {}

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:  # noqa: ARG002 - the file's limit
        """Return, for each link, whether the first node's command `reach` gets to the second node.

        If the first node has no command `reach`, the link is left out.
        """
        asked = [link for link in links if self._runner.has(node_id(link[0]), "reach")]
        found = all_of([partial(self._reaches, *link) for link in asked], "reach")
        return dict(zip(asked, found, strict=True))

    def traces(self) -> Mapping[str, str]:
        """Return the run's traces on the cluster, and the states of its nodes and links."""
        found = dict(left_of(self.attached, self._prefix))
        places = self.places()
        for node in self._nodes:
            found[f"the broker {node}"] = "registered" if node in places else "not registered"
            if self._runner.has(node_id(node), "status"):
                state, _ = self._state(node)
                words = {RUNNING: "running", PAUSED: "paused", GONE: "gone"}
                found[f"the process of {node}"] = words[state]
        links = [
            (one, other)
            for one in self._nodes
            for other in self._nodes
            if one != other and other in places
        ]
        for (one, other), works in self.probe(links).items():
            found[f"the link from {one} to {other}"] = "works" if works else "does not work"
        return found

    def down(self) -> None:
        """Undo cuts, and delete topics and groups; the brokers continue to run. Idempotent.

        If all of this succeeds, and every broker runs and is registered, the record of the run's
        traces is deleted. Otherwise a later heal reads the record and repairs the rest.

        Raises:
            ClusterError: A cut could not be undone, or a topic or group could not be deleted.
        """
        if not self._paths.attached.exists():
            return
        failures: list[str] = []
        ways: list[Callable[[], object]] = [partial(self.join, cut_id) for cut_id in self._cuts]
        ways.append(partial(clean_up, self.attached, self._prefix))
        for way in ways:
            try:
                way()
            except (ClusterError, UserError, WaitTimeoutError) as failed:
                failures.append(str(failed))
        if failures:
            raise ClusterError("; ".join(failures))
        with suppress(ClusterError, UserError, WaitTimeoutError):
            for node in self._nodes:
                self.running(node)
            wait_until(
                lambda: self.attached.endpoints().keys() >= {*self._nodes},
                timeout_s=BACK_LIMIT_S,
                what="all brokers to be registered",
            )
            self._paths.attached.unlink(missing_ok=True)

    def _about(self, node: str) -> dict[str, object]:
        at = self.places()[node]
        return {"own_host": at.host, "own_port": at.broker_port, "prefix": self._prefix}

    def _do(self, node: str, what: str, **more: object) -> None:
        self._runner.do(node_id(node), what, {**self._about(node), **more})

    def _state(self, node: str) -> tuple[str | None, int]:
        said = self._runner.run(node_id(node), "status", self._about(node))
        return state_said(node_id(node), said)

    def _reaches(self, sender: str, receiver: str) -> bool:
        at = self.places()[receiver]
        places = {**self._about(sender), "host": at.host, "port": at.broker_port}
        return self._runner.run(node_id(sender), "reach", places).code == 0

    def _pairs(self, *, but: str = "") -> frozenset[frozenset[str]]:
        kept = (pairs for cut_id, pairs in self._cuts.items() if cut_id != but)
        return frozenset(pair for pairs in kept for pair in pairs)

    def _on_both(self, what: str, pairs: Iterable[frozenset[str]]) -> None:
        """Run a command on both nodes of each pair, because each node blocks only one direction."""
        ends = [(one, other) for pair in pairs for one in pair for other in pair if one != other]
        all_of([partial(self._towards, what, *end) for end in sorted(ends)], what)

    def _towards(self, what: str, node: str, other: str) -> None:
        at = self.places()[other]
        self._do(node, what, host=at.host, port=at.broker_port)

    def _keep(self, tar: tarfile.TarFile, folder: Path) -> None:
        for member in tar:
            path = PurePosixPath(member.name)
            wanted = path.suffix == SEGMENT or path.name == IDENTITY
            ours = wanted and path.parent.name.startswith(self._prefix)
            content = tar.extractfile(member) if ours and member.isfile() else None
            if content is not None:
                there = folder / path.parent.name / path.name
                there.parent.mkdir(parents=True, exist_ok=True)
                with there.open("wb") as file:
                    while piece := content.read(1 << 20):
                        file.write(piece)
