"""Has brokers see another wall-clock time than the machine, by libfaketime (man 1 faketime).

A broker is started with the library before all others (`LD_PRELOAD`). It then looks into a file of
its node's folder whenever it asks the wall clock, and adds the seconds that it finds there. Nothing
else on the machine is touched, and with the process all of it is gone.

The monotonic clock stays true (`FAKETIME_DONT_FAKE_MONOTONIC`), or no wait of a Java would last as
long as it should. Debian's library bends waits on the monotonic clock all the same, to nothing, but
for `FAKETIME_FORCE_MONOTONIC_FIX=0`: both were tried with Java 17.

A rate is made of steps: the file is written anew many times a second. The library has rates of its
own, but counts them from the start of the process, which a restart would move.
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
"""Where distributions have it: Debian, Fedora, built by hand."""
MISSING = "libfaketime is missing; type: sudo apt-get install faketime"
CLOCK_FILE = "clock"
"""In a node's folder."""
STEP_S = 0.02
TRIAL_S = 100_000
TRIAL_TIMEOUT_S = 10.0


def library() -> Path | None:
    """Return libfaketime for programs with threads; None if it is not on this machine."""
    found = (Path(path) for place in PLACES for path in sorted(glob.glob(place)))  # noqa: PTH207 - absolute patterns
    return next(found, None)


def environment(preloaded: Path, file: Path) -> Mapping[str, str]:
    """Return what a process is started with so that it sees the time that a file says.

    Args:
        preloaded: Of `library`.
        file: Has the offset in seconds, as `offset_line` writes it.
    """
    return {
        "LD_PRELOAD": str(preloaded),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",  # Kafka compares the times of files with each other.
    }


def offset_line(offset_s: float) -> str:
    """Return the line of the file: always signed, which makes it an offset."""
    return f"{offset_s:+.3f}\n"


@functools.cache
def why_not() -> str:
    """Return why no clock can be shifted on this machine, found out by trying; empty if it can."""
    preloaded = library()
    if preloaded is None:
        return MISSING
    with tempfile.TemporaryFile() as file:  # Without a name: should we be killed meanwhile.
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
    return "" if abs(ahead_s - TRIAL_S) < TRIAL_S / 2 else f"{preloaded} shifts no clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shift:
    offset_s: float
    rate: float
    since_s: float

    def now_s(self) -> float:
        return self.offset_s + (self.rate - 1) * (stopwatch_s() - self.since_s)


class Clocks:
    """The clocks of a run's nodes; one thread moves all that do not pass as they should.

    Args:
        write: Writes the line of a node's file, all of it at once.
    """

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self._write = write
        self._shifts: dict[str, _Shift] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._mover: threading.Thread | None = None

    def true(self, node: str) -> None:
        """Write the true time's line for a node that has none yet, before its process starts."""
        with self._lock:
            if node not in self._shifts:
                self._write(node, offset_line(0))

    def set(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Have a node see the time shifted, and pass at another rate from now on."""
        shift = _Shift(offset_s=offset_s, rate=rate, since_s=stopwatch_s())
        with self._lock:
            self._shifts[node] = shift
            self._write(node, offset_line(offset_s))
            if rate != 1 and self._mover is None:
                self._mover = threading.Thread(target=self._move, name="clocks", daemon=True)
                self._mover.start()

    def reset(self, node: str) -> None:
        """Have it see the true time again. Idempotent."""
        with self._lock:
            self._shifts.pop(node, None)
            self._write(node, offset_line(0))

    def offset_s(self, node: str) -> float:
        """Return by how much a node's time is ahead of the true one."""
        with self._lock:
            shift = self._shifts.get(node)
        return shift.now_s() if shift else 0.0

    def close(self) -> None:
        """Move no clock any more. Idempotent."""
        self._over.set()
        if self._mover is not None:
            self._mover.join()

    def _move(self) -> None:
        while not pause_until(stopwatch_s() + STEP_S, self._over):
            with self._lock:
                for node, shift in self._shifts.items():
                    if shift.rate != 1:
                        self._write(node, offset_line(shift.now_s()))
