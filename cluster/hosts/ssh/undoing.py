"""Undo all changes that a run made on an ssh host, and list the run's traces on the host.

The code needs the standard library only. The harness sends the text of this module to the host's
Python (see `cluster.hosts.ssh.warden`).
"""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

Order = dict[str, Any]
"""A JSON object: the request's name (`do`), and the values that the request needs."""

MARK = "LOGQUAKE_RUN"
"""Environment variable of all processes that a run starts on a host: the run's id."""
WARDEN = "LOGQUAKE_WARDEN"
"""An environment variable that only wardens have. The undo kills the wardens last."""
OURS = ".made-by-logquake"
"""A run that creates the parent folder of the runs' folders puts a file of this name there.

The last run removes the file and this parent folder.
"""
COMMAND_TIMEOUT_S = 20.0
GONE_TIMEOUT_S = 10.0
POLL_S = 0.02


def now_s() -> float:
    """Return the seconds since boot, including sleep: a lease also runs out during sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def undo(order: Order) -> Order:
    """Undo all that a run did on this host, and end the run's warden last. Idempotent.

    Args:
        order: `folder`, `id`, `table`, `nft`, `umount` as for `keep`.

    Returns:
        `done`: one sentence for each completed action; `failed`: one for each failed action.
    """
    done: list[str] = []
    failed: list[str] = []
    for step in (_kill_marked, _delete_table, _unmount, _remove_folder, _kill_wardens):
        try:
            done += step(order)
        except (OSError, subprocess.SubprocessError) as refused:
            failed.append(str(refused))
    return {"done": done, "failed": failed}


def _marked(order: Order) -> "list[tuple[int, bool]]":
    """Return the pids of other processes with the run's mark, and whether each is a warden."""
    wanted, warden = f"{MARK}={order['id']}".encode(), f"{WARDEN}=".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # The process has ended, or is another user's.
            continue
        if wanted in environment and int(folder.name) != os.getpid():
            is_warden = any(each.startswith(warden) for each in environment)
            found.append((int(folder.name), is_warden))
    return found


def _kill_marked(order: Order, *, wardens: bool = False) -> "list[str]":
    said: list[str] = []
    deadline_s = now_s() + GONE_TIMEOUT_S
    while found := [pid for pid, is_warden in _marked(order) if is_warden == wardens]:
        if now_s() > deadline_s:
            raise TimeoutError(f"processes {found} still run after SIGKILL")
        # Repeat: a process may have started another one meanwhile.
        said += [sentence for pid in found if (sentence := _kill(pid, order))]
        time.sleep(POLL_S)  # noqa: TID251 - standard library only
    return [] if wardens else list(dict.fromkeys(said))


def _kill_wardens(order: Order) -> "list[str]":
    return _kill_marked(order, wardens=True)


def _kill(pid: int, order: Order) -> str:
    """SIGKILL a process that still has the mark, but never a new process that reuses its pid."""
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return ""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"{MARK}={order['id']}".encode() not in environment:
            return ""
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # The process is ending: once it has no memory, its files in /proc are root's. A process
        # that really is another user's is found again until the timeout.
        return ""
    finally:
        os.close(held)
    return f"killed {name} (process {pid})"


def _delete_table(order: Order) -> "list[str]":
    if not _table(order):
        return []
    try:
        run([*order["nft"], "delete", "table", "ip", order["table"]])
    except OSError:
        if _table(order):  # Otherwise the host's warden has deleted it.
            raise
    return [f"deleted the nft table {order['table']}"]


def _table(order: Order) -> str:
    """Return the rules of the run's nft table; an empty string if there is none."""
    try:
        return run([*order["nft"], "list", "table", "ip", order["table"]])
    except OSError as refused:
        if "No such file or directory" in str(refused) and refused.errno is None:
            return ""
        raise


def run(argv: "list[str]", text: str = "") -> str:
    """Run a command and return its output; raise `OSError` with its error output."""
    done = subprocess.run(  # noqa: S603 - what the harness asks for
        argv,
        input=text,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise OSError(f"{' '.join(argv)}: {said[0]}")
    return done.stdout


def _mounts(order: Order) -> "list[str]":
    """Return the mount points in the run's folder, newest first (man 5 proc, mountinfo)."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [line.split()[4] for line in lines]
    return [point for point in reversed(points) if point.startswith(f"{order['folder']}/")]


def _unmount(order: Order) -> "list[str]":
    points = _mounts(order)
    for point in points:
        run([*order["umount"], point])
    return [f"unmounted {point}" for point in points]


def _remove_folder(order: Order) -> "list[str]":
    folder = Path(order["folder"])
    there = folder.exists()
    if there and _mounts(order):
        raise OSError(f"{folder} cannot be removed, because a file system is mounted in it")
    deadline_s = now_s() + GONE_TIMEOUT_S
    while folder.exists():  # A killed process may still write its last file.
        shutil.rmtree(folder, ignore_errors=now_s() < deadline_s)
        if folder.exists():
            time.sleep(POLL_S)  # noqa: TID251 - standard library only
    _remove_base(folder.parent)
    return [f"removed {folder}"] if there else []


def _remove_base(base: Path) -> None:
    """Remove the parent folder of the runs' folders if a run created it and no run needs it now."""
    with contextlib.suppress(OSError):
        while os.listdir(base) == [OURS]:  # noqa: PTH208 - names only
            (base / OURS).unlink()
            try:
                base.rmdir()
            except OSError as refused:
                (base / OURS).touch()  # The last run must know that a run made the folder.
                if refused.errno != errno.ENOTEMPTY:
                    return
                # Another run has started meanwhile. It may have ended without seeing the file.


def traces(order: Order) -> Order:
    """Return the traces that the run left on this host, each with a description."""
    found = {f"process {pid}": _name(pid) for pid, _ in _marked(order)}
    if rules := _table(order):
        found[f"nft table {order['table']}"] = rules
    found |= {f"mount {point}": "" for point in _mounts(order)}
    folder = Path(order["folder"])
    if folder.exists():
        found[f"folder {folder}"] = f"{sum(1 for _ in folder.rglob('*'))} files"
    return {"traces": found}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return "ended"
