"""A child process that exchanges lines of JSON with its parent, and dies with its parent."""

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
"""After this line, a player process may start its run, because the journal has the run's id."""
ENGINE = "LOGQUAKE_ENGINE"
"""The environment variable that selects the judge's engine: auto, spark, local."""
END, ALONE, PAGE = "end", "alone", "page"
"""The keys in orders to the judge. `END`: there are no more orders. `ALONE`: the judge may have
died because of this run. `PAGE`: only write the run's page again."""

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""With this setting, a folder `results` in the working directory cannot hide Logquake's package.
The setting also works in Spark's workers
(https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH)."""

Words = dict[str, object]


class Child:
    """A child process `python -m MODULE`; it ends when its standard input closes.

    Args:
        module: The module to run.
        log: The file for the child's standard error.
        environment: Environment variables for the child, in addition to this process's own.
    """

    def __init__(
        self, module: str, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        with log.open("ab") as errors:
            # In its own session, because Ctrl-C is for the night's leader.
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
        """The child's process id."""
        return self._process.pid

    def tell(self, text: str) -> bool:
        """Send a line to the child; return False if the child no longer reads."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def answers(self) -> Iterator[Words]:
        """Yield the child's lines until the child ends; skip lines that are not JSON objects."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                words = json.loads(line)
            except ValueError:
                continue
            if isinstance(words, dict):
                yield words

    def interrupt(self) -> None:
        """Send SIGINT to the child, so that it ends in the usual way."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the child."""
        self._process.kill()

    def close(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Close the child's input; if the child ends too late, kill it; return its exit status."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # The child has ended with unread input.
            self._process.stdin.close()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
