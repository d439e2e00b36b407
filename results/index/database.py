"""Open the SQLite file of an index, and rebuild it if it is damaged or has another version."""

import contextlib
import dataclasses
import json
import sqlite3
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from results.index.rows import RunRow, RunState
from results.index.steps import numbered
from results.reached import Reached
from results.record.transitions import TRANSITIONS
from results.trust import is_closed

ROWS_VERSION = 9
"""Increase this number when the same columns get different contents."""
BUSY_S = 20.0
_PRIMARY = 0xFF
"""Mask of the primary result code in an extended SQLite result code."""
_BESIDE = ("", "-journal", "-wal", "-shm")
"""Suffixes of the index file and of the additional files that SQLite writes next to it."""

_FIELDS = tuple(field.name for field in dataclasses.fields(RunRow))
_NUMBERS = {
    "duration_s": "REAL", "lasts_s": "REAL", "operations": "INTEGER", "throughput": "REAL",
    "recover_s": "REAL", "size_bytes": "INTEGER",
}  # fmt: skip
_COLUMNS = ", ".join(f"{name} {_NUMBERS.get(name, 'TEXT')}" for name in _FIELDS if name != "run_id")
_TABLES = (
    f"CREATE TABLE runs (run_id TEXT PRIMARY KEY, stamp TEXT NOT NULL, {_COLUMNS})",
    "CREATE TABLE anomalies (run_id TEXT NOT NULL, name TEXT NOT NULL)",
    "CREATE TABLE faults (run_id TEXT NOT NULL, name TEXT NOT NULL)",
    "CREATE TABLE reached (step INTEGER, run INTEGER, PRIMARY KEY (step, run)) WITHOUT ROWID",
    "CREATE INDEX reached_run ON reached (run)",
    "CREATE INDEX runs_started ON runs (started)",
    "CREATE INDEX runs_night ON runs (suite, night)",
    "CREATE INDEX runs_signature ON runs (signature)",
    "CREATE INDEX runs_setting ON runs (setting)",
    "CREATE INDEX runs_repeats ON runs (repeats)",
    "CREATE INDEX anomalies_name ON anomalies (name, run_id)",
    "CREATE INDEX anomalies_run ON anomalies (run_id)",
    "CREATE INDEX faults_name ON faults (name, run_id)",
    "CREATE INDEX faults_run ON faults (run_id)",
)
SCHEMA_VERSION = zlib.crc32(f"{ROWS_VERSION} {_TABLES} {[*TRANSITIONS]}".encode()) >> 1
"""The version stored in the file (`user_version`, 31 bits). A file with another version is rebuilt.

Rows contain the catalogue's numbers of transitions. So if the catalogue changes, the version
changes, too.
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open an index file; if it is damaged or has another version, remove and rebuild it.

    The index is kept in memory in three cases: the file cannot be written, another process locks it
    for too long, or other users may write to its folder. In the last case, those users could insert
    rows through a forged SQLite journal.
    """
    if not _is_closed(path.parent):
        return in_memory()
    try:
        return _opened(path)
    except sqlite3.Error as error:
        if is_locked(error):
            return in_memory()
    except OSError:
        pass
    with contextlib.suppress(sqlite3.Error, OSError):
        remove(path)
        return _opened(path)
    return in_memory()


def in_memory() -> sqlite3.Connection:
    """Return a new index in memory."""
    return _prepared(_connection(":memory:"))


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether an SQLite error means only that other processes keep the index locked."""
    # Errors of Python's own module have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & _PRIMARY in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def remove(path: Path) -> None:
    """Delete an index file and the additional files that SQLite wrote next to it."""
    for suffix in _BESIDE:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    if not all(_is_ours(path.with_name(path.name + suffix)) for suffix in _BESIDE):
        raise sqlite3.OperationalError("the file does not belong to this user")
    connection = _connection(path)
    try:
        return _prepared(connection)
    except BaseException:
        connection.close()
        raise


def _is_ours(path: Path) -> bool:
    """Return whether a path is missing, or is a regular file that no other user can change."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and is_closed(path)
    except FileNotFoundError:
        return True


def _is_closed(folder: Path) -> bool:
    try:
        return is_closed(folder)
    except OSError:
        return False


def _connection(path: Path | str) -> sqlite3.Connection:
    # `Index` has its own lock, so that a server's threads may share a connection.
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = OFF")  # A file damaged by a crash is rebuilt.
    # Rows of an older version may contain passwords from plans, so deleted data is overwritten.
    connection.execute("PRAGMA secure_delete = ON")
    return connection


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Create the tables again if the version differs, and check that the file can be written."""
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA_VERSION:
            for name in ("runs", "anomalies", "faults", "reached"):
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in (*_TABLES, f"PRAGMA user_version = {SCHEMA_VERSION}"):
                connection.execute(statement)
        connection.execute("SELECT stamp FROM runs LIMIT 1").fetchall()
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one SQLite transaction; other processes wait before they write."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def write_rows(connection: sqlite3.Connection, rows: Iterable[tuple[RunRow, str, Reached]]) -> None:
    """Insert rows of runs, replacing older rows of the same runs.

    Args:
        connection: Connection to the index.
        rows: For each run: (row, stamp of the run's files, transitions that the run reached).
    """
    marks = ", ".join("?" * (len(_FIELDS) + 1))
    for row, stamp, reached in rows:
        _forget(connection, row.run_id)
        written = connection.execute(
            f"INSERT INTO runs (stamp, {', '.join(_FIELDS)}) VALUES ({marks})",  # noqa: S608 - names of our own fields
            (stamp, *(_stored(name, getattr(row, name)) for name in _FIELDS)),
        )
        for table, names in (("anomalies", row.anomalies), ("faults", row.faults)):
            connection.executemany(
                f"INSERT INTO {table} VALUES (?, ?)",  # noqa: S608 - one of two names
                [(row.run_id, name) for name, _ in names],
            )
        connection.executemany(
            "INSERT INTO reached (step, run) VALUES (?, ?)",
            [(step, written.lastrowid) for step in numbered(reached)],
        )


def forget_rows(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Delete the rows of runs that are no longer in the store."""
    for run_id in run_ids:
        _forget(connection, run_id)


def row_from(stored: sqlite3.Row) -> RunRow:
    """Return the `RunRow` of a stored SQLite row."""
    values = {name: stored[name] for name in _FIELDS}
    for name in ("anomalies", "faults"):
        values[name] = tuple((each, count) for each, count in json.loads(values[name]))
    values["state"] = RunState(values["state"])
    values["seed"] = None if values["seed"] is None else int(values["seed"])
    return RunRow(**values)


def _forget(connection: sqlite3.Connection, run_id: str) -> None:
    connection.execute(
        "DELETE FROM reached WHERE run IN (SELECT rowid FROM runs WHERE run_id = ?)", (run_id,)
    )
    for table in ("runs", "anomalies", "faults"):
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608 - one of three names


def _stored(name: str, value: object) -> object:
    if name in {"anomalies", "faults"}:
        return json.dumps(value)
    # A seed may be too large for SQLite's integers.
    return str(value) if name == "seed" and value is not None else value
