"""Write a node's log files in Kafka's form: `[time] LEVEL text (logger)`."""

import time
from pathlib import Path
from typing import TextIO

from results.record.clock import unix_s

STATE_CHANGES = "(state.change.logger)"
SERVER_LOG, STATE_CHANGE_LOG = "server.log", "state-change.log"


class Journal:
    """Writes log lines. When `say` returns, the line is in the kernel.

    Args:
        folder: The node's `logs/`; None: standard output.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, TextIO] = {}

    def say(self, text: str, *, level: str = "INFO") -> None:
        """Write a line. Lines of Kafka's state change logger go to a separate file."""
        now_s = unix_s()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_s))
        line = f"[{stamp},{int(now_s * 1000) % 1000:03d}] {level} {text}\n"
        name = STATE_CHANGE_LOG if text.endswith(STATE_CHANGES) else SERVER_LOG
        self._file(name).write(line)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, name: str) -> TextIO:
        file = self._files.get(name)
        if file is None:
            if self._folder is None:
                file = Path("/dev/stdout").open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - kept open
            else:
                self._folder.mkdir(parents=True, exist_ok=True)
                file = (self._folder / name).open("a", buffering=1, encoding="utf-8")
            self._files[name] = file
        return file
