"""A child process that is talked to in JSON lines, and dies with us."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

END_TIMEOUT_S = 30.0
GO = "go"
"""To a player: its run's id is in the journal."""
ENGINE = "LOGQUAKE_ENGINE"
"""Environment variable of the judge: auto, spark, local."""
END, ALONE, PAGE = "end", "alone", "page"
"""Of orders to the judge: there are no more; this one may have ended the judge before; only the
run's page is to be written, anew."""

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""No `results` of the folder that we were started in takes our package's place, in Spark's workers
neither (https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH)."""

Words = dict[str, object]


class Child:
    """One `python -m MODULE`; its standard input is the pipe that it lives by.

    Args:
        module: What to run.
        log: Where its standard error goes.
        environment: Of the child, over ours.
    """

    def __init__(
        self, module: str, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        with log.open("ab") as errors:
            # A session of its own: Ctrl-C is for whoever leads the night.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | SAFE_PATH | dict(environment or {}),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def tell(self, text: str) -> bool:
        """Send a line; False if nobody reads it any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def answers(self) -> Iterator[Words]:
        """Yield what it says, until it ends; a line that is not ours is left out."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                words = json.loads(line)
            except ValueError:
                continue
            if isinstance(words, dict):
                yield words

    def interrupt(self) -> None:
        """Have it come to an orderly end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Close its pipe, and wait for its end, but not for ever; return its exit status."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # It is gone, and had not read everything.
            self._process.stdin.close()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
