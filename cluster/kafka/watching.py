"""The observer's thread for one node: it repeats requests, and writes the responses."""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from cluster.kafka.rows import Row
from cluster.protocol import ClusterError
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import Task, new_event, new_lock, start
from results.record.stream import StreamWriter

log = logging.getLogger(__name__)

INTERVAL_S = 0.25

Write = Callable[[str, Iterable[Row | None]], None]
"""A function that writes rows to the table of a given name; it skips rows that are None."""


class Rounds(Protocol):
    """The repeated requests to one node; only the node's observer thread uses them."""

    tables: Sequence[str]

    def look(self, snapshot: str | None, write: Write) -> None:
        """Send each request once; write the responses even if a later request fails.

        Args:
            snapshot: The name of the snapshot for which every row is written. None: write only
                changed rows.
            write: The function that writes rows.

        Raises:
            ClusterError: The node does not answer.
        """

    def close(self) -> None:
        """Close all connections."""


@dataclass(slots=True, eq=False, kw_only=True)
class Wish:
    """A request for a complete snapshot of one node.

    Attributes:
        snapshot: The snapshot's name.
        done: Whether the snapshot was written.
        withdrawn: Whether the request was cancelled, so no more rows may be written.
    """

    snapshot: str
    done: bool = False
    withdrawn: bool = False


class Watch:
    """The observer's thread for one node, from `start` to `stop`.

    Args:
        node: The observed node.
        rounds: The requests to repeat.
    """

    def __init__(self, node: str, rounds: Rounds) -> None:
        self.failure: str | None = None
        self._node = node
        self._rounds = rounds
        self._stop = new_event()
        self._wake = new_event()
        self._wish: Wish | None = None
        self._writing = new_lock()
        self._streams: dict[str, StreamWriter] = {}
        self._task: Task[None] | None = None

    def start(self, live: Path) -> None:
        """Start the thread; its rows are written below the folder `live`."""
        for table in self._rounds.tables:
            self._streams[table] = StreamWriter(live, table, f"observer-{self._node}")
        self._task = start(self._run, f"observer-{self._node}")

    def want(self, snapshot: str) -> Wish:
        """Request a complete snapshot in the next round. An earlier request is forgotten."""
        wish = Wish(snapshot=snapshot)
        self._wish = wish
        self._wake.set()
        return wish

    def withdraw(self, wish: Wish) -> None:
        """Cancel a snapshot. After this call, no row is written under the snapshot's name."""
        with self._writing:
            wish.withdrawn = True

    def ask_to_stop(self) -> None:
        """Make the thread end after its current round."""
        self._stop.set()
        self._wake.set()

    def stop(self) -> None:
        """Wait for the thread's end. Idempotent."""
        if self._task is not None:
            self._task.join()

    def _run(self) -> None:
        try:
            self._look_until_stopped()
        except OSError as full:
            self.failure = f"the run's record cannot be written: {full.strerror or full}"
            log.error("%s: %s", self._node, self.failure)  # noqa: TRY400 - one line is enough
        finally:
            # If a bug ends the thread, the run's record must not look complete.
            if self.failure is None and not self._stop.is_set():
                self.failure = f"the observer of {self._node} ended too early"

    def _look_until_stopped(self) -> None:
        with ExitStack() as ending:
            for stream in self._streams.values():
                ending.callback(stream.close)
            ending.callback(self._rounds.close)
            while not self._stop.is_set():
                next_s = stopwatch_s() + INTERVAL_S
                self._round()
                pause_until(next_s, self._wake)
                self._wake.clear()

    def _round(self) -> None:
        wish = self._wish
        if wish is not None and (wish.done or wish.withdrawn):
            wish = None
        try:
            self._rounds.look(wish.snapshot if wish else None, partial(self._write, wish))
        except ClusterError as silent:
            log.debug("%s", silent)
            return
        if wish is not None:
            wish.done = True

    def _write(self, wish: Wish | None, table: str, rows: Iterable[Row | None]) -> None:
        stream = self._streams[table]
        with self._writing:
            if wish is not None and wish.withdrawn:
                return
            for row in rows:
                if row is not None:
                    stream.append(row)
            stream.flush()
