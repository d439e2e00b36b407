"""Start and stop the watcher (`harness.watcher`), and keep the evidence of a violation."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cluster.hosts.disk import LocalDisk
from cluster.protocol import Disk, Hosts
from cluster.systems.system import Deployment
from harness.arena import Arena
from harness.scenarios.snapshot import OF_NODE, OF_PARTITION
from results.record.milestones import STOPPED_ON, WATCHER_ENDED

MOMENT = "moment"
"""Copies from the moment of a violation are in a folder of this name: `snapshots/moment/<node>`."""
ASKED_S = 2.0
LOG = "watcher.log"
MOST_OF_A_LOG = 16 << 20
"""How many bytes, at most, are kept of a broker's own log: the last ones."""
_EXIT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A violation that the watcher reported.

    Attributes:
        name: The anomaly's name.
        sentence: The anomaly's description.
        topic, partition, offset: The place of the violation; an empty text, -1 and -1 if the
            violation concerns the whole run.
        first_ns, seen_ns: When a check first found the violation, and when another check confirmed
            it.
        told: The complete report of the watcher.
    """

    name: str
    sentence: str
    topic: str
    partition: int
    offset: int
    first_ns: int
    seen_ns: int
    told: Mapping[str, Any]

    @property
    def place(self) -> str:
        """The partition, such as `log-0-3`; an empty string for a whole run."""
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else ""


class Watching:
    """The watcher process of a run, from `start` to `stop`.

    Args:
        arena: The run's arena.
        cluster: The run's brokers.
    """

    def __init__(self, arena: Arena, cluster: Deployment) -> None:
        self._arena, self._cluster = arena, cluster
        self._found: Found | None = None
        self._stopping = False
        self._lost = False
        self._process: subprocess.Popen[bytes] | None = None
        self._ear = threading.Thread(target=self._listen, name="watcher", daemon=True)

    def start(self) -> None:
        """Start the watcher. Call this from a thread that lives as long as the run."""
        arena = self._arena
        folders, hidden = local_folders(arena.hosts, self._cluster.nodes)
        if hidden:
            arena.progress.say(
                f"watching: the files of {', '.join(hidden)} are on other machines, so lost-write"
                " and log-divergence are judged only at the end"
            )
        with (arena.paths.root / LOG).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
                [
                    sys.executable, "-P", "-m", "harness.watcher", str(arena.paths.root.absolute()),
                    str(arena.clock.start_ns), json.dumps(folders),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._ear.start()

    def found(self) -> list[str]:
        """Return a sentence if a violation must stop the run. If the watcher has died, record this.

        Call this repeatedly, from the run's own thread.
        """
        if self._lost:
            self._lost = False
            self._arena.progress.say(f"the watcher exited by itself ({LOG}); the run continues")
            self._arena.reach(WATCHER_ENDED)
        return [self._found.sentence] if self._found else []

    def keep_moment(self) -> None:
        """When a violation stops the run, keep the evidence from this moment."""
        found, arena = self._found, self._arena
        if found is None:
            return
        where = f" in {found.place}" if found.place else ""
        arena.progress.say(f"stopped on a violation: {found.name}{where}: {found.sentence}")
        arena.reach(
            STOPPED_ON,
            anomaly=found.name,
            place=found.place,
            sentence=found.sentence,
            first_ns=str(found.first_ns),
            seen_ns=str(found.seen_ns),
        )
        folder = arena.paths.snapshots / MOMENT
        told = json.dumps(found.told, indent=1, sort_keys=True) + "\n"
        _write(folder / "violation.json", told.encode())
        if arena.observer is not None:
            arena.observer.snapshot(MOMENT, ASKED_S)
        nodes = self._cluster.nodes
        for node in nodes:
            data = [f"data/{name}" for name in OF_NODE]
            data += [f"data/{found.place}/{name}" for name in OF_PARTITION if found.place]
            _copy(arena.hosts.disk(node), data, folder / node)
        arena.note_stacks(self._cluster)
        for node in nodes:
            _copy(arena.hosts.disk(node), ["logs/*"], folder / node, most=MOST_OF_A_LOG)

    def stop(self) -> None:
        """End the watcher, or record that it has ended by itself. Idempotent."""
        process = self._process
        if process is None:
            return
        if process.poll() is not None:
            self._ear.join()  # The thread notices the end now.
            self.found()
        self._stopping = True
        if process.stdin is not None:
            process.stdin.close()  # The watcher ends when its pipe closes.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_EXIT_S)
        process.kill()
        process.wait()
        self._ear.join()
        if process.stdout is not None:
            process.stdout.close()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            example = told["example"]
            self._found = Found(
                name=told["name"],
                sentence=example["sentence"],
                topic=example["topic"],
                partition=example["partition"],
                offset=example["offset"],
                first_ns=told["first_ns"],
                seen_ns=told["seen_ns"],
                told=told,
            )
        self._lost = self._found is None and not self._stopping


def local_folders(hosts: Hosts, nodes: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return two groups of nodes: those whose folder this machine can read, and the others."""
    disks = {node: hosts.disk(node) for node in nodes}
    seen = {node: disk for node, disk in disks.items() if isinstance(disk, LocalDisk)}
    folders = {node: str(disk.folder.absolute()) for node, disk in seen.items()}
    return folders, [node for node in nodes if node not in seen]


def _copy(disk: Disk, patterns: list[str], target: Path, *, most: int | None = None) -> None:
    """Copy all files of a node that match a pattern; with a limit, only the end of each file."""
    for pattern in patterns:
        paths: Sequence[PurePosixPath] = ()
        with suppress(OSError):  # The node's host does not respond.
            paths = disk.files(pattern)
        for path in paths:
            with suppress(OSError):  # The file was just replaced or deleted.
                size = disk.size(path)
                data = disk.read(path, at=0 if most is None else max(0, size - most))
                _write(target / path, data)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
