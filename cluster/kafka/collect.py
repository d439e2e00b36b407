"""Tidies a node's folder after a run, including a run that crashed.

These files stay: `server.properties`, `log4j2.properties` and `logs/`. In `data/` the segments
(`*.log`), checkpoint files, `meta.properties`, `quorum-state` and the quorum's snapshots stay.
Indexes and producer snapshots are deleted, because they can be rebuilt from the segments. Temporary
files are deleted too.
"""

import shutil
from pathlib import Path

from results.record.declared import Sight

TEMPORARY = "tmp"
"""The folder for a broker's temporary files, inside the node's folder."""
BULK = frozenset({".index", ".timeindex", ".txnindex", ".snapshot", ".lock"})


def collect(folder: Path, *, sees: frozenset[Sight] = frozenset(Sight)) -> int:
    """Delete the files in a node's folder that are not part of the run's record. Idempotent.

    Args:
        folder: The folder `nodes/<node>`; its broker has ended.
        sees: The observations that the system supports. If the system's logs are not in Kafka's
            format, only temporary files are deleted, because file names then have no meaning.

    Returns:
        The number of deleted files.
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
