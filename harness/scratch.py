"""Keep the temporary files of a run's judgement in the run's own folder.

Spark writes megabytes of temporary files, and removes them when it ends. If the harness is killed
while it judges, such files would stay in /tmp, and nothing would show to which run they belong. So
the files are in the run's folder, where `logquake heal` finds them.

An environment variable marks the processes of a judgement. They may start while the run is in
progress. A run ends all processes with its own mark, so a judgement has another mark.
"""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.hosts.ledger import mark
from cluster.hosts.leftovers import kill_leftovers
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.reading import open_folder

VARIABLE = "TMPDIR"
"""The environment variable that names the folder for temporary files (POSIX, Python's
`tempfile`)."""
GONE_TIMEOUT_S = 10.0


@contextmanager
def scratch_in(paths: RunPaths) -> Iterator[None]:
    """Keep temporary files of this process and its children in a run's folder; remove them on exit.

    An environment variable marks the children, so that `logquake heal` finds them if this process
    dies.
    """
    folder = paths.scratch.absolute()
    if not can_hold(paths):
        yield
        return
    folder.mkdir(exist_ok=True)
    settings = {VARIABLE: str(folder), **mark(_marked_by(paths))}
    before = {name: os.environ.get(name) for name in settings}
    default, tempfile.tempdir = tempfile.tempdir, str(folder)
    os.environ.update(settings)
    try:
        yield
    finally:
        tempfile.tempdir = default
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if sys.exception() is not None:
            kill_scratched(paths)  # An interrupted judgement may have left its JVM.
        shutil.rmtree(folder, ignore_errors=True)


def can_hold(paths: RunPaths) -> bool:
    """Return whether the path of a run's folder is safe in Java's options, i.e. needs no quotes."""
    folder = str(paths.scratch.absolute())
    return shlex.quote(folder) == folder


def kill_scratched(paths: RunPaths) -> list[str]:
    """Kill the processes of a run's judgement; return a sentence for each. Idempotent.

    Raises:
        UserError, WaitTimeoutError: See `kill_leftovers`.
    """
    return kill_leftovers(_marked_by(paths))


def _marked_by(paths: RunPaths) -> Path:
    return paths.scratch / paths.processes.name  # This file is never created.


def remove_scratch(paths: RunPaths) -> list[str]:
    """Remove the processes and files that the judgement of a dead run left; report what was done.

    Raises:
        UserError: A process belongs to another user.
        WaitTimeoutError: New files appear again and again.
        OSError: The run's folder is missing, or is a link.
    """
    if not paths.scratch.is_dir():
        return []
    killed = kill_scratched(paths)
    root = paths.root.absolute()

    def removed() -> bool:
        folder = open_folder(root, root=root.parent.parent)
        try:
            shutil.rmtree(paths.scratch.name, ignore_errors=True, dir_fd=folder)
        finally:
            os.close(folder)
        return not paths.scratch.exists()

    # A process that was just killed may still have written a file.
    wait_until(removed, timeout_s=GONE_TIMEOUT_S, what=f"the end of {paths.scratch}")
    return [*killed, f"removed the temporary files in {paths.scratch}"]
