"""Find and remove files that a run's killed processes left outside the run's folder.

libfaketime makes a shared memory and a semaphore for each process. Both names contain the pid of
the process. libfaketime removes these objects only at an orderly exit (`ft_shm_create` in its
source). A killed Java process leaves a file with performance counters. Logquake starts brokers in a
way that avoids this file, but this module looks for it anyway.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cluster.hosts.ledger import Entry, read_ledger
from cluster.hosts.signals import is_running, process_id
from results.record.world import boot_id, world

PLACES = (
    ("/dev/shm", "faketime_shm_{pid}"),  # noqa: S108 - looked for, not made
    ("/dev/shm", "sem.faketime_sem_{pid}"),  # noqa: S108 - as above
    ("/tmp", "hsperfdata_*/{pid}"),  # noqa: S108 - as above
)
"""The folders with such files, and patterns of the files' names. `{pid}` is the pid of the
process."""
SLACK_S = 2.0
"""The tolerance in seconds. The kernel's boot time is in whole seconds, and file times lag by up to
a tick."""


def leavings(processes_file: Path) -> list[Path]:
    """Return files outside the run's folder that belong to ended processes of the run.

    Args:
        processes_file: `RunPaths.processes` of the run.
    """
    if not boot_id():  # Not Linux, so there are no such files.
        return []
    entries = [entry for entry in read_ledger(processes_file) if entry.world == world()]
    return sorted({path for entry in entries for path in _left_by(entry)})


def remove_leavings(processes_file: Path) -> list[str]:
    """Remove the files that `leavings` returns. Return a sentence for each file. Idempotent."""
    found = leavings(processes_file)
    for path in found:
        path.unlink(missing_ok=True)
    return [f"removed {path}" for path in found]


def _left_by(entry: Entry) -> Iterator[Path]:
    process = entry.process
    if process is None or process.machine or is_running(process):
        return
    if process_id(process.pid).start_ticks not in {0, process.start_ticks}:
        return  # The pid was reused; a zombie of ours would keep its pid.
    # The kernel boot time is the last choice: it changes whenever the clock is set.
    since_s = entry.since_s or _boot_s() + process.start_ticks / os.sysconf("SC_CLK_TCK")
    for folder, name in PLACES:
        for path in Path(folder).glob(name.format(pid=process.pid)):
            # An older file belongs to an earlier process with the same pid.
            if _is_ours(path) and path.lstat().st_mtime >= since_s - SLACK_S:
                yield path


def _is_ours(path: Path) -> bool:
    """Return whether a file is a regular file of this user; any user may add files to /tmp."""
    found = path.lstat()
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.geteuid()
        and not path.parent.is_symlink()
    )


def _boot_s() -> float:
    """Return the kernel's boot time, in seconds since 1970 (man 5 proc, `/proc/stat`)."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
