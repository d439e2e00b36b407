"""Hosts for nodes that cut their own links: network partitions on one machine without root.

All nodes share this machine's loopback, where no packet filter can distinguish them. So each node
itself cuts its links. Over a node's control socket, the harness sends a list of the nodes to which
this node must send nothing. A file beside the socket has the same list, which the node reads when
it starts. Cuts exist only in the nodes and their folders, so they end with the run.

For a probe, a node sends a word to a socket of the harness. If the peer is cut off, the word is
held back, too. The harness sees whether the word arrives. A node that is down or stopped sends
nothing, so the probe reads the cuts from the node's file. If a running node does not answer, the
probe fails, because the state of the links is unknown.
"""

import os
import selectors
import socket
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cluster.hosts.agent import LOOPBACK
from cluster.hosts.process import ProcessHosts
from cluster.protocol import ClusterError, Command, Link, ProcessId
from cluster.reference.process.control import SOCKET
from cluster.reference.process.cuts import CUTS_FILE, cuts_of
from results.record.atomic import StoreError, write_atomically
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.nodes import node_id

ANSWER_S = 1.0
"""How many seconds to wait for a response.

A node's loop is rarely busy that long. A stopped node never responds, however long the harness
waits.
"""
BUSY_S = 30.0
"""How many seconds a running node may be silent.

It may start or end, or the machine may be busy.
"""
STILL_S = 0.05
"""How many seconds to wait for a response of a stopped node.

The node reads the command after it is resumed.
"""
_WORKING, _STILL = frozenset("RSD"), frozenset("Tt")
"""The state letters of processes that can respond now, and of those that are stopped."""
_LONGEST_PATH = 100
"""Longest path of a Unix socket (man 7 unix: 108 bytes)."""


class CuttingHosts(ProcessHosts):
    """Implements `CanPartition` for nodes of the reference cluster that run as processes.

    Args:
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
    """

    def __init__(self, nodes: Sequence[str], processes_file: Path) -> None:
        super().__init__(nodes, processes_file)
        self._links: dict[str, frozenset[Link]] = {}
        self._held_before: dict[str, dict[Link, int]] = {}
        self._processes: dict[str, ProcessId] = {}

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a node's process; see `ProcessHosts`."""
        process = self._processes[node] = super().spawn(node, command)
        return process

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Let the senders hold back all messages over the links. Several cuts can exist at once."""
        directed = frozenset(links)
        for node in {node for link in directed for node in link}:
            self._check(node)
        self.join(cut_id)
        self._held_before[cut_id] = self._held(directed)
        self._links[cut_id] = directed
        self._tell(sender for sender, _ in directed)

    def join(self, cut_id: str) -> None:
        """Undo the cut with this id. Idempotent."""
        links = self._links.pop(cut_id, frozenset())
        try:
            self._tell(sender for sender, _ in links)
        except ClusterError:
            self._links[cut_id] = links  # A later call retries the nodes that could not be reached.
            raise

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return, for each link of a cut, how often a message was held back."""
        before = self._held_before.get(cut_id, {})
        now = self._held(self._links.get(cut_id, frozenset()))
        # A restarted node counts from 0 again.
        return {
            link: count - before.get(link, 0) if count >= before.get(link, 0) else count
            for link, count in now.items()
        }

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Let each sender of a link send a word. It goes to the harness instead of the receiver.

        Return for each link whether the link's word arrived. If a sender is down or stopped, the
        result comes from the cuts in the sender's file.
        """
        words = {uuid.uuid4().hex: link for link in links}
        silent: set[str] = set()
        with _Listener() as listener:
            for word, (sender, receiver) in words.items():
                said = self._ask(sender, f"knock {node_id(receiver)} {listener.address} {word}")
                if said is None:
                    silent.add(word)
            heard = listener.heard(words.keys() - silent, timeout_s)
        return {
            link: self._would_go(link) if word in silent else word in heard
            for word, link in words.items()
        }

    def listens(self, node: str) -> bool:
        """Return whether a node can receive commands now."""
        return self._ask(node, "cuts") is not None

    def _tell(self, senders: Iterable[str]) -> None:
        for sender in sorted(set(senders)):
            peers = sorted(
                node_id(receiver)
                for links in self._links.values()
                for one, receiver in links
                if one == sender
            )
            wanted = " ".join(map(str, dict.fromkeys(peers)))
            try:
                write_atomically(self._folder(sender) / CUTS_FILE, wanted)
            except StoreError as refused:
                raise ClusterError(str(refused)) from refused
            said = self._ask(sender, f"cut {wanted}", for_later=True)
            if said not in {None, wanted}:
                raise ClusterError(f"{sender} refused to cut off {wanted or 'no node'}: {said}")

    def _held(self, links: Collection[Link]) -> dict[Link, int]:
        counts: dict[Link, int] = {}
        for sender in sorted({sender for sender, _ in links}):
            told = dict(each.split(":") for each in (self._ask(sender, "held") or "").split())
            for link in links:
                if link[0] == sender:
                    counts[link] = int(told.get(str(node_id(link[1])), 0))
        return counts

    def _would_go(self, link: Link) -> bool:
        return node_id(link[1]) not in cuts_of(self._folder(link[0]))

    def _ask(self, node: str, line: str, *, for_later: bool = False) -> str | None:
        """Send a node a command; return its response, or None if the node is down or stopped.

        Args:
            node: The node.
            line: The command, without line end.
            for_later: Whether to send the command even to a stopped node, which reads it later.
                (Only a few commands can wait.)

        Raises:
            ClusterError: The node runs and does not answer.
        """
        said: str | None = None

        def settled() -> bool:
            nonlocal said
            still = self._is_in(node, _STILL)
            if not still or for_later:
                said = self._said(node, line, timeout_s=STILL_S if still else ANSWER_S)
            return said is not None or not self._is_in(node, _WORKING)

        try:
            wait_until(settled, timeout_s=BUSY_S, what=f"{node} to answer over its control socket")
        except WaitTimeoutError as silent:
            raise ClusterError(
                f"{silent}; {node} runs, so it is unknown which packets it sends"
            ) from silent
        return said

    def _said(self, node: str, line: str, *, timeout_s: float) -> str | None:
        try:
            with socket.socket(socket.AF_UNIX) as control:
                control.settimeout(timeout_s)
                _connect(control, self._folder(node))
                control.sendall(f"{line}\n".encode())
                with control.makefile("r", encoding="utf-8") as answers:
                    answer = answers.readline()
        except OSError:
            return None
        return answer.strip() if answer.endswith("\n") else None  # The node ended meanwhile.

    def _is_in(self, node: str, states: Collection[str]) -> bool:
        process = self._processes.get(node)
        return process is not None and self.state_of(process) in states


def _connect(control: socket.socket, folder: Path) -> None:
    """Connect to the control socket of a folder, even if the folder's path is long."""
    path = str(folder / SOCKET)
    if len(os.fsencode(path)) < _LONGEST_PATH:
        control.connect(path)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        control.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)


class _Listener:
    """A socket of the harness that receives the words of probes."""

    def __init__(self) -> None:
        self._server = socket.create_server((LOOPBACK, 0), backlog=64)
        host, port, *_ = self._server.getsockname()
        self.address = f"{host} {port}"
        self._said: dict[socket.socket, bytes] = {}

    def __enter__(self) -> "_Listener":
        return self

    def __exit__(self, *error: object) -> None:
        for knock in (self._server, *self._said):
            knock.close()

    def heard(self, words: Collection[str], timeout_s: float) -> frozenset[str]:
        """Wait until all words have arrived, at most for the timeout; return those that arrived."""
        deadline_s = stopwatch_s() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            while not self._words().issuperset(words) and (
                ready := selector.select(max(0.0, deadline_s - stopwatch_s()))
            ):
                for key, _ in ready:
                    self._take(key.fileobj, selector)
        return self._words()

    def _take(self, ready: object, selector: selectors.BaseSelector) -> None:
        if ready is self._server:
            knock, _ = self._server.accept()
            self._said[knock] = b""
            selector.register(knock, selectors.EVENT_READ)
            return
        assert isinstance(ready, socket.socket)
        said = b""
        with suppress(OSError):
            said = ready.recv(64)
        self._said[ready] += said
        if not said:
            selector.unregister(ready)

    def _words(self) -> frozenset[str]:
        lines = (each.partition(b"\n") for each in self._said.values())
        return frozenset(word.decode("ascii", "replace") for word, end, _ in lines if end)
