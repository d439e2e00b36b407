"""The site's access to the store: an index that is up to date, and the runs and files for URLs."""

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
"""Maximum age of the index, in seconds, when the site makes a page."""
_SHARE = 5
"""The pause between two refreshes is at least this many times as long as the last refresh took."""


class Shelf:
    """A store and its index. Threads share this object.

    Args:
        store: The store to show.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.root = store.root.resolve()
        self.tallies = Tallies()
        self._index = open_index(store)
        self._refreshing = threading.Lock()
        self._next_s = 0.0

    def index(self) -> Index:
        """Return the index. If it is older than `FRESH_S`, refresh it first.

        A very large store is refreshed less often. Only one thread refreshes at a time. Meanwhile,
        the other threads use the old index.

        Raises:
            StoreError: The store cannot be read.
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
        """Return the run that a URL refers to.

        Raises:
            NotFound: There is no such run.
        """
        row = self.index().run(f"{name}/{folder}")
        if row is None:
            raise NotFound(f"There is no run {name}/{folder} in this store.")
        return row

    def paths(self, row: RunRow) -> RunPaths:
        """Return the paths of a run.

        Raises:
            NotFound: The folder has become a link since the index was refreshed.
        """
        paths = RunPaths(self.root / row.parent / row.folder)
        if paths.root.is_symlink() or paths.root.parent.is_symlink():
            raise NotFound(f"There is no run {row.run_id} in this store.")
        return paths

    def file(self, row: RunRow, relative: str) -> Path:
        """Return the path of an existing file of a run.

        Args:
            row: The run.
            relative: The file's path in the URL.

        Raises:
            NotFound: As in `open`.
        """
        with self.open(row, relative):
            return self.root / row.parent / row.folder / relative

    def open(self, row: RunRow, relative: str) -> BinaryIO:
        """Open a file of a run, without following links below the store's folder.

        Args:
            row: The run.
            relative: The file's path in the URL.

        Raises:
            NotFound: The file is missing or hidden, or its path contains a link.
        """
        parts = relative.split("/")
        if any(not part or part.startswith(".") or "\0" in part for part in parts):
            raise NotFound("There is no such file.")
        path = (self.root / row.parent / row.folder).joinpath(*parts)
        try:
            return open_file(path, root=self.root)
        except (OSError, ValueError) as missing:
            raise NotFound("There is no such file.") from missing
