"""How runs are named on the command line."""

import glob
from collections.abc import Sequence
from pathlib import Path

from results.record.paths import RunPaths
from results.samples import find_sample
from results.store import Store, StoreError

SAMPLE = "sample:"


def find_runs(names: Sequence[str], store: Path) -> list[RunPaths]:
    """Find runs by folder, glob of folders, id, part of an id, `latest`, or `sample:NAME`.

    Raises:
        StoreError: A name fits no run, or several.
    """
    found: dict[Path, RunPaths] = {}
    for name in names:
        for run in _find(name, store):
            found.setdefault(run.root.resolve(), run)
    return list(found.values())


def _find(name: str, store: Path) -> list[RunPaths]:
    if name.startswith(SAMPLE):
        return [RunPaths(find_sample(name.removeprefix(SAMPLE)))]
    if glob.has_magic(name):
        folders = [Path(each) for each in sorted(glob.glob(name))]  # noqa: PTH207 - absolute too
        runs = [RunPaths(folder) for folder in folders if (folder / "plan.toml").exists()]
        if not runs:
            raise StoreError(f"no run fits {name!r}; list the runs with: logquake runs")
        return runs
    return [Store(store).find(name)]
