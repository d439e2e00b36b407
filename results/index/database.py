"""The SQLite file of an index: opened, or made anew if it is damaged or of another version."""

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
"""Raise it whenever a row of the same columns would come out otherwise."""
BUSY_S = 20.0
_PRIMARY = 0xFF
"""The bits of SQLite's result codes that extended ones refine."""
_BESIDE = ("", "-journal", "-wal", "-shm")
"""What SQLite calls an index, and what it keeps beside it."""

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
"""What the file says it is (`user_version`, 31 bits); one that says otherwise is made anew.

Steps are numbered by the catalogue of transitions, so another catalogue makes another index.
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open an index; a damaged or foreign one is removed, and made anew.

    It is made in memory if it cannot be written, or another process writes it for too long; or if
    others can write its folder: they could put rows of theirs into it, by a journal that SQLite
    would take for its own.
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
    """Return an index without a file."""
    return _prepared(_connection(":memory:"))


def is_locked(error: sqlite3.Error) -> bool:
    """Tell whether an index is whole, and others held it for longer than one waits."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)  # Python's own errors have none.
    return code & _PRIMARY in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def remove(path: Path) -> None:
    """Remove an index with what SQLite keeps beside it."""
    for suffix in _BESIDE:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    if not all(_is_ours(path.with_name(path.name + suffix)) for suffix in _BESIDE):
        raise sqlite3.OperationalError("it is no file of ours")
    connection = _connection(path)
    try:
        return _prepared(connection)
    except BaseException:
        connection.close()
        raise


def _is_ours(path: Path) -> bool:
    """Tell whether a file is none yet, or no link and nobody else's: what it says is believed."""
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
    # The index has a lock of its own, so that a server's threads may share a connection.
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = OFF")  # What a crash costs is made anew.
    # An older version's rows may hold passwords of plans: what is dropped is overwritten, too.
    connection.execute("PRAGMA secure_delete = ON")
    return connection


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables if they are not those of this version; and see that they can be written."""
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
    """Do all of it, or nothing; other processes that write wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def write_rows(connection: sqlite3.Connection, rows: Iterable[tuple[RunRow, str, Reached]]) -> None:
    """Put rows in, over what was there of these runs.

    Args:
        connection: To the index.
        rows: Each with the stamp of its files, and what the run reached.
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
    """Remove runs that are no longer there."""
    for run_id in run_ids:
        _forget(connection, run_id)


def row_from(stored: sqlite3.Row) -> RunRow:
    """Return a stored row."""
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
    # A seed may be beyond SQLite's integers.
    return str(value) if name == "seed" and value is not None else value
