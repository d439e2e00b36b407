"""Runs a command in a process session of its own, which always ends when this process ends.

The session contains all processes that the command starts, except those that begin a new session.
Brokers and client workers begin a new session, so `logquake heal` ends them. The guard process
imports no other module.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUARD = "from benchmarks.guarded import guard; guard()"
END_LIMIT_S = 600.0
"""Seconds until a command must end after Ctrl-C. A suite first finishes its active runs."""
POLL_S, POLLS = 0.01, 3000
"""Half a minute: how often and how long a killed session is looked for."""
ENDED = frozenset("ZX")
"""The states in /proc/PID/stat of a process that runs no more (proc(5)): zombie and dead."""


def run(argv: Sequence[str], log: Path, *, limit_s: float) -> int | None:
    """Run a command to its end. Return its exit code, or None if it reaches the time limit.

    The command has a session of its own. A guard process kills that session if this process ends,
    or if the command reaches the time limit.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C. The command was interrupted, and has ended.
    """
    child = _begun(argv, log)
    assert child.stdin is not None
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            child.wait(END_LIMIT_S)
        raise
    finally:
        child.stdin.close()
        child.wait()


@contextmanager
def beside(argv: Sequence[str], log: Path) -> Iterator[None]:
    """Run a command in the background of the block.

    Its process session is killed at the end of the block, or when this process ends.
    """
    child = _begun(argv, log)
    assert child.stdin is not None
    try:
        yield
    finally:
        child.stdin.close()
        child.wait()


def _begun(argv: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with log.open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-c", GUARD, *argv], stdin=subprocess.PIPE, stdout=said, stderr=said,
            cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, start_new_session=True,
        )  # fmt: skip


def guard() -> None:
    """Run the command in this process's arguments. Kill the session when standard input closes."""
    ending = threading.Lock()
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Only now, because the command would inherit it.

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        with ending:
            kill_session()

    threading.Thread(target=watch, daemon=True).start()
    status = child.wait()
    with ending:  # Do not exit before all other processes are killed.
        sys.exit(status)


def kill_session() -> None:
    """Kill all processes of our process session (setsid), and this process last.

    A killed process lives on until the kernel has ended it. So this process ends only when no other
    process of the session runs, or after the time limit.
    """
    for _ in range(POLLS):
        others = _session()
        for pid in others:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if ENDED.issuperset(others.values()):
            break
        threading.Event().wait(POLL_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _session() -> dict[int, str]:
    """Return the other processes of our process session (setsid): id and state."""
    ours, found = os.getsid(0), dict[int, str]()
    for folder in Path("/proc").iterdir():
        with suppress(ValueError, FileNotFoundError, ProcessLookupError, PermissionError):
            pid = int(folder.name)
            state, _, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(session) == ours and pid != os.getpid():
                found[pid] = state
    return found
