"""Temporary files of a run's judgement, in the run's own folder.

Spark keeps megabytes of them, and removes them at its end; a harness that is killed while it judges
would leave them in /tmp, where nobody could tell whose they are. In the run's folder `logquake
heal` finds them.
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from results.record.paths import RunPaths

VARIABLE = "TMPDIR"
"""Where programs put temporary files (POSIX, and Python's `tempfile`)."""


@contextmanager
def scratch_in(paths: RunPaths) -> Iterator[None]:
    """Have this process and its children put temporary files into a run's folder; remove them."""
    folder = paths.scratch.absolute()
    if shlex.quote(str(folder)) != str(folder):
        yield  # Java's options are cut at blanks: such a folder cannot be told to Spark.
        return
    folder.mkdir(exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    variable = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        os.environ.pop(VARIABLE)
        if variable is not None:
            os.environ[VARIABLE] = variable
        shutil.rmtree(folder, ignore_errors=True)


def remove_scratch(paths: RunPaths) -> list[str]:
    """Remove the temporary files that a dead run left in its folder; return what was done."""
    if not paths.scratch.is_dir():
        return []
    shutil.rmtree(paths.scratch)
    return [f"removed the temporary files in {paths.scratch}"]
