"""The harness's end of the line to an agent."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from cluster.hosts.agent import LOOPBACK, Message, command_line
from cluster.hosts.ledger import ProcessLedger, mark
from cluster.hosts.signals import process_id
from cluster.protocol import ClusterError, Command, ProcessId

START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 20.0
END_TIMEOUT_S = 10.0
"""Generous limits: while JVMs start on two cores, an agent may wait seconds for its turn."""


class Machine:
    """One agent, and what it can be asked. Safe to use from several threads.

    Args:
        node: The node, for messages and for the ledger.
        ledger: Where the agent and all that it starts are written down.
        prefix: What the agent is started through: `unshare --net ... --`, or nothing.
        listen: The address at which it hears datagrams of probes.
    """

    def __init__(
        self,
        node: str,
        ledger: ProcessLedger,
        *,
        prefix: Sequence[str] = (),
        listen: str = LOOPBACK,
    ) -> None:
        self.node = node
        self._ledger = ledger
        self._lock = threading.Lock()
        self._buffer = b""
        self._request_ids = itertools.count()
        self._errors = ledger.path.with_name("agents.log")
        ledger.intend("agent", node)
        ours, theirs = socket.socketpair()
        self._socket = ours
        with theirs, self._errors.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own agent
                [*prefix, *command_line(os.getpid(), listen=listen)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=errors,
                env={**os.environ, **mark(ledger.path)},
                start_new_session=True,  # Ctrl-C in a terminal is for the harness alone.
            )

    def wait_ready(self) -> None:
        """Wait until the agent answers, and write down its process."""
        answer = self._ask({"do": "ping"}, timeout_s=START_TIMEOUT_S)
        self.process = _process(answer)
        self.probe_port: int = answer["port"]
        self._ledger.started("agent", self.node, self.process)

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process; `node` is the one it is written down for."""
        what = Path(command.argv[0]).name
        self._ledger.intend(what, node)
        request = {
            "do": "spawn",
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": os.fspath(command.cwd.absolute()),
            "log": os.fspath(command.log.absolute()),
        }
        answer = self._ask(request, node=node)
        process = _process(answer)
        self._ledger.started(what, node, process)
        return process

    def run(self, argv: Sequence[str], *, stdin: str = "") -> str:
        """Run a short command on the machine and return its output.

        Raises:
            ClusterError: It failed; the message has what it wrote.
        """
        request = {"do": "run", "argv": list(argv), "input": stdin, "timeout_s": RUN_TIMEOUT_S}
        answer = self._ask(request)
        if answer["code"]:
            errors = answer["errors"].strip() or f"exit code {answer['code']}"
            raise ClusterError(f"{' '.join(argv)} failed on {self.node}: {errors}")
        output: str = answer["output"]
        return output

    def send(self, datagrams: Sequence[tuple[str, int, str]]) -> None:
        """Send datagrams: (address, port, nonce) each."""
        self._ask({"do": "send", "datagrams": list(datagrams)})

    def seen(self, nonces: Iterable[str]) -> frozenset[str]:
        """Return which of the nonces have arrived so far."""
        return frozenset(self._ask({"do": "seen", "nonces": list(nonces)})["nonces"])

    def close(self) -> None:
        """Tell the agent to kill all that it started, and to end."""
        # A forked worker may hold the socket as well: closing ours alone would not end the line.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def wait_closed(self) -> None:
        """Wait until the agent has ended; one that does not is killed, and its children with it."""
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(END_TIMEOUT_S)

    def _ask(
        self, request: Message, *, node: str = "", timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Message:
        with self._lock:
            request_id = next(self._request_ids)
            line = json.dumps({**request, "id": request_id}).encode() + b"\n"
            try:
                self._socket.settimeout(timeout_s)
                self._socket.sendall(line)
                # Ctrl-C may have interrupted an earlier request, whose answer comes first then.
                answer: Message = {"id": None}
                while answer["id"] != request_id:
                    answer = json.loads(self._read_line())
            except OSError as error:
                raise ClusterError(self._lost(str(error))) from error
        if "error" in answer:
            where = node or self.node
            raise ClusterError(f"cannot {request['do']} on {where}: {answer['error']}")
        return answer

    def _read_line(self) -> bytes:
        while b"\n" not in self._buffer:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("it has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _lost(self, why: str) -> str:
        said = self._errors.read_text().strip().splitlines()[-1:] if self._errors.exists() else []
        return " ".join([f"the agent of {self.node} does not answer ({why}).", *said])


def _process(answer: Message) -> ProcessId:
    """Return the process of an answer; an agent without `/proc` does not know when it began."""
    pid, start_ticks = answer["pid"], answer["start_ticks"]
    return ProcessId(pid=pid, start_ticks=start_ticks) if start_ticks else process_id(pid)
