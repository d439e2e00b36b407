"""A Docker daemon for tests, and an independent view of it by Docker's own command line."""

import contextlib
import fcntl
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cluster.hosts.docker.daemon import connect
from cluster.protocol import UserError
from results.record.clock import WaitTimeoutError, wait_until

USERS = Path("/run/logquake-tests-docker")
"""The lock file of the daemon's users. Its folder `/run` is empty after a boot."""
_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""The daemons that this process started; other processes may have ended them."""
START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0


@contextmanager
def daemon() -> Iterator[None]:
    """Ensure that a Docker daemon runs during the block.

    If a daemon already runs, it is used. Otherwise one is started, and its last user ends it.
    Several test workers share the daemon. Each worker holds a shared lock on a file (man 2 flock).
    If the tests started the daemon, the file contains its process id.
    """
    with USERS.open("a+") as users:
        with _alone():
            fcntl.flock(users, fcntl.LOCK_SH)
            if not answers():
                users.truncate(0)
                users.write(f"{_started()}")
                users.flush()
        try:
            yield
        finally:
            with _alone(), contextlib.suppress(BlockingIOError):  # Other processes still use it.
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                users.seek(0)
                if ours := users.read():
                    _end(int(ours))
                    users.truncate(0)


@contextmanager
def _alone() -> Iterator[None]:
    """Let only one worker at a time look for the daemon, start it or end it."""
    with USERS.with_suffix(".alone").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _started() -> int:
    """Start a daemon; return its process id when it answers."""
    program = shutil.which("dockerd", path="/usr/sbin:/usr/bin:/usr/local/bin")
    assert program, "dockerd is missing; type: apt-get install docker.io"
    with tempfile.TemporaryFile() as said:
        started = subprocess.Popen([program], stdout=said, stderr=said, start_new_session=True)
        try:
            wait_until(
                lambda: answers() or started.poll() is not None,
                timeout_s=START_TIMEOUT_S,
                what="the Docker daemon",
            )
        except WaitTimeoutError:
            started.terminate()
            started.wait(END_TIMEOUT_S)
            raise
        said.seek(0)
        assert started.poll() is None, said.read().decode()
    _children[started.pid] = started
    return started.pid


def _end(pid: int) -> None:
    """End the daemon that tests started, even if another worker started it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.name() == "dockerd" and process.status() != psutil.STATUS_ZOMBIE:
            process.terminate()
            wait_until(
                lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE,
                timeout_s=END_TIMEOUT_S,
                what="the end of the Docker daemon",
            )
    if pid in _children:
        _children.pop(pid).wait(END_TIMEOUT_S)


def answers() -> bool:
    """Return whether a daemon runs."""
    try:
        connect().close()
    except UserError:
        return False
    return True


def docker(*words: str) -> str:
    """Run Docker's own command; return its output."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def inspected(*words: str) -> list[dict[str, Any]]:
    """Return the output of `docker inspect` for all objects that `docker WORDS` lists."""
    names = docker(*words).split()
    if not names:
        return []
    argv = ["docker", "inspect", *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # Other workers' containers may already be deleted. The rest is still printed.
    wrong = [line for line in done.stderr.splitlines() if "no such" not in line.lower()]
    assert not wrong, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def container_of_process(pid: int) -> dict[str, Any] | None:
    """Return Docker's description of the container with this main process id."""
    those = inspected("ps", "--quiet", "--all")
    return next((each for each in those if each["State"]["Pid"] == pid), None)


def pid_outside(pid: int, beside: int) -> int:
    """Return the process id on this machine of a process in a container.

    Args:
        pid: The process id inside the container.
        beside: The process id, on this machine, of another process in the same pid namespace.
    """
    namespace = Path(f"/proc/{beside}/ns/pid").readlink()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            numbers = (folder / "status").read_text().partition("NSpid:")[2].split("\n")[0].split()
            if (folder / "ns" / "pid").readlink() == namespace and int(numbers[-1]) == pid:
                return int(folder.name)
        except OSError:  # The process has just ended.
            continue
    raise AssertionError(f"there is no process {pid} in the namespace of {beside}")
