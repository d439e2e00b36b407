"""Keep the index up to date with a store's folders, and answer queries about runs and failures."""

import contextlib
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

from results.index.database import (
    connect,
    forget_rows,
    in_memory,
    is_locked,
    remove,
    row_from,
    transaction,
    write_rows,
)
from results.index.query import RunQuery, condition
from results.index.reading import read_reached, read_run, stamp_of, state_of
from results.index.rows import (
    Facets,
    NightRow,
    Occurrence,
    Reach,
    RunRow,
    RunState,
    Seen,
)
from results.index.steps import PAIRS_FROM, name_of, named
from results.reached import Reached
from results.record.paths import RunPaths
from results.record.transitions import TRANSITIONS
from results.repeats import Rate, Repeats, Trial, repeats_of
from results.store import Store
from results.wording.inert import inert

FILE_NAME = ".index.sqlite"
_BATCH = 100
_OFFERED = 500
"""The maximum number of values that a filter offers."""
_COUNTS = (
    "state = 'judged' AND (verdict = 'invalid' OR signature = ?"
    " OR (verdict = 'valid' AND lasts_s IS NOT NULL))"
)
"""SQL condition for the runs that count in a rate "k of N".

Runs without a verdict, and runs that were cut short, do not count, because they may have missed the
failure.
"""
_MEASURED = 8
"""The duration of the next run is estimated from this number of newest runs."""
_UNSETTLED = (RunState.RUNNING, RunState.DIED, RunState.NOT_JUDGED)

_WORST = ("invalid", "unknown", "unjudged", "allowed")

__all__ = ["Index", "open_index"]


def open_index(store: Store) -> "Index":
    """Open the index of a store without updating it. `refresh` reads new and changed runs."""
    return Index(store)


class Index:
    """The index of a store's runs, as a context manager. Several threads may use it at once.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.root / FILE_NAME
        self._lock = threading.RLock()
        self._connection = connect(self._path)

    def close(self) -> None:
        """Close the index file. A second call does nothing."""
        with self._lock:
            self._connection.close()

    def __del__(self) -> None:
        """Close the index file if the caller, for example a server, did not close it."""
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._connection.close()

    def __enter__(self) -> "Index":
        """Return the index itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the index file."""
        self.close()

    def refresh(self, runs: Iterable[RunPaths] | None = None) -> int:
        """Read the new and changed runs into the index, and remove the deleted runs.

        Args:
            runs: All runs of the store, if the caller has just listed them. If None, this method
                lists them.

        Returns:
            How many runs were read.

        Raises:
            StoreError: The store cannot be read.
        """
        listed = self._store.runs() if runs is None else runs
        found = {paths.run_id: paths for paths in listed if self._is_ours(paths)}
        with self._lock:
            try:
                return self._refresh(found)
            except sqlite3.DatabaseError as error:
                self._remake(error)
                return self._refresh(found)

    def rebuild(self) -> int:
        """Delete the index, read all runs again, and return their number.

        Raises:
            StoreError: The store cannot be read.
        """
        with self._lock:
            self._remake()
            return self.refresh()

    def runs(self, query: RunQuery | None = None) -> tuple[RunRow, ...]:
        """Return one page of the runs that match a query, newest first."""
        query = query or RunQuery()
        where, values = condition(query)
        rows = self._asked(
            f"SELECT * FROM runs WHERE {where} ORDER BY started DESC, run_id DESC LIMIT ? OFFSET ?",  # noqa: S608 - values are bound
            (*values, max(0, query.limit), max(0, query.offset)),
        )
        return tuple(row_from(each) for each in rows)

    def count(self, query: RunQuery | None = None) -> int:
        """Return the number of runs that match a query, over all pages."""
        where, values = condition(query or RunQuery())
        return int(self._asked(f"SELECT count(*) FROM runs WHERE {where}", values)[0][0])  # noqa: S608 - values are bound

    def run(self, run_id: str) -> RunRow | None:
        """Return the run with this id, or None if there is none."""
        rows = self._asked("SELECT * FROM runs WHERE run_id = ?", (run_id,))
        return row_from(rows[0]) if rows else None

    def seen(self, key: str) -> Seen | None:
        """Return the runs and nightly runs that had a failure, or None if no run had it.

        Args:
            key: The failure's signature.
        """
        rows = self._asked(
            "SELECT run_id, night, started, setting, signature_sentence FROM runs"
            " WHERE signature = ? ORDER BY started, run_id",
            (key,),
        )
        if not rows or not key:
            return None
        told = [Occurrence(run_id=each["run_id"], night=each["night"], started=each["started"])
                for each in rows]  # fmt: skip
        nights = sorted(each.night for each in told if each.night)
        return Seen(
            key=key,
            sentence=rows[-1]["signature_sentence"],
            first=told[0],
            last=told[-1],
            first_night=nights[0] if nights else "",
            last_night=nights[-1] if nights else "",
            times=len(told),
            repeats=self.repeats(key),
        )

    def signatures(self) -> tuple[Seen, ...]:
        """Return all failure signatures of the store, the most recently seen first."""
        rows = self._asked(
            "SELECT signature, max(started) AS last FROM runs WHERE signature != ''"
            " GROUP BY signature ORDER BY last DESC, signature",
            (),
        )
        return tuple(seen for each in rows if (seen := self.seen(each["signature"])))

    def repeats(self, key: str, *, suite: str = "", until: str = "") -> Repeats:
        """Return how often a failure recurred in the reruns of failed runs.

        Args:
            key: The failure's signature.
            suite: Count only nightly runs of this suite; empty for all suites.
            until: The last nightly run that counts; empty for all nightly runs.
        """
        rows = self._asked(
            "SELECT run_id, why, repeats, verdict, signature FROM runs WHERE (signature = ? OR"
            " repeats IN (SELECT run_id FROM runs WHERE signature = ?))"
            " AND (? = '' OR suite = ?) AND (? = '' OR night <= ?)",
            (key, key, suite, suite, until, until),
        )
        return repeats_of((Trial(**dict(each)) for each in rows), key)

    def rates(self, key: str) -> tuple[tuple[RunRow, Rate], ...]:
        """Return how often a failure occurred in runs with the same settings and any seed.

        The first run with the failure does not count, because it only shows that the failure
        exists. But reruns of failed runs count.

        Args:
            key: The failure's signature.

        Returns:
            (newest run with the failure, rate "k of N") for each group of runs with the same
            settings. The most recent group comes first.
        """
        settings = self._asked(
            "SELECT setting, max(started || run_id) AS last FROM runs WHERE signature = ?"
            " AND setting != '' GROUP BY setting ORDER BY last DESC",
            (key,),
        )
        rates = []
        for each in settings:
            (newest,) = self.runs(RunQuery(signature=key, setting=each["setting"], limit=1))
            counts = self._asked(
                f"SELECT sum(signature = ?), count(*) FROM runs WHERE setting = ? AND {_COUNTS}",  # noqa: S608 - our own words
                (key, each["setting"], key),
            )
            times, of = (int(each) - 1 for each in counts[0])
            rates.append((newest, Rate(times=times, of=of)))
        return tuple(rates)

    def nights(self, suite: str = "") -> tuple[NightRow, ...]:
        """Return the nightly runs, i.e. executions of a suite, newest first.

        Args:
            suite: Name of the suite; empty for all suites.
        """
        rows = self._asked(
            "SELECT suite, night, tone, state, signature, repeats FROM runs"
            " WHERE night != ''"
            " AND (? = '' OR suite = ?) ORDER BY night DESC, suite",
            (suite, suite),
        )
        nights: defaultdict[tuple[str, str], list[sqlite3.Row]] = defaultdict(list)
        for row in rows:
            nights[row["night"], row["suite"]].append(row)
        first = self._first_nights()
        return tuple(_night(name, night, first, ours) for (night, name), ours in nights.items())

    def night(self, suite: str, night: str) -> NightRow | None:
        """Return one nightly run (an execution of a suite), or None if the store has none."""
        return next((each for each in self.nights(suite) if each.night == night), None)

    def facets(self) -> Facets:
        """Return the values that the filters of the run list offer."""
        families = {
            family for each in self._distinct("nemesis") for family in each.split("+") if family
        }
        return Facets(
            systems=self._distinct("system"),
            versions=self._distinct("version"),
            workloads=self._distinct("workload"),
            faults=tuple(sorted(families | set(self._distinct("name", table="faults")))),
            anomalies=self._distinct("name", table="anomalies"),
            suites=self._distinct("suite"),
            scenarios=self._distinct("scenario"),
        )

    def reaches(self) -> tuple[Reach, ...]:
        """Return every transition of the catalogue, each with the first run that reached it."""
        rows = self._asked(
            "SELECT step, count(*) AS times, min(started || ' ' || run_id) AS first FROM reached"
            " JOIN runs ON runs.rowid = reached.run WHERE step < ? GROUP BY step",
            (PAIRS_FROM,),
        )
        known = {}
        for each in rows:
            started, _, run_id = each["first"].partition(" ")
            first = Occurrence(run_id=run_id, night="", started=started)
            name = name_of(each["step"])
            known[name] = Reach(name=name, times=each["times"], first=first)
        return tuple(known.get(name, Reach(name=name)) for name in TRANSITIONS)

    def never_reached(self) -> int:
        """Return the number of transitions in the catalogue that no run of the store reached."""
        rows = self._asked("SELECT count(DISTINCT step) FROM reached WHERE step < ?", (PAIRS_FROM,))
        return PAIRS_FROM - int(rows[0][0])

    def first_reached(self, run_id: str) -> Reached:
        """Return the transitions and successions that no earlier run of the store reached."""
        rows = self._asked(
            "SELECT step FROM reached AS mine JOIN runs AS ours ON ours.rowid = mine.run"
            " WHERE ours.run_id = ? AND NOT EXISTS (SELECT 1 FROM reached AS others"
            " JOIN runs AS other ON other.rowid = others.run WHERE others.step = mine.step"
            " AND (other.started, other.run_id) < (ours.started, ours.run_id))",
            (run_id,),
        )
        return named(each["step"] for each in rows)

    def _first_nights(self) -> dict[str, str]:
        rows = self._asked(
            "SELECT signature, min(night) FROM runs WHERE night != '' AND signature != ''"
            " GROUP BY signature",
            (),
        )
        return {each[0]: each[1] for each in rows}

    def overheads_s(self, **alike: str) -> tuple[float, ...]:
        """Return the overhead in seconds of each of the newest matching runs.

        The overhead is the run's duration without warm-up, main phase and judging. A run counts
        only if it finished its plan and was judged.

        Args:
            alike: The values that a run must have in the columns `suite`, `entry`, `system`,
                `hosts` and `workload`.
        """
        where, values = condition(RunQuery(**alike, state=RunState.JUDGED))  # type: ignore[arg-type]  # Texts.
        rows = self._asked(
            f"SELECT duration_s - lasts_s FROM runs WHERE {where} AND duration_s > 0"  # noqa: S608 - values are bound
            " AND lasts_s IS NOT NULL ORDER BY started DESC, run_id DESC LIMIT ?",
            (*values, _MEASURED),
        )
        return tuple(float(each[0]) for each in rows)

    def _distinct(self, column: str, *, table: str = "runs") -> tuple[str, ...]:
        rows = self._asked(
            f"SELECT DISTINCT {column} FROM {table} WHERE {column} != '' ORDER BY {column} LIMIT ?",  # noqa: S608 - our own names
            (_OFFERED,),
        )
        return tuple(each[0] for each in rows)

    def _asked(self, sql: str, values: Sequence[str | int]) -> list[sqlite3.Row]:
        with self._lock:
            try:
                return self._connection.execute(sql, tuple(values)).fetchall()
            except sqlite3.DatabaseError as error:
                self._remake(error)
                self.refresh()
                return self._connection.execute(sql, tuple(values)).fetchall()

    def _refresh(self, found: dict[str, RunPaths]) -> int:
        known = {
            each["run_id"]: (each["stamp"], each["state"])
            for each in self._connection.execute("SELECT run_id, stamp, state FROM runs")
        }
        changed = [paths for run_id, paths in found.items() if _is_stale(paths, known.get(run_id))]
        gone = known.keys() - found.keys()
        if gone:
            with transaction(self._connection):
                forget_rows(self._connection, gone)
        for batch in _batches(changed):
            # The stamp is taken before the read. So a run that changes meanwhile is read again.
            rows = [
                (stamp, read_run(paths), read_reached(paths))
                for paths in batch
                if (stamp := stamp_of(paths))
            ]
            with transaction(self._connection):
                write_rows(
                    self._connection, [(row, stamp, reached) for stamp, row, reached in rows]
                )
        return len(changed)

    def _remake(self, error: sqlite3.Error | None = None) -> None:
        """Rebuild the index file, or use memory if other processes keep the file locked."""
        self._connection.close()
        if error is not None and is_locked(error):
            self._connection = in_memory()
            return
        with contextlib.suppress(OSError):
            remove(self._path)
        self._connection = connect(self._path)

    def _is_ours(self, paths: RunPaths) -> bool:
        """Return whether a run's folder is inside the store, after symbolic links are resolved."""
        folder = paths.root
        if folder.parent.name.startswith(".") or inert(paths.run_id) != paths.run_id:
            return False  # No run has such a name; SQLite could not store it.
        if not folder.is_symlink() and not folder.parent.is_symlink():
            return True
        return folder.resolve().is_relative_to(self._store.root.resolve())


def _is_stale(paths: RunPaths, known: tuple[str, str] | None) -> bool:
    if known is None or known[0] != stamp_of(paths):
        return True
    # A process that dies changes no file time.
    unsettled = known[1] in _UNSETTLED
    return unsettled and state_of(paths, judged=False).value != known[1]


def _batches(changed: Sequence[RunPaths]) -> Iterator[Sequence[RunPaths]]:
    return (changed[start : start + _BATCH] for start in range(0, len(changed), _BATCH))


def _night(suite: str, night: str, first: dict[str, str], rows: Sequence[sqlite3.Row]) -> NightRow:
    signatures = [
        key for key, _ in Counter(each["signature"] for each in rows).most_common() if key
    ]
    tones = [each["tone"] for each in rows]
    running = sum(each["state"] == RunState.RUNNING for each in rows)
    return NightRow(
        suite=suite,
        night=night,
        runs=len(rows),
        repeats=sum(bool(each["repeats"]) for each in rows),
        running=running,
        verdicts=dict(
            Counter(tone for tone, each in zip(tones, rows, strict=True) if not each["repeats"])
        ),
        tone=next((each for each in _WORST if each in tones), "valid"),
        left_open=tones.count("unjudged") - running,
        new=tuple(key for key in signatures if first[key] == night),
        signatures=tuple(signatures),
    )
