"""The init of one machine: starts its processes, and takes them along when the harness goes.

Reads requests as JSON lines from standard input, answers each with a JSON line on standard output.
It ends, and kills all that it started (paused ones too), when standard input ends or when its
parent, the harness, has died; that is watched as well because a forked worker of the harness may
hold the other end of the line open.

Needs the standard library only, and nothing of ours: it is run by its path, in isolated mode and
without site-packages (`command_line`), so that it starts in some 50 ms, from any working directory,
and no module of the user's gets in the way. Single-threaded on purpose: the death signal of a child
(PR_SET_PDEATHSIG, man 2 prctl) is tied to the thread that started it.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]
"""A JSON object: the one place where the two ends of a pipe need no common type."""

LOOPBACK = "127.0.0.1"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
READ_BYTES = 1 << 16
ORPHAN_CHECK_S = 0.5
"""Where the kernel has no pidfd (macOS), how often the agent looks if its parent still lives."""
REMEMBERED_NONCES = 10_000


def command_line(parent_pid: int, *, listen: str = LOOPBACK) -> list[str]:
    """Return the argv of an agent that lives no longer than its parent process.

    Args:
        parent_pid: The parent.
        listen: The address at which it hears datagrams.
    """
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(parent_pid), listen]


class Agent:
    """One machine's init: its children, its datagram socket, its line to the harness."""

    def __init__(self, parent_pid: int, listen: str) -> None:
        self._parent_pid = parent_pid
        self._listen = listen
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._nonces: set[str] = set()
        self._input = b""
        self._alive = True
        self._selector = selectors.DefaultSelector()
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._deeds: dict[str, Callable[[Message], Message]] = {
            "ping": self._ping,
            "spawn": self._spawn,
            "run": self._run,
            "send": self._send,
            "seen": self._seen,
        }

    def serve(self) -> None:
        """Answer requests until the harness has gone; then kill what was started."""
        self._prepare()
        try:
            while self._alive:
                for key, _ in self._selector.select(ORPHAN_CHECK_S):
                    key.data()
                if os.getppid() != self._parent_pid:
                    self._alive = False
        finally:
            self._kill_all()

    def _prepare(self) -> None:
        if self._libc is not None:
            # Orphans of our children become ours, so that they cannot outlive us either.
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._datagrams.bind((self._listen, 0))
        self._datagrams.settimeout(0)
        self._selector.register(self._datagrams, selectors.EVENT_READ, self._receive)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._read)
        self._watch_signals()
        self._watch_parent()

    def _watch_signals(self) -> None:
        """Turn SIGCHLD and SIGTERM into readable bytes; Ctrl-C is for the harness to answer."""
        self._wake, wake_writer = socket.socketpair()
        self._wake.settimeout(0)
        wake_writer.settimeout(0)
        self._wake_writer = wake_writer
        signal.set_wakeup_fd(wake_writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        # Not SIG_IGN, which the children would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)

    def _watch_parent(self) -> None:
        if sys.platform == "linux":
            try:
                parent = os.pidfd_open(self._parent_pid)
            except ProcessLookupError:
                self._stop()
            except OSError:
                return  # Older kernels and some containers have no pidfd; the loop looks itself.
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
                child = self._children.pop(ended[0], None)
                if child is not None:
                    child.returncode = os.waitstatus_to_exitcode(ended[1])

    def _read(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), READ_BYTES)
        except ConnectionError:
            data = b""
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
            timeout=request["timeout_s"],
            check=False,
        )
        return {"code": done.returncode, "output": done.stdout, "errors": done.stderr}

    def _send(self, request: Message) -> Message:
        for address, port, nonce in request["datagrams"]:
            # An unreachable address is an answer too: the nonce does not arrive.
            with contextlib.suppress(OSError):
                self._datagrams.sendto(nonce.encode(), (address, port))
        return {}

    def _seen(self, request: Message) -> Message:
        self._receive()
        return {"nonces": sorted(self._nonces.intersection(request["nonces"]))}

    def _receive(self) -> None:
        # ECONNREFUSED and the like of an earlier datagram of ours end the loop as well.
        with contextlib.suppress(OSError):
            while data := self._datagrams.recv(READ_BYTES):
                if len(self._nonces) >= REMEMBERED_NONCES:
                    self._nonces.clear()  # All but the newest were asked for long ago.
                self._nonces.add(data.decode(errors="replace"))

    def _kill_all(self) -> None:
        """SIGKILL the groups of our children, then orphans, until there is no child left."""
        for pid in list(self._children):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                for pid in child_pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                os.waitpid(-1, 0)


def child_pids() -> list[int]:
    """Return the pids of our children, adopted ones included; none where there is no `/proc`."""
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in listing.read_text().split()] if listing.exists() else []


def start_ticks(pid: int) -> int:
    """Return field 22 of `/proc/PID/stat` (man 5 proc), 0 where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The command's name, in parentheses, may hold blanks and parentheses itself.
    return int(stat.rpartition(")")[2].split()[19])


if __name__ == "__main__":
    Agent(int(sys.argv[1]), sys.argv[2]).serve()
