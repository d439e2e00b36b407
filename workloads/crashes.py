"""Recognize crashes of workers: a signal such as SIGSEGV, which no user sends, ended the worker."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CRASHES: Mapping[int, str] = {
    int(getattr(signal, name)): name
    for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
}
"""Signals after a failed assertion, an invalid memory access and the like. No user sends them."""
_MOST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The crash of a worker.

    Attributes:
        worker: The worker's number.
        signal: The signal's name, such as `SIGSEGV`.
        said: The worker's last output lines, without librdkafka's ordinary log lines.
    """

    worker: int
    signal: str
    said: str


def crash_of(worker: int, code: int | None, log: Path) -> Crash | None:
    """Return the crash of a worker; None if the worker runs or ended in another way.

    Args:
        worker: The worker's number.
        code: The worker's exit code, as in `Popen.returncode`.
        log: The file with the worker's output.
    """
    name = CRASHES.get(-code) if code is not None else None
    return Crash(worker=worker, signal=name, said=_last_words(log)) if name else None


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    own = [line for line in lines if line.strip() and not line.startswith("%")]
    return "\n".join(own[-_MOST_LINES:])
