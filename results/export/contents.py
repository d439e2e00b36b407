"""Which files of a run belong to a bundle.

What judges and shows it elsewhere: the plan, how far the run came, the tables, the statistics, the
verdict; of each node its settings, checkpoint files and logs. Live streams and segments stay away
unless they are asked for, for the tables hold what was in them.

Never in it: what tells `logquake heal` what to undo (`ledger.jsonl`, `processes.jsonl`,
`ssh.json`), since nothing of the run was ever on the machine that the bundle goes to; and pages,
since whoever takes a bundle in makes them himself instead of showing somebody else's script.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from results.record.paths import RunPaths

MANIFEST = "bundle.json"
"""The first member of each bundle; in the folder of a run it tells that the run came in one."""
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
"""Of any file in a bundle: what Kafka and we call files, and nothing that a path could twist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a bundle of a run holds.

    Attributes:
        files: Below the run's folder, sorted.
        folders: Of nodes and steps, sorted: that there was a node tells something, even if no file
            of it is taken along.
        size_bytes: Of all files, as they lie in the folder.
    """

    files: tuple[PurePosixPath, ...]
    folders: tuple[PurePosixPath, ...]
    size_bytes: int


def contents_of(paths: RunPaths, *, with_nodes: bool = False, with_logs: bool = True) -> Contents:
    """Return what a bundle of a run holds.

    Args:
        paths: The run.
        with_nodes: Also the live streams and the segments of the nodes, from which the tables were
            made.
        with_logs: Also the logs of nodes, which people read, and no check.
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
    """Tell whether a file of a run's folder may be in a bundle."""
    text = file.as_posix()
    if not all(_NAME.fullmatch(part) for part in file.parts):
        return False
    if text in TEXTS or _TABLE.fullmatch(text) or _OF_NODES.fullmatch(text):
        return True
    return with_nodes and bool(_STREAM.fullmatch(text) or _MORE_OF_NODES.fullmatch(text))


def is_folder(folder: PurePosixPath) -> bool:
    """Tell whether a folder may be in a bundle: a node's, or a step's copy of one."""
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
    """Whether a path fits POSIX's ustar, which needs no extensions that a reader has to trust.

    What does not is a checkpoint file of a topic whose name has more than 100 characters.
    """
    return len(str(member.parent)) <= _USTAR_FOLDER and len(member.name) <= _USTAR_NAME


def _is_linked(root: Path, top: str) -> bool:
    """Tell whether a way down from a run's folder is a link; what lies below is never followed."""
    parts = PurePosixPath(top).parts
    return any((root / "/".join(parts[:end])).is_symlink() for end in range(1, len(parts) + 1))


def _is_plain(path: Path) -> bool:
    """A link may lead out of the run."""
    return path.is_file() and not path.is_symlink()
