"""A site as its user starts it: `logquake serve`, in a process of its own."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from results.record.clock import wait_until

WAIT_S = 120
PROGRAM = (
    sys.executable, "-c",
    "import sys; from harness.cli import main; sys.argv[0] = 'logquake'; main()",
)  # fmt: skip
ADDRESS = re.compile(r"http://([0-9.]+|\[[0-9a-f:]+\]):[0-9]+")


@contextmanager
def served(store: Path, log: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Start `logquake serve`, and return its URL, without the last slash, and its process."""
    with listening(log, "serve", "--port", "0", "--store", str(store), *options) as found:
        yield found


@contextmanager
def listening(
    log: Path, *words: str, program: Sequence[str] = PROGRAM, env: Mapping[str, str] | None = None
) -> Iterator[tuple[str, int]]:
    """Start a command that serves pages, and return its URL, as `served` does."""
    with log.open("wb") as file:
        server = subprocess.Popen(
            [
                # What starts tests in the background may have them ignore Ctrl-C.
                "env", "--default-signal=INT",
                *program, *words,
            ],
            stdout=file, stderr=subprocess.STDOUT, env=env,
        )  # fmt: skip
    try:
        wait_until(
            lambda: ADDRESS.search(log.read_text(encoding="utf-8")) or server.poll() is not None,
            timeout_s=WAIT_S,
            what="the site's address",
        )
        said = log.read_text(encoding="utf-8")
        found = ADDRESS.search(said)
        assert found, said
        yield found[0], server.pid
        server.send_signal(signal.SIGINT)
        assert server.wait(WAIT_S) == 0
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text(encoding="utf-8")
