"""Runs a command whose session ends with us, however we end.

The session has all processes that the command starts, except those that begin a session of their
own. The harness starts brokers and players so; `logquake heal` ends what is left of them. The
guard's process imports nothing else.
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
"""After Ctrl-C a suite plays the runs that are under way to their end: some minutes."""


def run(argv: Sequence[str], log: Path, *, limit_s: float) -> int | None:
    """Run a command to its end; return its exit code, or None if it took too long.

    It has a session of its own, and a guard that kills that session if this process is gone, or if
    the command took too long.

    Raises:
        KeyboardInterrupt: Somebody wants to end; the command was interrupted, and has ended.
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
    """Let a command run beside the block; its session is killed when the block ends, or we do."""
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
    """Run the command of our arguments; kill our session when standard input is closed."""
    ending = threading.Lock()
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Now, since the command would inherit it.

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        with ending:
            kill_session()

    threading.Thread(target=watch, daemon=True).start()
    status = child.wait()
    with ending:  # The command's death must not end us before the others are killed.
        sys.exit(status)


def kill_session() -> None:
    """Kill all processes of our session, of whatever group, and this process last.

    A process to which SIGKILL was sent forks no more. So, once a look at all processes shows
    nothing but what was killed, nothing is left.
    """
    killed: set[int] = {os.getpid()}
    while found := _session() - killed:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
    os.kill(os.getpid(), signal.SIGKILL)


def _session() -> set[int]:
    """Return the processes of our session."""
    ours, found = os.getsid(0), set[int]()
    for folder in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError, PermissionError):
            pid = int(folder.name)
            if os.getsid(pid) == ours:
                found.add(pid)
    return found
