"""Choose the files of a run that go into a bundle.

A bundle contains everything that is needed to judge and show the run on another machine: the plan,
milestones, tables, statistics and verdict. For each node it contains settings, checkpoint files and
logs. Live streams and log segments are optional, because the tables contain the same data.

Two groups of files are never included:

- The files that `logquake heal` reads (`ledger.jsonl`, `processes.jsonl`, `ssh.json`). The other
  machine has no fault of this run to undo.
- Pages. The receiver renders the page again, so no script from another person is shown.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from results.record.paths import RunPaths

MANIFEST = "bundle.json"
"""The first member of each bundle. If a run's folder contains this file, the run was imported."""
TEXTS = frozenset({
    "plan.toml", "environment.json", "milestones.jsonl", "topics.json", "steps.jsonl",
    "scenario.json", "night.json", "system.json", "timings.json",
    "verdict.json",
})  # fmt: skip
_TABLE = re.compile(r"(record|statistics)/[a-z_]+\.parquet|record/ingest\.json")
_STREAM = re.compile(r"record/live/[A-Za-z0-9_.-]+\.arrows")
_OF_NODES = re.compile(
    r"(nodes/[^/]+|snapshots/[^/]+/[^/]+)/"
    r"(logs/[^/]+"
    r"|[a-z0-9-]+\.properties"
    r"|data/([^/]+/)?((leader-epoch|(replication|recovery-point|log-start)-offset)"
    r"(-checkpoint|-checkpoint\.bak)|quorum-state|meta\.properties|partition\.metadata))"
)
_MORE_OF_NODES = re.compile(
    r"(nodes/[^/]+|snapshots/[^/]+/[^/]+)/data/[^/]+/[0-9-]+\.(log|snapshot|checkpoint)"
    r"(\.deleted|\.cleaned|\.swap)?"
)
_USTAR_FOLDER, _USTAR_NAME = 155, 100
_NAME = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_.@+=-]{0,250}")
"""The names that files in a bundle may have. Kafka and Logquake use only such names. A path of such
names cannot point outside the run's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a run's bundle.

    Attributes:
        files: Paths relative to the run's folder, sorted.
        folders: Folders of nodes and steps, sorted. A node's folder is listed even if no file of it
            is included, because it shows that the node existed.
        size_bytes: Total size of all files in the run's folder.
    """

    files: tuple[PurePosixPath, ...]
    folders: tuple[PurePosixPath, ...]
    size_bytes: int


def contents_of(paths: RunPaths, *, with_nodes: bool = False, with_logs: bool = True) -> Contents:
    """Return the files and folders that belong in a run's bundle.

    Args:
        paths: The run.
        with_nodes: Whether to include live streams and the nodes' log segments. The tables were
            made from these files.
        with_logs: Whether to include the nodes' log files. These files are for people: no check
            reads them.
    """
    files = sorted(
        each
        for each in _files(paths.root)
        if belongs(each, with_nodes=with_nodes)
        and (with_logs or "logs" not in each.parts)
        and _fits(PurePosixPath(paths.run_id) / each)
    )
    size = sum((paths.root / each).stat().st_size for each in files)
    return Contents(files=tuple(files), folders=tuple(_folders(paths.root)), size_bytes=size)


def belongs(file: PurePosixPath, *, with_nodes: bool = True) -> bool:
    """Return whether a bundle may contain this file of a run's folder."""
    text = file.as_posix()
    if not all(_NAME.fullmatch(part) for part in file.parts):
        return False
    if text in TEXTS or _TABLE.fullmatch(text) or _OF_NODES.fullmatch(text):
        return True
    return with_nodes and bool(_STREAM.fullmatch(text) or _MORE_OF_NODES.fullmatch(text))


def is_folder(folder: PurePosixPath) -> bool:
    """Return whether a bundle may contain a folder: only nodes' folders, and copies at steps."""
    depth = {"nodes": 2, "snapshots": 3}.get(folder.parts[0] if folder.parts else "")
    return len(folder.parts) == depth and all(_NAME.fullmatch(part) for part in folder.parts)


def _files(root: Path) -> Iterator[PurePosixPath]:
    for top in ("", "record", "record/live", "statistics"):
        if not _is_linked(root, top):
            yield from (_below(root, each) for each in (root / top).glob("*") if _is_plain(each))
    for top in ("nodes", "snapshots"):
        if not _is_linked(root, top):
            yield from (_below(root, each) for each in (root / top).rglob("*") if _is_plain(each))


def _folders(root: Path) -> Iterator[PurePosixPath]:
    found = [*(root / "nodes").glob("*"), *(root / "snapshots").glob("*/*")]
    below = sorted(_below(root, each) for each in found if each.is_dir())
    yield from (each for each in below if is_folder(each))


def _below(root: Path, path: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(root).as_posix())


def _fits(member: PurePosixPath) -> bool:
    """Return whether a path fits POSIX's ustar format, which needs no tar extensions.

    A path that does not fit is a checkpoint file of a topic with a name over 100 characters.
    """
    return len(str(member.parent)) <= _USTAR_FOLDER and len(member.name) <= _USTAR_NAME


def _is_linked(root: Path, top: str) -> bool:
    """Return whether a folder on the path from the run's folder to `top` is a symbolic link."""
    parts = PurePosixPath(top).parts
    return any((root / "/".join(parts[:end])).is_symlink() for end in range(1, len(parts) + 1))


def _is_plain(path: Path) -> bool:
    """Return whether a path is a regular file, not a symbolic link that may lead out of the run."""
    return path.is_file() and not path.is_symlink()
