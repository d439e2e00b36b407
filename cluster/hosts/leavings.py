"""Files outside of a run's folder that its processes leave when they are killed.

libfaketime gives each process a shared memory and a semaphore named after its number, and removes
them at an orderly end only (`ft_shm_create` in its source). A killed Java leaves the file of its
performance counters; brokers are started so that they make none, which is looked for all the same.
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
"""Folders, and what such files are called there by the number of the process."""
SLACK_S = 2.0
"""The kernel's start is known in whole seconds, and times of files are of its last tick."""


def leavings(processes_file: Path) -> list[Path]:
    """Return the files that ended processes of a run have left outside of its folder.

    Args:
        processes_file: `RunPaths.processes` of the run.
    """
    if not boot_id():  # No Linux, and none of these files.
        return []
    entries = [entry for entry in read_ledger(processes_file) if entry.world == world()]
    return sorted({path for entry in entries for path in _left_by(entry)})


def remove_leavings(processes_file: Path) -> list[str]:
    """Remove what `leavings` returns; return a sentence for each file. Idempotent."""
    found = leavings(processes_file)
    for path in found:
        path.unlink(missing_ok=True)
    return [f"removed {path}" for path in found]


def _left_by(entry: Entry) -> Iterator[Path]:
    process = entry.process
    if process is None or process.machine or is_running(process):
        return
    if process_id(process.pid).start_ticks not in {0, process.start_ticks}:
        return  # The number is somebody else's now; a zombie of ours still has it.
    # Not from the kernel's start: that is told anew whenever the clock is set.
    since_s = entry.since_s or _boot_s() + process.start_ticks / os.sysconf("SC_CLK_TCK")
    for folder, name in PLACES:
        for path in Path(folder).glob(name.format(pid=process.pid)):
            # An older one is of an earlier process with the same number.
            if _is_ours(path) and path.lstat().st_mtime >= since_s - SLACK_S:
                yield path


def _is_ours(path: Path) -> bool:
    """Tell whether it is a file of the caller's; everybody may put a link or a file into /tmp."""
    found = path.lstat()
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.geteuid()
        and not path.parent.is_symlink()
    )


def _boot_s() -> float:
    """Return when the kernel started, in seconds since 1970 (man 5 proc, `/proc/stat`)."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
