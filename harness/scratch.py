"""Temporary files of a run's judgement, in the run's own folder.

Spark keeps megabytes of them, and removes them at its end; a harness that is killed while it judges
would leave them in /tmp, where nobody could tell whose they are. In the run's folder `logquake
heal` finds them.

Processes of a judgement have a mark of their own. They may start while the run still goes on, and
are none of those that it must not leave on its hosts.
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
"""Where programs put temporary files (POSIX, and Python's `tempfile`)."""
GONE_TIMEOUT_S = 10.0


@contextmanager
def scratch_in(paths: RunPaths) -> Iterator[None]:
    """Have this process and its children put temporary files into a run's folder; remove them.

    Children carry a mark meanwhile, so that they are found should they outlive us.
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
            kill_scratched(paths)  # What was interrupted may not have ended its JVM.
        shutil.rmtree(folder, ignore_errors=True)


def can_hold(paths: RunPaths) -> bool:
    """Tell whether a run's folder can have temporary files: Java's options are cut at blanks."""
    folder = str(paths.scratch.absolute())
    return shlex.quote(folder) == folder


def kill_scratched(paths: RunPaths) -> list[str]:
    """Kill what a run's judgement started; return a sentence for each. Idempotent.

    Raises:
        UserError, WaitTimeoutError: As `kill_leftovers`.
    """
    return kill_leftovers(_marked_by(paths))


def _marked_by(paths: RunPaths) -> Path:
    return paths.scratch / paths.processes.name  # No such file is ever made.


def remove_scratch(paths: RunPaths) -> list[str]:
    """Remove what a dead run's judgement left: processes, then files; return what was done.

    Raises:
        UserError: A process is another user's.
        WaitTimeoutError: New ones are made again and again.
        OSError: The run is there no more, or by a link only.
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

    # Whoever was just killed may have been writing one more file.
    wait_until(removed, timeout_s=GONE_TIMEOUT_S, what=f"the end of {paths.scratch}")
    return [*killed, f"removed the temporary files in {paths.scratch}"]
