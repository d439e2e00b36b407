"""Send requests to the agent of one machine, and receive the agent's answers."""

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
"""Timeouts are generous: while JVMs start on two cores, an agent may wait seconds for a core."""


class Machine:
    """The agent of one machine, and the requests to this agent. Thread-safe.

    Args:
        node: The node's name, for messages and the ledger.
        ledger: The ledger that records the agent and each process that the agent starts.
        prefix: The beginning of the agent's command line, such as `unshare --net ... --`; may be
            empty.
        listen: The address at which the agent receives datagrams of probes.
        line: The connection to an agent on another machine. Process ids are then ids on that
            machine. None means that an agent is started here.
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
        """Wait until the agent answers, and record the agent's process."""
        answer = self._ask({"do": "ping"}, timeout_s=START_TIMEOUT_S)
        self.process = self._process(answer)
        self.probe_port: int = answer["port"]
        self._ledger.started("agent", self.node, self.process)

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process, and record it in the ledger as a process of `node`."""
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
            ClusterError: The command failed. The message contains the command's error output.
        """
        request = {"do": "run", "argv": list(argv), "input": stdin, "timeout_s": RUN_TIMEOUT_S}
        answer = self._ask(request)
        if answer["code"]:
            errors = answer["errors"].strip() or f"exit code {answer['code']}"
            raise ClusterError(f"{' '.join(argv)} failed on {self.node}: {errors}")
        output: str = answer["output"]
        return output

    def sockets(self, order: Message) -> Message:
        """Run a function of `sockets.py` on the machine, and return the function's result."""
        return self._ask({"do": "sockets", "order": order})

    def send(self, datagrams: Sequence[tuple[str, int, str]]) -> None:
        """Send datagrams, each given as (address, port, nonce)."""
        self._ask({"do": "send", "datagrams": list(datagrams)})

    def seen(self, nonces: Iterable[str]) -> frozenset[str]:
        """Return the nonces that have arrived so far."""
        return frozenset(self._ask({"do": "seen", "nonces": list(nonces)})["nonces"])

    def start_series(self, series: str, to: tuple[str, int], spacing: Message) -> None:
        """Send a series of numbered datagrams to (address, port).

        `agent.Series` describes the values of `spacing`.
        """
        address, port = to
        self._ask({"do": "series", "series": series, "address": address, "port": port, **spacing})

    def returned(self, series: Sequence[str]) -> Message:
        """Return `sent` and `round_trip_ms` of each series that this machine sent."""
        return self._ask({"do": "returned", "series": list(series)})

    def arrived(self, series: Sequence[str]) -> Message:
        """Return `numbers` (in order of arrival) and `lasted_s` of each series that arrived."""
        return self._ask({"do": "arrived", "series": list(series)})

    def shape(self, order: Message, *, prefix: Sequence[str] = ()) -> None:
        """Start a shaper (see `shaper.main`), perhaps through sudo; it ends with the agent."""
        self._ask({"do": "shape", "order": order, "prefix": list(prefix)})

    def unshape(self, device: str) -> ShapeEnd | None:
        """End a shaper and return how it ended; None if there was no shaper."""
        told = self._ask({"do": "unshape", "device": device})
        if told["was"] == "none":
            return None
        return ShapeEnd(gone=told["was"] == "gone", killed=told["killed"], dropped=told["dropped"])

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to a process's group; return False if the process has already ended."""
        request = {"do": "signal", "number": int(number), **_named(process)}
        sent: bool = self._ask(request)["sent"]
        return sent

    def state_of(self, process: ProcessId) -> str | None:
        """Return a process's state letter, as in `/proc/PID/stat`; None if the process has gone."""
        state: str | None = self._ask({"do": "state", **_named(process)})["state"]
        return state

    def exit_of(self, process: ProcessId) -> int | None:
        """Return the exit code of a process of this agent, or minus the signal that ended it.

        Return None if the process has not ended, or if the agent did not see the end.
        """
        code: int | None = self._ask({"do": "exit", **_named(process)})["code"]
        return code

    def close(self) -> None:
        """Let the agent kill all processes that it started. Then the agent ends."""
        self.line.close()

    def wait_closed(self) -> None:
        """Wait until the agent has ended. After a timeout, kill the agent and thus its children."""
        self.line.wait_closed()

    def _ask(
        self, request: Message, *, node: str = "", timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Message:
        with self._lock:
            request_id = next(self._request_ids)
            line = json.dumps({**request, "id": request_id}).encode() + b"\n"
            try:
                self.line.send(line, timeout_s)
                # Ctrl-C may have interrupted an earlier request. Its answer then comes first.
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
        """Return the process that an answer names.

        Without `/proc` the agent cannot report the process's start time.
        """
        pid, start_ticks = answer["pid"], answer["start_ticks"]
        process = ProcessId(pid=pid, start_ticks=start_ticks) if start_ticks else process_id(pid)
        return replace(process, machine=self.node) if self._elsewhere else process


def _named(process: ProcessId) -> Message:
    return {"pid": process.pid, "start_ticks": process.start_ticks}
