"""Sample runs that come with the package: two losses, a valid run, both leader-epoch scenarios.

On the command line they are `sample:loss-acks-1`, `sample:loss-unclean`, `sample:valid`, and for
example `sample:leader-epoch-1-high-watermark`. Each scenario has two samples, with different rules.
The package's folder may be read-only, so pages and copies of samples are written elsewhere.
"""

import shutil
from pathlib import Path

from results.record.atomic import StoreError, store_error
from results.record.paths import RunPaths

SAMPLE_PREFIX = "sample:"
SAMPLES = Path(__file__).resolve().parent
"""The folder with the samples."""


def sample_paths() -> list[Path]:
    """Return the folders of the samples, sorted by name."""
    return sorted(path.parent for path in SAMPLES.glob("*/plan.toml"))


def sample_names() -> list[str]:
    """Return the samples' names on the command line: `sample:valid`, ..."""
    return [SAMPLE_PREFIX + path.name for path in sample_paths()]


def is_sample(paths: RunPaths) -> bool:
    """Return whether a run is one of the package's samples."""
    return paths.root.resolve().parent == SAMPLES


def find_sample(name: str) -> Path:
    """Return the folder of the sample `NAME` or `sample:NAME`.

    Raises:
        StoreError: There is no such sample.
    """
    for path in sample_paths():
        if name.removeprefix(SAMPLE_PREFIX) == path.name:
            return path
    known = ", ".join(sample_names()) or "none"
    raise StoreError(f"there is no sample {name!r}; use one of {known}")


def copy_sample(paths: RunPaths, folder: Path) -> RunPaths:
    """Copy a sample to a writable folder, so that it can be checked again.

    Args:
        paths: The sample.
        folder: The folder in which the copy `samples/<name>` is made. So the copy keeps the
            sample's run id.

    Raises:
        StoreError: The folder cannot be written, or the copy exists already.
    """
    target = folder / paths.root.parent.name / paths.root.name
    try:
        shutil.copytree(paths.root, target, copy_function=shutil.copyfile)
        # copytree copies the modes of folders, and the package's folders may be read-only.
        for copied in (target, *(path for path in target.rglob("*") if path.is_dir())):
            copied.chmod(0o755)
    except FileExistsError as there:
        raise StoreError(f"{target} already exists; remove it first") from there
    except OSError as refused:
        raise store_error(target, refused) from refused
    return RunPaths(target)
