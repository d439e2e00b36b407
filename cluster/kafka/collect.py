"""Tidies a node's folder for the record after the stop; of a run that died just as well.

What stays: `server.properties`, `log4j2.properties`, `logs/`, and in `data/` all segments
(`*.log`), the checkpoint files, `meta.properties`, `quorum-state` and the quorum's snapshots. What
goes can be made again from the segments: indexes and producer snapshots.
"""

from pathlib import Path

BULK = frozenset({".index", ".timeindex", ".txnindex", ".snapshot", ".lock"})


def collect(folder: Path) -> int:
    """Remove what the record does not need from a node's folder. Idempotent.

    Args:
        folder: `nodes/<node>`; its broker has ended.

    Returns:
        How many files were removed.
    """
    bulk = [file for file in (folder / "data").rglob("*") if _is_bulk(file)]
    for file in bulk:
        file.unlink(missing_ok=True)
    return len(bulk)


def _is_bulk(file: Path) -> bool:
    return (file.suffix in BULK or file.name == ".lock") and file.is_file()
