"""The thread that looks at one node again and again, and writes what it saw to the record."""

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
"""Takes the name of a table, and rows of it; None is no row."""


class Rounds(Protocol):
    """What is asked of one node. Only its watch's thread calls it."""

    tables: Sequence[str]

    def look(self, snapshot: str | None, write: Write) -> None:
        """Ask everything once; what was answered before a failure is written all the same.

        Args:
            snapshot: Set: every row is due, under this name.
            write: Takes the rows.

        Raises:
            ClusterError: The node does not answer.
        """

    def close(self) -> None:
        """Close all connections."""


@dataclass(slots=True, eq=False, kw_only=True)
class Wish:
    """A round that shall be written whole.

    Attributes:
        snapshot: Its name.
        done: Whether it was.
        withdrawn: Nothing of it may be written any more.
    """

    snapshot: str
    done: bool = False
    withdrawn: bool = False


class Watch:
    """One thread, from `start` to `stop`.

    Args:
        node: Who is looked at.
        rounds: How.
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
        """Start looking."""
        for table in self._rounds.tables:
            self._streams[table] = StreamWriter(live, table, f"observer-{self._node}")
        self._task = start(self._run, f"observer-{self._node}")

    def want(self, snapshot: str) -> Wish:
        """Have the next round written whole; replaces an earlier wish."""
        wish = Wish(snapshot=snapshot)
        self._wish = wish
        self._wake.set()
        return wish

    def withdraw(self, wish: Wish) -> None:
        """Give a wish up: from now on nothing is written under its name."""
        with self._writing:
            wish.withdrawn = True

    def ask_to_stop(self) -> None:
        """Have the thread end after its round."""
        self._stop.set()
        self._wake.set()

    def stop(self) -> None:
        """Wait for its end. Idempotent."""
        if self._task is not None:
            self._task.join()

    def _run(self) -> None:
        try:
            self._look_until_stopped()
        except OSError as full:
            self.failure = f"the record cannot be written: {full.strerror or full}"
            log.error("%s: %s", self._node, self.failure)  # noqa: TRY400 - one line is enough
        finally:
            # A bug of ours ends the thread, and must not leave a record that looks whole.
            if self.failure is None and not self._stop.is_set():
                self.failure = f"the observer of {self._node} ended before its time"

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
