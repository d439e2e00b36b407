"""The init program of one machine: it starts processes, and kills them when the harness ends.

The agent reads requests as JSON lines from standard input. The agent answers each request with a
JSON line on standard output. The agent ends when standard input ends or when the harness, its
parent, dies. Before that, it kills all processes that it started, even paused processes. The agent
also watches the harness, because a forked worker may keep the pipe open.

The agent needs the standard library only. Python runs the agent's file in isolated mode and without
site-packages (`command_line`). So the agent starts in about 50 ms, without modules of the user. The
agent has only one thread: the death signal of a child (PR_SET_PDEATHSIG, man 2 prctl) is tied to
the thread that started the child.
"""

import contextlib
import ctypes
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from runpy import run_path
from typing import Any

SHAPER = str(Path(__file__).resolve().with_name("shaper.py"))
SOCKETS = str(Path(__file__).resolve().with_name("sockets.py"))
_program = cache(run_path)
Message = dict[str, Any]
"""A JSON object. All messages in the pipe have this type."""

LOOPBACK = "127.0.0.1"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
READ_BYTES = 1 << 16
ORPHAN_CHECK_S = 0.5
"""The seconds between two checks of the parent, if the kernel has no pidfd (macOS)."""
FAKED = "FAKETIME_TIMESTAMP_FILE"
"""The environment variable of a process whose clock libfaketime shifts."""
REMEMBERED_NONCES = 10_000
QUESTION, ANSWER = b"\0?", b"\0!"
"""The first bytes of a series' datagram. The series' name, a number and filling bytes follow."""
SERIES_BYTES, NUMBER_BYTES = 16, 4
HEAD_BYTES = len(QUESTION) + SERIES_BYTES + NUMBER_BYTES
REMEMBERED_SERIES = 200
REMEMBERED_EXITS = 1000
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER_BYTES = 8 << 20
FLOWS = 20
"""The number of sockets that send series; equals `cluster.protocol.links.MOST_FLOWS`."""
DROPPED = "dropped "
"""The start of the last line that a shaper prints. The number of dropped packets follows."""
SHAPER_START_S = 10.0
SHAPER_END_S = 5.0
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000


def command_line(parent_pid: int, *, listen: str = LOOPBACK) -> list[str]:
    """Return the command line of an agent that ends with its parent process.

    Args:
        parent_pid: The process id of the parent.
        listen: The address at which the agent receives datagrams.
    """
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(parent_pid), listen]


def now_ns() -> int:
    """Return this machine's monotonic clock in nanoseconds."""
    return time.monotonic_ns()  # noqa: TID251 - standard library only


class Series:
    """A series of numbered datagrams that this machine sends, and the received answers.

    Args:
        order: The request: `series` (the name), `address` and `port` of the receiver, `count`, and
            `size` in bytes. `interval_s` is the average gap, and `burst` is how many datagrams to
            send at once. `flows` is the number of sockets, which are used in turn.
    """

    def __init__(self, order: Message) -> None:
        self._name = bytes.fromhex(order["series"])
        self._to = (order["address"], order["port"])
        self._count: int = order["count"]
        self._filling = bytes(max(0, order["size"] - HEAD_BYTES))
        self._interval_ns = int(order["interval_s"] * NS_PER_S)
        self._burst: int = order["burst"]
        self._flows: int = order["flows"]
        self._start_ns = now_ns()
        self._sent_ns: list[int] = []
        self._round_trips_ns: dict[int, int] = {}

    def due_ns(self) -> int | None:
        """Return the time at which the next datagram is due; None if all are sent."""
        number = len(self._sent_ns)
        first_of_burst = number - number % self._burst
        return (
            None if number == self._count else self._start_ns + first_of_burst * self._interval_ns
        )

    def send_due(self, datagrams: "list[socket.socket]") -> None:
        """Send all datagrams that are due now."""
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns():
            number = len(self._sent_ns)
            name = self._name + number.to_bytes(NUMBER_BYTES, "big")
            self._sent_ns.append(now_ns())
            with contextlib.suppress(OSError):  # A datagram that cannot be sent counts as lost.
                datagrams[number % self._flows].sendto(QUESTION + name + self._filling, self._to)

    def answered(self, number: int) -> None:
        """Record that the answer to one datagram arrived."""
        if number < len(self._sent_ns):
            self._round_trips_ns.setdefault(number, now_ns() - self._sent_ns[number])

    def told(self) -> Message:
        """Return the number of sent datagrams, and each answer's round trip in milliseconds."""
        trips = sorted(self._round_trips_ns.items())
        round_trip_ms = [trip / NS_PER_MS for _, trip in trips]
        return {"sent": len(self._sent_ns), "round_trip_ms": round_trip_ms}


class Arrivals:
    """The datagrams that arrived on this machine from another machine's series."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._first_ns = self._last_ns = now_ns()

    def arrived(self, number: int) -> None:
        """Record that one datagram arrived."""
        self._numbers.append(number)
        self._last_ns = now_ns()

    def told(self) -> Message:
        """Return the numbers in order of arrival, and the seconds from first to last datagram."""
        lasted_ns = self._last_ns - self._first_ns
        return {"numbers": self._numbers, "lasted_s": lasted_ns / NS_PER_S}


class Agent:
    """The init of one machine: its child processes, datagram socket and pipe to the harness."""

    def __init__(self, parent_pid: int, listen: str) -> None:
        self._parent_pid = parent_pid
        self._listen = listen
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._faked: set[int] = set()
        self._nonces: dict[str, None] = {}
        self._series: dict[str, Series] = {}
        self._arrivals: dict[bytes, Arrivals] = {}
        self._shapers: dict[str, subprocess.Popen[bytes]] = {}
        self._input = b""
        self._alive = True
        self._selector = selectors.DefaultSelector()
        self._flows = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(FLOWS)]
        self._datagrams = self._flows[0]
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._exits: dict[int, int] = {}
        self._deeds: dict[str, Callable[[Message], Message]] = {
            "ping": self._ping,
            "spawn": self._spawn,
            "run": self._run,
            "sockets": self._sockets,
            "send": self._send,
            "seen": self._seen,
            "signal": self._signal,
            "state": self._state,
            "exit": self._exit,
            "series": self._start_series,
            "returned": self._returned,
            "arrived": self._arrived,
            "shape": self._shape,
            "unshape": self._unshape,
        }

    def serve(self) -> None:
        """Answer requests until the harness ends; then kill all processes that were started."""
        self._prepare()
        try:
            while self._alive:
                for key, _ in self._selector.select(self._patience_s()):
                    key.data()
                for series in self._series.values():
                    series.send_due(self._flows)
                if os.getppid() != self._parent_pid:
                    self._alive = False
        finally:
            self._kill_all()

    def _prepare(self) -> None:
        if self._libc is not None:
            # Our children's orphans become our children, so they cannot outlive the agent either.
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        for flow in self._flows:
            flow.bind((self._listen, 0))
            flow.settimeout(0)
            with contextlib.suppress(OSError):
                # The buffer holds several series at once, in case the agent reads late.
                flow.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
            self._selector.register(flow, selectors.EVENT_READ, partial(self._receive, flow))
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._read)
        self._watch_signals()
        self._watch_parent()

    def _watch_signals(self) -> None:
        """Turn SIGCHLD and SIGTERM into readable bytes; ignore Ctrl-C."""
        self._wake, self._wake_writer = socket.socketpair()
        self._wake.settimeout(0)
        self._wake_writer.settimeout(0)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        # Not SIG_IGN: children would inherit it.
        signal.signal(signal.SIGINT, lambda *_: None)

    def _watch_parent(self) -> None:
        if sys.platform == "linux":
            try:
                parent = os.pidfd_open(self._parent_pid)
            except ProcessLookupError:
                self._stop()
            except OSError:
                return  # No pidfd here: the loop checks the parent.
            else:
                self._selector.register(parent, selectors.EVENT_READ, self._stop)

    def _stop(self) -> None:
        self._alive = False

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(READ_BYTES)
        self._reap()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._tidy(ended[0])
                child = self._children.pop(ended[0], None)
                if child is not None:
                    child.returncode = os.waitstatus_to_exitcode(ended[1])
                    _forget_oldest(self._exits, REMEMBERED_EXITS)
                    self._exits[ended[0]] = child.returncode

    def _tidy(self, pid: int) -> None:
        """Remove the files in `/dev/shm` that libfaketime leaves when a process is killed."""
        if pid in self._faked:
            self._faked.discard(pid)
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                Path("/dev/shm", name).unlink(missing_ok=True)  # noqa: S108 - the library's place

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = os.read(sys.stdin.fileno(), READ_BYTES)
        if not data:
            self._stop()
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._answer(json.loads(line))

    def _answer(self, request: Message) -> None:
        try:
            answer = self._deeds[request["do"]](request)
        except (OSError, subprocess.SubprocessError) as error:
            answer = {"error": str(error)}
        line = json.dumps({**answer, "id": request["id"]}).encode() + b"\n"
        try:
            while line:
                line = line[os.write(sys.stdout.fileno(), line) :]
        except ConnectionError:
            self._stop()

    def _ping(self, _request: Message) -> Message:
        return {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "port": self._datagrams.getsockname()[1],
        }

    def _spawn(self, request: Message) -> Message:
        log = Path(request["log"])
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            child = subprocess.Popen(  # noqa: S603 - what the harness asks for
                request["argv"],
                cwd=request["cwd"],
                env={**os.environ, **request["env"]},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=self._die_with_agent,  # noqa: PLW1509 - the agent has one thread
            )
        self._children[child.pid] = child
        self._exits.pop(child.pid, None)  # The code belongs to an earlier process with this pid.
        if FAKED in request["env"]:
            self._faked.add(child.pid)
        return {"pid": child.pid, "start_ticks": start_ticks(child.pid)}

    def _die_with_agent(self) -> None:
        if self._libc is not None:
            self._libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))

    def _run(self, request: Message) -> Message:
        done = subprocess.run(  # noqa: S603 - what the harness asks for
            request["argv"],
            input=request["input"],
            capture_output=True,
            text=True,
            errors="replace",  # No output of a program may end the agent.
            timeout=request["timeout_s"],
            check=False,
        )
        return {"code": done.returncode, "output": done.stdout, "errors": done.stderr}

    def _sockets(self, request: Message) -> Message:
        """Run the function of `sockets.py` that the request names."""
        order = request["order"]
        return dict(_program(SOCKETS)["DEEDS"][order["do"]](order))

    def _send(self, request: Message) -> Message:
        for address, port, nonce in request["datagrams"]:
            # An unreachable address is not an error here: the harness sees that the nonce did not
            # arrive.
            with contextlib.suppress(OSError):
                self._datagrams.sendto(nonce.encode(), (address, port))
        return {}

    def _seen(self, request: Message) -> Message:
        self._receive(self._datagrams)
        return {"nonces": sorted(set(request["nonces"]) & self._nonces.keys())}

    def _receive(self, flow: socket.socket) -> None:
        # An error of an earlier datagram, such as ECONNREFUSED, ends the loop as well.
        with contextlib.suppress(OSError):
            while True:
                data, sender = flow.recvfrom(READ_BYTES)
                self._take(data, sender)

    def _take(self, data: bytes, sender: tuple[str, int]) -> None:
        form, name = data[: len(QUESTION)], data[len(QUESTION) : HEAD_BYTES - NUMBER_BYTES]
        number = int.from_bytes(data[HEAD_BYTES - NUMBER_BYTES : HEAD_BYTES], "big")
        if form == QUESTION:
            if name not in self._arrivals:
                _forget_oldest(self._arrivals, REMEMBERED_SERIES)
            self._arrivals.setdefault(name, Arrivals()).arrived(number)
            self._datagrams.sendto(ANSWER + data[len(QUESTION) : HEAD_BYTES], sender)
        elif form == ANSWER:
            if series := self._series.get(name.hex()):
                series.answered(number)
        else:
            _forget_oldest(self._nonces, REMEMBERED_NONCES)
            self._nonces[data.decode(errors="replace")] = None

    def _patience_s(self) -> float:
        """Return how many seconds the agent may wait for requests before it has a task to do."""
        due_ns = [due for series in self._series.values() if (due := series.due_ns()) is not None]
        if not due_ns:
            return ORPHAN_CHECK_S
        return min(max(0, min(due_ns) - now_ns()) / NS_PER_S, ORPHAN_CHECK_S)

    def _start_series(self, request: Message) -> Message:
        if request["flows"] > FLOWS:
            return {"error": f"the agent can send from {FLOWS} ports, not from {request['flows']}"}
        _forget_oldest(self._series, REMEMBERED_SERIES)
        self._series[request["series"]] = Series(request)
        return {}

    def _returned(self, request: Message) -> Message:
        for flow in self._flows:
            self._receive(flow)
        found = {name: self._series.get(name) for name in request["series"]}
        # The agent forgets old series. It then answers as if nothing had been sent.
        none = {"sent": 0, "round_trip_ms": []}
        return {"series": {name: each.told() if each else none for name, each in found.items()}}

    def _arrived(self, request: Message) -> Message:
        self._receive(self._datagrams)
        found = {name: self._arrivals.get(bytes.fromhex(name)) for name in request["series"]}
        return {"series": {name: (each or Arrivals()).told() for name, each in found.items()}}

    def _shape(self, request: Message) -> Message:
        """Start a shaper, and wait until it is ready. The shaper ends when its input closes."""
        shaper = subprocess.Popen(  # noqa: S603 - our own program
            [*request["prefix"], sys.executable, "-I", "-S", SHAPER, json.dumps(request["order"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=self._die_with_agent,  # noqa: PLW1509 - the agent has one thread
        )
        self._children[shaper.pid] = shaper
        self._shapers[request["order"]["device"]] = shaper
        said = _first_line(shaper)
        return {} if said == "ready" else {"error": said or "the shaper did not start"}

    def _unshape(self, request: Message) -> Message:
        """End a shaper, which removes its device and routes; kill a slow shaper. Idempotent."""
        shaper = self._shapers.pop(request["device"], None)
        if shaper is None or shaper.stdin is None or shaper.stdout is None:
            return {"was": "none"}
        was = "gone" if shaper.poll() is not None else "running"
        shaper.stdin.close()
        killed = False
        try:
            shaper.wait(SHAPER_END_S)
        except subprocess.TimeoutExpired:
            killed = True
            shaper.kill()
            shaper.wait(SHAPER_END_S)
        # If the killed process was a prefix (sudo, nsenter), the shaper may keep the pipe open.
        said = "" if killed else shaper.stdout.read().decode(errors="replace")
        shaper.stdout.close()
        self._children.pop(shaper.pid, None)
        dropped = said.rpartition(DROPPED)[2].strip()
        return {"was": was, "killed": killed, "dropped": int(dropped) if dropped.isdigit() else 0}

    def _signal(self, request: Message) -> Message:
        """Send a signal to the process group of a process, if the process still exists."""
        if state(request["pid"], request["start_ticks"]) in {None, "Z", "X"}:
            return {"sent": False}
        with contextlib.suppress(ProcessLookupError):
            os.killpg(request["pid"], request["number"])
            return {"sent": True}
        return {"sent": False}

    def _state(self, request: Message) -> Message:
        return {"state": state(request["pid"], request["start_ticks"])}

    def _exit(self, request: Message) -> Message:
        """Return the exit code of a child, or minus the signal that ended it; null if unknown."""
        self._reap()
        return {"code": self._exits.get(request["pid"])}

    def _kill_all(self) -> None:
        """Kill the groups of all child processes, then adopted orphans, until no child is left."""
        for pid in list(self._children):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                for pid in child_pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._tidy(os.waitpid(-1, 0)[0])


def _forget_oldest(remembered: dict[Any, Any], limit: int) -> None:
    """Delete the oldest entries until one more entry fits below the limit."""
    while len(remembered) >= limit:
        del remembered[next(iter(remembered))]


def _first_line(process: "subprocess.Popen[bytes]") -> str:
    """Return the first line that a program prints; empty if it does not print a line in time."""
    if process.stdout is None or not select.select([process.stdout], [], [], SHAPER_START_S)[0]:
        return ""
    return process.stdout.readline().decode(errors="replace").strip()


def child_pids() -> list[int]:
    """Return the pids of this process's own and adopted children; [] without `/proc`."""
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in listing.read_text().split()] if listing.exists() else []


def start_ticks(pid: int) -> int:
    """Return a process's start time: field 22 of `/proc/PID/stat` (man 5 proc); 0 if unknown."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def state(pid: int, started: int) -> str | None:
    """Return a process's state letter; None if the process ended or its pid was reused."""
    fields = stat_fields(pid)
    return fields[0] if fields and int(fields[19]) == started else None


def stat_fields(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the second field; [] without the file."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    # The command's name is in parentheses. The name itself may contain blanks and parentheses.
    return stat.rpartition(")")[2].split()


if __name__ == "__main__":
    Agent(int(sys.argv[1]), sys.argv[2]).serve()
