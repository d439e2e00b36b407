"""A copy of a run to judge, where the run itself must not be written."""

import shutil
from pathlib import Path

from results.export.contents import contents_of
from results.record.atomic import store_error
from results.record.paths import RunPaths
from results.record.reading import open_file


def copy_plain(paths: RunPaths, folder: Path) -> RunPaths:
    """Copy what a run is judged by: real files, by no link, as a bundle with nodes has them.

    Args:
        paths: The run, maybe a stranger's.
        folder: Becomes the parent of `<name>/<run>`, so that the copy has the run's id.

    Raises:
        StoreError: The folder cannot be written, or a file cannot be read.
    """
    copy = RunPaths(folder / paths.run_id)
    contents = contents_of(paths, with_nodes=True)
    try:
        for below in contents.folders:
            (copy.root / below).mkdir(parents=True, exist_ok=True)
        for below in contents.files:
            target = copy.root / below
            target.parent.mkdir(parents=True, exist_ok=True)
            source = open_file(paths.root / below, root=paths.root)
            with source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
    except OSError as refused:
        raise store_error(paths.root, refused) from refused
    return copy
