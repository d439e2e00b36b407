"""Read the logs of a run's nodes, and the times in them."""

import math
import re
from dataclasses import dataclass
from datetime import datetime

from results.environment import read_environment
from results.record.nodes import ZOOKEEPER_MACHINE, is_controller
from results.record.paths import RunPaths
from results.record.verdict import Example

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
"""The pattern of a time in a broker's log."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of a run's nodes."""

    run: RunPaths

    @property
    def nodes(self) -> list[str]:
        """The nodes with logs."""
        return sorted(each.parent.name for each in self.run.root.glob("nodes/*/logs"))

    @property
    def brokers(self) -> list[str]:
        """The brokers with logs."""
        return [
            each for each in self.nodes if each != ZOOKEEPER_MACHINE and not is_controller(each)
        ]

    def of(self, node: str, name: str = "server.log") -> str:
        """Return the text of a node's log, the oldest file first; empty without a file."""
        found = self.run.root.glob(f"nodes/{node}/logs/**/{name}*")
        files = sorted(found, key=lambda each: (each.name == name, each.name))
        return "".join(each.read_text("utf-8", "replace") for each in files if each.is_file())


def place_of(example: Example) -> str:
    """Return the partition of an anomaly as brokers write it: `log-0-3`."""
    return f"{example.topic}-{example.partition}"


def logged_s(pattern: str, text: str) -> list[float]:
    """Return the times, in seconds, of the lines of a log that match a pattern."""
    lines = re.finditer(rf"^\[({TIME})\][^\n]*{pattern}", text, re.MULTILINE)
    return [at_s(each[1]) for each in lines]


def at_s(time: str) -> float:
    """Return a time of a log in seconds since 1970."""
    return datetime.fromisoformat(time.replace(",", ".")).timestamp()


def began_s(logs: Logs) -> float:
    """Return when the run began, in seconds since 1970, on the brokers' clocks."""
    began = read_environment(logs.run.environment).get("started_unix_s")
    return began if isinstance(began, float) else math.inf
