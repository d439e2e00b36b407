"""The harness's end of the conversation with an agent."""

import itertools
import json
import os
import signal
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cluster.hosts.agent import LOOPBACK, Message
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.line import END_TIMEOUT_S, Line, PipeLine
from cluster.hosts.signals import process_id
from cluster.protocol import ClusterError, Command, ProcessId, ShapeEnd

__all__ = ["END_TIMEOUT_S", "Machine"]

START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 20.0
"""Generous limits: while JVMs start on two cores, an agent may wait seconds for its turn."""


class Machine:
    """One agent, and what it can be asked. Safe to use from several threads.

    Args:
        node: The node, for messages and for the ledger.
        ledger: Where the agent and all that it starts are written down.
        prefix: What the agent is started through: `unshare --net ... --`, or nothing.
        listen: The address at which it hears datagrams of probes.
        line: The way to an agent that was started elsewhere, by whose machine processes are
            numbered then; None: one is started here.
    """

    def __init__(
        self,
        node: str,
        ledger: ProcessLedger,
        *,
        prefix: Sequence[str] = (),
        listen: str = LOOPBACK,
        line: Line | None = None,
    ) -> None:
        self.node = node
        self._ledger = ledger
        self._lock = threading.Lock()
        self._buffer = b""
        self._request_ids = itertools.count()
        self._elsewhere = line is not None
        ledger.intend("agent", node)
        self.line: Line = line or PipeLine(ledger.path, prefix=prefix, listen=listen)

    def wait_ready(self) -> None:
        """Wait until the agent answers, and write down its process."""
        answer = self._ask({"do": "ping"}, timeout_s=START_TIMEOUT_S)
        self.process = self._process(answer)
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
        process = self._process(answer)
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

    def sockets(self, order: Message) -> Message:
        """Have `sockets.py` do something on the machine; return what it says."""
        return self._ask({"do": "sockets", "order": order})

    def send(self, datagrams: Sequence[tuple[str, int, str]]) -> None:
        """Send datagrams: (address, port, nonce) each."""
        self._ask({"do": "send", "datagrams": list(datagrams)})

    def seen(self, nonces: Iterable[str]) -> frozenset[str]:
        """Return which of the nonces have arrived so far."""
        return frozenset(self._ask({"do": "seen", "nonces": list(nonces)})["nonces"])

    def start_series(self, series: str, to: tuple[str, int], spacing: Message) -> None:
        """Send numbered datagrams to (address, port), spaced as `agent.Series` says."""
        address, port = to
        self._ask({"do": "series", "series": series, "address": address, "port": port, **spacing})

    def returned(self, series: Sequence[str]) -> Message:
        """Return `sent` and `round_trip_ms` of each of our series."""
        return self._ask({"do": "returned", "series": list(series)})

    def arrived(self, series: Sequence[str]) -> Message:
        """Return `numbers` as they arrived here and `lasted_s` of each of others' series."""
        return self._ask({"do": "arrived", "series": list(series)})

    def shape(self, order: Message, *, prefix: Sequence[str] = ()) -> None:
        """Start a shaper (see `shaper.main`), through sudo maybe; it ends with the agent."""
        self._ask({"do": "shape", "order": order, "prefix": list(prefix)})

    def unshape(self, device: str) -> ShapeEnd | None:
        """End a shaper and return how that went; None: there was none."""
        told = self._ask({"do": "unshape", "device": device})
        if told["was"] == "none":
            return None
        return ShapeEnd(gone=told["was"] == "gone", killed=told["killed"], dropped=told["dropped"])

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the group that a process leads; False if it has ended already."""
        request = {"do": "signal", "number": int(number), **_named(process)}
        sent: bool = self._ask(request)["sent"]
        return sent

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of its state, as in `/proc/PID/stat`; None: there is none any more."""
        state: str | None = self._ask({"do": "state", **_named(process)})["state"]
        return state

    def exit_of(self, process: ProcessId) -> int | None:
        """Return the exit code of what was spawned here, or minus the signal that ended it.

        None: it has not ended, or nobody saw its end.
        """
        code: int | None = self._ask({"do": "exit", **_named(process)})["code"]
        return code

    def close(self) -> None:
        """Tell the agent to kill all that it started, and to end."""
        self.line.close()

    def wait_closed(self) -> None:
        """Wait until the agent has ended; one that does not is killed, and its children with it."""
        self.line.wait_closed()

    def _ask(
        self, request: Message, *, node: str = "", timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Message:
        with self._lock:
            request_id = next(self._request_ids)
            line = json.dumps({**request, "id": request_id}).encode() + b"\n"
            try:
                self.line.send(line, timeout_s)
                # Ctrl-C may have interrupted an earlier request, whose answer comes first then.
                answer: Message = {"id": None}
                while answer["id"] != request_id:
                    answer = json.loads(self._read_line(timeout_s))
            except OSError as error:
                raise ClusterError(self._lost(str(error))) from error
        if "error" in answer:
            where = node or self.node
            raise ClusterError(f"cannot {request['do']} on {where}: {answer['error']}")
        return answer

    def _read_line(self, timeout_s: float) -> bytes:
        while b"\n" not in self._buffer:
            data = self.line.receive(timeout_s)
            if not data:
                raise ConnectionResetError("it has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _lost(self, why: str) -> str:
        said = f"the agent of {self.node} does not answer ({why}). {self.line.last_words()}"
        return said.strip()

    def _process(self, answer: Message) -> ProcessId:
        """Return the process of an answer; an agent without `/proc` knows not when it began."""
        pid, start_ticks = answer["pid"], answer["start_ticks"]
        process = ProcessId(pid=pid, start_ticks=start_ticks) if start_ticks else process_id(pid)
        return replace(process, machine=self.node) if self._elsewhere else process


def _named(process: ProcessId) -> Message:
    return {"pid": process.pid, "start_ticks": process.start_ticks}
