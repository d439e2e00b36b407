"""The store as the site sees it: its index, kept fresh, and the runs that URLs name."""

import threading
from pathlib import Path
from typing import BinaryIO

from werkzeug.exceptions import NotFound

from results.index import Index, RunRow, open_index
from results.record.clock import stopwatch_s
from results.record.paths import RunPaths
from results.record.reading import open_file
from results.site.tallies import Tallies
from results.store import Store

FRESH_S = 1.0
"""So old may the index be when a page is made of it."""
_SHARE = 5
"""A refresh may take this part of the time between two, the inverse."""


class Shelf:
    """A store and its index; threads share one.

    Args:
        store: What is shown.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.root = store.root.resolve()
        self.tallies = Tallies()
        self._index = open_index(store)
        self._refreshing = threading.Lock()
        self._next_s = 0.0

    def index(self) -> Index:
        """Return the index, refreshed if it is older than `FRESH_S`.

        A store of very many runs is looked at less often; and one thread at a time does it, the
        others show what there is.

        Raises:
            StoreError: The store may not be read.
        """
        first = self._next_s == 0
        if stopwatch_s() < self._next_s or not self._refreshing.acquire(blocking=first):
            return self._index
        try:
            begun_s = stopwatch_s()
            if begun_s >= self._next_s:
                self._index.refresh()
                took_s = stopwatch_s() - begun_s
                self._next_s = stopwatch_s() + max(FRESH_S, _SHARE * took_s)
        finally:
            self._refreshing.release()
        return self._index

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def row(self, name: str, folder: str) -> RunRow:
        """Return the run that a URL names.

        Raises:
            NotFound: There is none.
        """
        row = self.index().run(f"{name}/{folder}")
        if row is None:
            raise NotFound(f"There is no run {name}/{folder} in this store.")
        return row

    def paths(self, row: RunRow) -> RunPaths:
        """Return a run's folder.

        Raises:
            NotFound: It has become a link since the index saw it.
        """
        paths = RunPaths(self.root / row.parent / row.folder)
        if paths.root.is_symlink() or paths.root.parent.is_symlink():
            raise NotFound(f"There is no run {row.run_id} in this store.")
        return paths

    def file(self, row: RunRow, relative: str) -> Path:
        """Return a file of a run, which is there.

        Args:
            row: The run.
            relative: As the URL has it.

        Raises:
            NotFound: As `open`.
        """
        with self.open(row, relative):
            return self.root / row.parent / row.folder / relative

    def open(self, row: RunRow, relative: str) -> BinaryIO:
        """Open a file of a run; no link on the way to it from the store is followed.

        Args:
            row: The run.
            relative: As the URL has it.

        Raises:
            NotFound: There is none, it is hidden, or lies behind a link.
        """
        parts = relative.split("/")
        if any(not part or part.startswith(".") or "\0" in part for part in parts):
            raise NotFound("There is no such file.")
        path = (self.root / row.parent / row.folder).joinpath(*parts)
        try:
            return open_file(path, root=self.root)
        except (OSError, ValueError) as missing:
            raise NotFound("There is no such file.") from missing
