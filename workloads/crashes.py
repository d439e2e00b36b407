"""Workers that crash: their own program ended them by a signal, which a client library can do."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CRASHES: Mapping[int, str] = {
    int(getattr(signal, name)): name
    for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
}
"""A failed assertion, a wrong access, and the like; nobody sends them from outside by accident."""
_MOST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The end of a worker.

    Attributes:
        worker: Its number.
        signal: By name: `SIGSEGV`.
        said: Its last words, line by line, without what librdkafka logs of its doing.
    """

    worker: int
    signal: str
    said: str


def crash_of(worker: int, code: int | None, log: Path) -> Crash | None:
    """Return how a worker crashed; None: it goes on, or ended in another way.

    Args:
        worker: Its number.
        code: As `Popen.returncode`.
        log: Has its own words.
    """
    name = CRASHES.get(-code) if code is not None else None
    return Crash(worker=worker, signal=name, said=_last_words(log)) if name else None


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    own = [line for line in lines if line.strip() and not line.startswith("%")]
    return "\n".join(own[-_MOST_LINES:])
