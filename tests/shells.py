"""A real shell on a terminal of its own, which a test can type into."""

import os
import pty
import re
import select
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from results.record.clock import wait_until

_LIMIT_S = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>()][A-Z0-9]?|\r|\x07|\x08")


class Shell:
    """A shell: the text that it shows, and the keys that it receives."""

    def __init__(self, terminal: int) -> None:
        self._terminal, self._shown = terminal, ""

    def types(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def shows(self, text: str) -> str:
        """Wait until the shell shows a text; return all text that it showed since the last call."""
        wait_until(lambda: text in self._look(), timeout_s=_LIMIT_S, what=f"{text!r} on a terminal")
        shown, _, self._shown = self._shown.partition(text)
        return shown + text

    def _look(self) -> str:
        while select.select([self._terminal], [], [], 0.05)[0]:
            self._shown += _ESCAPES.sub("", os.read(self._terminal, 65536).decode(errors="replace"))
        return self._shown


@contextmanager
def shell(words: list[str], environment: Mapping[str, str]) -> Iterator[Shell]:
    """Start a shell on a terminal; end the shell with all its processes after the block."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], words, {**environment})  # noqa: S606 - the shell is what is tested
    try:
        yield Shell(terminal)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)
