"""Protocols for machines: start and signal processes, access files, and optional abilities."""

import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """The identity of a process. A later process with the same pid has another identity.

    Attributes:
        pid: The pid on the process's machine. The process leads its own process group.
        start_ticks: The start time: field 22 of `/proc/PID/stat`. On systems without `/proc`, it is
            in microseconds.
        machine: The node where the pid is valid; an empty string for the harness's machine.
    """

    pid: int
    start_ticks: int
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to start on a node."""

    argv: Sequence[str]
    log: Path
    """File to which standard output and error are appended."""
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the harness's own environment."""
    limited: bool = False
    """Whether processor time and memory may be limited later (`CanLimitResources`)."""


@runtime_checkable
class Hosts(Protocol):
    """The machines of one run, by node name (`n1`, `n2`, ...)."""

    kind: str

    def up(self) -> None:
        """Create the machines; raise `UserError` if this machine cannot create them."""

    def address(self, node: str) -> str:
        """Return the address at which the other nodes and the clients reach a node."""

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process on a node; it ends when the hosts or the harness end."""

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the process group of a process; return False if it has already ended."""

    def state_of(self, process: ProcessId) -> str | None:
        """Return a process's state letter, as in `/proc/PID/stat`; None if it no longer exists."""

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        """Return a process's exit code, or the negated number of the signal that ended it.

        Return None if the process has not ended, or if its end was not observed.
        """

    def disk(self, node: str) -> "Disk":
        """Return access to the files of a node's folder (`RunPaths.node`), wherever they are."""

    def down(self) -> None:
        """End every process and remove everything that `up` made. Idempotent."""


class Disk(Protocol):
    """The files of one node's folder. Paths start at this folder; failures raise `OSError`."""

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the paths of files that match a `Path.glob` pattern, without folders, sorted."""

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return `size` bytes of a file from offset `at`; if `size` is -1, all bytes to the end."""

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file at an offset; create a missing file. Change no other bytes."""

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with its contents. Idempotent."""


@runtime_checkable
class HasFiles(Protocol):
    """Hosts on which nodes keep their files on other machines or on separate disks.

    In a `Command`, the paths of the node's folder and of the software are paths on this machine.
    `spawn` translates them into paths on the node's machine.
    """

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Copy a node's prepared folder, and the software's files, to the node's machine."""

    def fetch(self, node: str) -> None:
        """Copy a node's folder back to this machine, if the node's machine answers. Idempotent."""


@runtime_checkable
class HasSoftware(HasFiles, Protocol):
    """Hosts that do not share this machine's Java."""

    def java(self, node: str) -> Path:
        """Return the path of `java` on a node's machine; raise `UserError` if it has none."""


class Ability(StrEnum):
    """The abilities that some hosts or systems have.

    A run contains only those faults for which its hosts and its system have the abilities.
    """

    CUT = "cut"
    """Drop the packets that travel over a link (`CanPartition`)."""
    ONE_WAY = "one-way"
    """Drop the packets of a link in one direction only."""
    CUT_CLIENTS = "cut-clients"
    """Drop the packets between `CLIENTS` and a node."""
    SHAPE = "shape"
    """Delay, lose, duplicate, reorder and stall the packets of a link (`CanShape`)."""
    SHAPE_CLIENTS = "shape-clients"
    """Shape the packets between `CLIENTS` and a node, in both directions."""
    CONNECTIONS = "connections"
    """List the TCP connections over a link, and reset or block some of them (`HasConnections`)."""
    DISK = "disk"
    """Fill a node's disk, and make it read-only (`CanLimitDisk`)."""
    CLOCK = "clock"
    """Show a broker a shifted time (`CanShiftClock`)."""
    SLOW_DISK = "slow-disk"
    """Slow a node's disk (`CanSlowDisk`)."""
    FAULTY_DISK = "faulty-disk"
    """Let a node's disk refuse, tear or lose requests (`CanFaultDisk`)."""
    RESOURCES = "resources"
    """Limit a server's processor time, memory and file handles (`CanLimitResources`)."""
    KILL = "kill"
    """Kill a broker and start it again (`CanKill`)."""
    STOP = "stop"
    """Stop a broker cleanly and start it again."""
    PAUSE = "pause"
    """Pause and resume a broker (`CanPause`)."""
    APART = "apart"
    """Take down one broker while others keep running: each broker has its own process."""
    FILES = "files"
    """Read and change a broker's logs while it is down (`HasLogs`)."""
    QUORUM = "quorum"
    """Report the leader of the controllers' quorum."""
    ELECT = "elect"
    """Elect a partition leader on request (`CanMoveLeaders`)."""
    REASSIGN = "reassign"
    """Reassign a partition to other replicas on request (`CanMoveLeaders`)."""
    TOPICS = "topics"
    """Create and delete topics, and report the topics that each broker knows (`CanMakeTopics`)."""
    TIME = "time"
    """Let a broker report its current time (`CanTellTime`)."""


OF_SYSTEMS = frozenset({
    Ability.KILL, Ability.STOP, Ability.PAUSE, Ability.APART, Ability.FILES, Ability.QUORUM,
    Ability.ELECT, Ability.REASSIGN, Ability.TOPICS, Ability.TIME, Ability.ONE_WAY,
})  # fmt: skip
"""The abilities that depend only on the system, not on the hosts.

A system may lack other abilities too.
"""


@runtime_checkable
class CanAudit(Protocol):
    """Hosts that can list the traces of a run."""

    def traces(self) -> Mapping[str, str]:
        """Return the traces that exist now: `{"n1: nft table logquake": "2 chains"}`.

        The harness calls this before `up` and after `down`. A difference means that something was
        left behind.
        """


@runtime_checkable
class TellsRoom(Protocol):
    """Hosts that can report the free space on the disks of their nodes' machines."""

    def room(self) -> Mapping[str, int]:
        """Return the free bytes on each node's disk, as last reported. The call does not wait."""


@runtime_checkable
class CanLimitDisk(Protocol):
    """Hosts with a separate file system of limited size for each node's data."""

    def fill_disk(self, node: str) -> int:
        """Fill a node's disk completely; return how many bytes were written."""

    def empty_disk(self, node: str) -> None:
        """Remove the bytes that filled the disk. Idempotent."""

    def lock_disk(self, node: str) -> None:
        """Make a node's disk read-only. No file on the disk may be open for writing."""

    def unlock_disk(self, node: str) -> None:
        """Make a node's disk writable again. Idempotent."""

    def try_disk(self, node: str) -> str:
        """Write a page to a node's disk; return the error name (`ENOSPC`), or an empty text."""


@runtime_checkable
class CanSlowDisk(Protocol):
    """Hosts with disks that can be slowed down."""

    def slow_disk(self, node: str, flush_s: float) -> None:
        """Delay each flush on a node's disk by `flush_s` / 2 to `flush_s` seconds.

        On real disks, each read, each write and each flush is delayed by exactly `flush_s` seconds.
        """

    def quicken_disk(self, node: str) -> None:
        """End the delays on a node's disk. Idempotent."""

    def time_flush_s(self, node: str) -> float:
        """Write a page to a node's disk and flush it; return the seconds that it took."""


DISK_REQUESTS = ("read", "write", "fsync")
"""The kinds of requests to a disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskAnswers:
    """The results of writing, flushing and reading a page on a disk.

    Attributes:
        errors: For each of `read`, `write` and `fsync`, the name of the error; an empty string if
            there was no error.
        written: The number of bytes of the page.
        stored: How many of these bytes are in the folder below the node's file system; -1 if not
            checked.
        asked: The number of requests. If the page does not exist, it is not read.
        took_s: The duration in seconds.
    """

    errors: Mapping[str, str]
    written: int
    stored: int
    asked: int
    took_s: float


@runtime_checkable
class CanFaultDisk(Protocol):
    """Hosts with disks on which faults can break requests. Each node has one fault at a time."""

    def fault_disk(
        self, node: str, kind: str, requests: Collection[str], *, folders: Collection[str] = ()
    ) -> None:
        """Break requests on a node's disk. This fault replaces an earlier one.

        Args:
            node: The node.
            kind: `refused`: requests get EIO. `torn`: a write stores its first half and gets EIO.
                `short`: a write stores its first half and reports half the length. `lost`: a flush
                of a segment is acknowledged but not done.
            requests: The kinds of requests: `read`, `write`, `fsync`.
            folders: For `lost`: the partitions' folders, within the node's data folder.
        """

    def mend_disk(self, node: str) -> int:
        """Clear the fault that breaks requests; return how many files were then flushed.

        The call is idempotent.

        Raises:
            ClusterError: A file cannot be flushed.
        """

    def disk_counts(self, node: str) -> Mapping[str, int]:
        """Return how often the fault affected a request since it began: `{"refused write": 3}`."""

    def flushed(self, node: str) -> Mapping[PurePosixPath, int]:
        """Return, for each segment, how many bytes were on disk when the loss of flushes began.

        Bytes that were truncated since then do not count, even if they were written again. If a
        segment was renamed, the result has its present name.
        """

    def try_requests(self, node: str) -> DiskAnswers:
        """Write a page to a node's disk, flush it and read it again."""

    def disk_trouble(self, node: str) -> str:
        """Return what is wrong with the program that breaks requests, such as `has ended`.

        The result is empty if the program works.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut:
    """The effect of a power loss on one file.

    Attributes:
        flushed: How many of the file's first bytes were flushed.
        kept: How many bytes the file has now. Some of these bytes may not have been flushed.
        lost: How many bytes were lost.
    """

    flushed: int
    kept: int
    lost: int


@runtime_checkable
class CanLosePower(Protocol):
    """Hosts with machines that can lose power, and disks that record the flushed bytes."""

    def lose_power(self, node: str) -> Mapping[PurePosixPath, PowerCut]:
        """Power a machine off: its processes end, but its connections are not closed.

        Flushed bytes stay. Some of the other bytes, a random share, are lost. The next start of the
        machine's broker powers it on again.

        Returns:
            For each file of the disk, by its path in the node's folder: the effect.
        """


@runtime_checkable
class CanShiftClock(Protocol):
    """Hosts that can show their brokers a shifted wall-clock time."""

    def clock_environment(self, node: str) -> Mapping[str, str]:
        """Return the environment variables that a broker needs for later clock shifts."""

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Shift a node's wall clock by an offset, and change how fast the clock runs."""

    def reset_clock(self, node: str) -> None:
        """Set a node's clock back to the correct time. Idempotent."""

    def clock_offset_s(self, node: str) -> float:
        """Return how many seconds a node's clock is now ahead of the true time."""
