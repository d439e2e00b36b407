"""Use libfaketime (man 1 faketime) to shift the wall clock that brokers see.

A broker starts with this library preloaded (`LD_PRELOAD`). Whenever the broker reads the wall
clock, the library reads a file in the node's folder. The library adds the seconds that the file
contains. The machine's own clock does not change. The shift ends with the process. The monotonic
clock is not shifted (`FAKETIME_DONT_FAKE_MONOTONIC`). Otherwise Java would wait too long or too
short. Debian's library also needs `FAKETIME_FORCE_MONOTONIC_FIX=0`. Without it, waits on the
monotonic clock would end at once. Both settings were tried with Java 17.

A wrong clock rate consists of small steps: the file is rewritten many times a second. The library's
own rates are not used. These rates count from the start of the process, so a restart would change
the clock.
"""

import functools
import glob
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from results.record.clock import pause_until, stopwatch_s, unix_s

PLACES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
"""The paths of the library: in Debian, in Fedora, and after a build by hand."""
MISSING = "libfaketime is missing; type: sudo apt-get install faketime"
CLOCK_FILE = "clock"
"""The name of the clock file in a node's folder."""
STEP_S = 0.02
TRIAL_S = 100_000
TRIAL_TIMEOUT_S = 10.0


def library() -> Path | None:
    """Return the path of libfaketime for threaded programs; None if this machine lacks it."""
    found = (Path(path) for place in PLACES for path in sorted(glob.glob(place)))  # noqa: PTH207 - absolute patterns
    return next(found, None)


def environment(preloaded: Path, file: Path) -> Mapping[str, str]:
    """Return the environment variables with which a process reads the clock's shift from a file.

    Args:
        preloaded: The path of libfaketime, from `library`.
        file: The clock file. The file contains a line from `offset_line` with the offset in
            seconds.
    """
    return {
        "LD_PRELOAD": str(preloaded),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",  # Kafka compares the modification times of files.
    }


def offset_line(offset_s: float) -> str:
    """Return the clock file's line for an offset. The sign marks the number as an offset."""
    return f"{offset_s:+.3f}\n"


@functools.cache
def why_not() -> str:
    """Test whether a clock can be shifted on this machine; return the reason if that fails.

    The result is an empty string if a clock can be shifted.
    """
    preloaded = library()
    if preloaded is None:
        return MISSING
    with tempfile.TemporaryFile() as file:  # No name, so nothing is left after a kill.
        file.write(offset_line(TRIAL_S).encode("ascii"))
        file.flush()
        seen = Path(f"/proc/self/fd/{file.fileno()}")
        try:
            said = subprocess.run(
                ["date", "+%s"],  # noqa: S607 - of the user's own PATH
                env={**os.environ, **environment(preloaded, seen)},
                pass_fds=[file.fileno()],
                capture_output=True,
                text=True,
                timeout=TRIAL_TIMEOUT_S,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError) as failed:
            return f"{preloaded} does not work: {failed}"
    ahead_s = float(said or 0) - unix_s()
    return "" if abs(ahead_s - TRIAL_S) < TRIAL_S / 2 else f"{preloaded} does not shift a clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shift:
    offset_s: float
    rate: float
    since_s: float

    def now_s(self) -> float:
        return self.offset_s + (self.rate - 1) * (stopwatch_s() - self.since_s)


class Clocks:
    """The shifted clocks of a run's nodes. One thread updates clocks that run at a wrong rate.

    Args:
        write: A function that writes a node's clock file atomically.
    """

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self._write = write
        self._shifts: dict[str, _Shift] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._mover: threading.Thread | None = None

    def true(self, node: str) -> None:
        """Before a node's process starts, write the true time if the node has no shift yet."""
        with self._lock:
            if node not in self._shifts:
                self._write(node, offset_line(0))

    def set(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Shift a node's wall clock by an offset, and change how fast the clock runs.

        Args:
            node: The node.
            offset_s: Seconds to add to true time now.
            rate: How many seconds the node's clock advances in each true second.
        """
        shift = _Shift(offset_s=offset_s, rate=rate, since_s=stopwatch_s())
        with self._lock:
            self._shifts[node] = shift
            self._write(node, offset_line(offset_s))
            if rate != 1 and self._mover is None:
                self._mover = threading.Thread(target=self._move, name="clocks", daemon=True)
                self._mover.start()

    def reset(self, node: str) -> None:
        """Set a node's clock to the correct time again. Idempotent."""
        with self._lock:
            self._shifts.pop(node, None)
            self._write(node, offset_line(0))

    def offset_s(self, node: str) -> float:
        """Return how many seconds a node's clock is ahead of true time."""
        with self._lock:
            shift = self._shifts.get(node)
        return shift.now_s() if shift else 0.0

    def close(self) -> None:
        """Stop the thread that updates the clock files. Idempotent."""
        self._over.set()
        if self._mover is not None:
            self._mover.join()

    def _move(self) -> None:
        while not pause_until(stopwatch_s() + STEP_S, self._over):
            with self._lock:
                for node, shift in self._shifts.items():
                    if shift.rate != 1:
                        self._write(node, offset_line(shift.now_s()))
