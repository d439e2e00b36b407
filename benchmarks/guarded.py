"""Runs a command that ends with us, however we end. The guard's process imports nothing else."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUARD = "from benchmarks.guarded import guard; guard()"
END_LIMIT_S = 600.0
"""After Ctrl-C a suite plays the runs that are under way to their end: some minutes."""


def run(argv: Sequence[str], log: Path, *, limit_s: float) -> int | None:
    """Run a command to its end; return its exit code, or None if it took too long.

    It has a session of its own, and a guard that kills that session if this process is gone.

    Raises:
        KeyboardInterrupt: Somebody wants to end; the command was interrupted, and has ended.
    """
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with log.open("ab") as said:
        child = subprocess.Popen(
            [sys.executable, "-c", GUARD, *argv], stdin=subprocess.PIPE, stdout=said, stderr=said,
            cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, start_new_session=True,
        )  # fmt: skip
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


def guard() -> None:
    """Run the command of our arguments; kill our session when standard input is closed."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Now, since the command would inherit it.

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    sys.exit(child.wait())
