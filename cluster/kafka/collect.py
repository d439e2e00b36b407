"""Tidies a node's folder for the record after the stop; of a run that died just as well.

What stays: `server.properties`, `log4j2.properties`, `logs/`, and in `data/` all segments
(`*.log`), the checkpoint files, `meta.properties`, `quorum-state` and the quorum's snapshots. What
goes can be made again from the segments, indexes and producer snapshots, and temporary files.
"""

import shutil
from pathlib import Path

from results.record.declared import Sight

TEMPORARY = "tmp"
"""The folder of a broker's temporary files, in its node's."""
BULK = frozenset({".index", ".timeindex", ".txnindex", ".snapshot", ".lock"})


def collect(folder: Path, *, sees: frozenset[Sight] = frozenset(Sight)) -> int:
    """Remove what the record does not need from a node's folder. Idempotent.

    Args:
        folder: `nodes/<node>`; its broker has ended.
        sees: What can be seen of the system: where its logs are not Kafka's, names say nothing.

    Returns:
        How many files were removed.
    """
    bulk = []
    if Sight.REPLICA_LOGS in sees:
        bulk = [file for file in (folder / "data").rglob("*") if _is_bulk(file)]
    bulk += [file for file in (folder / TEMPORARY).rglob("*") if file.is_file()]
    for file in bulk:
        file.unlink(missing_ok=True)
    shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
    return len(bulk)


def _is_bulk(file: Path) -> bool:
    return (file.suffix in BULK or file.name == ".lock") and file.is_file()
