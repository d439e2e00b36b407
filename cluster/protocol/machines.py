"""What machines can do: start and signal processes, hold files, and what not every kind can."""

import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number.

    Attributes:
        pid: Its number on its machine; it leads a process group of its own.
        start_ticks: When it began: field 22 of `/proc/PID/stat`, or without `/proc` microseconds.
        machine: The node whose numbers these are; empty: those of the controlling machine.
    """

    pid: int
    start_ticks: int
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a node shall run."""

    argv: Sequence[str]
    log: Path
    """Standard output and error are appended here."""
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the harness's own environment."""
    limited: bool = False
    """Whether its processors and memory may be limited later (`CanLimitResources`)."""


@runtime_checkable
class Hosts(Protocol):
    """The machines of one run, by node name (`n1`, `n2`, ...)."""

    kind: str

    def up(self) -> None:
        """Make the machines. Raises `UserError` if this machine cannot."""

    def address(self, node: str) -> str:
        """Return the address under which the other nodes and the clients reach a node."""

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process on a node; it dies with the hosts, and with the harness."""

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the group that a process leads; False if it has ended already."""

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of its state, as in `/proc/PID/stat`; None: there is none any more."""

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        """Return the exit code of what was spawned on a node, or minus the signal that ended it.

        None: it has not ended, or nobody saw its end.
        """

    def disk(self, node: str) -> "Disk":
        """Return the files of a node's folder (`RunPaths.node`), wherever they are."""

    def down(self) -> None:
        """End every process and remove everything that `up` made. Idempotent."""


class Disk(Protocol):
    """The files of one node's folder. Paths are relative to it; what fails raises `OSError`."""

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the files, no folders, whose path matches (as `Path.glob`), in order."""

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return bytes of a file, from an offset on; -1: to its end."""

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file that may exist; what lies around them stays."""

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Cut a file to its first bytes."""

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with all that is in it. Idempotent."""


@runtime_checkable
class HasFiles(Protocol):
    """Hosts whose nodes keep their files elsewhere: on other machines, on disks of their own.

    A path of a `Command` that lies in the node's folder or among the software is the local one;
    `spawn` turns it into the machine's own.
    """

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Bring the node's folder, as it was prepared here, and files of software to a machine."""

    def fetch(self, node: str) -> None:
        """Bring the node's folder back here, as far as the machine answers. Idempotent."""


@runtime_checkable
class HasSoftware(HasFiles, Protocol):
    """Hosts that do not share this machine's Java either."""

    def java(self, node: str) -> Path:
        """Return the program `java` of a machine; raises `UserError` if it has none."""


class Ability(StrEnum):
    """What some hosts, or systems, can do and others cannot; faults that need it are dealt there.

    Hosts never lack those of `OF_SYSTEMS`: a system that does says why in its `Declared.cannot`.
    """

    CUT = "cut"
    """Drop what travels over a link (`CanPartition`)."""
    ONE_WAY = "one-way"
    """Drop what travels over a link in one direction, and let the other way through."""
    CUT_CLIENTS = "cut-clients"
    """Drop what travels between `CLIENTS` and a node."""
    SHAPE = "shape"
    """Delay, lose, double, reorder and stall what travels over a link (`CanShape`)."""
    SHAPE_CLIENTS = "shape-clients"
    """Do the same to what travels between `CLIENTS` and a node, both ways."""
    CONNECTIONS = "connections"
    """Tell the connections over a link, reset some of them, block some (`HasConnections`)."""
    DISK = "disk"
    """Fill the disk of a node, and make it read-only (`CanLimitDisk`)."""
    CLOCK = "clock"
    """Have a broker see another time (`CanShiftClock`)."""
    SLOW_DISK = "slow-disk"
    """Have a node's disk take long (`CanSlowDisk`)."""
    FAULTY_DISK = "faulty-disk"
    """Have a node's disk refuse, tear and forget what it is told to do (`CanFaultDisk`)."""
    RESOURCES = "resources"
    """Give a server less of processors, memory and file handles (`CanLimitResources`)."""
    KILL = "kill"
    """Kill a broker, and start it again (`CanKill`)."""
    STOP = "stop"
    """Stop a broker in order, and start it again."""
    PAUSE = "pause"
    """Have a broker stand still, and go on (`CanPause`)."""
    APART = "apart"
    """Have one broker gone while others live: each is a process of its own."""
    FILES = "files"
    """Read and change a broker's logs while it is down (`HasLogs`)."""
    QUORUM = "quorum"
    """Tell who leads the controllers."""
    ELECT = "elect"
    """Have a leader elected by order (`CanMoveLeaders`)."""
    REASSIGN = "reassign"
    """Give a partition other replicas by order (`CanMoveLeaders`)."""
    TOPICS = "topics"
    """Make and delete topics, and tell of each broker which it knows (`CanMakeTopics`)."""
    TIME = "time"
    """Have a broker say what time it takes it to be (`CanTellTime`)."""


OF_SYSTEMS = frozenset({
    Ability.KILL, Ability.STOP, Ability.PAUSE, Ability.APART, Ability.FILES, Ability.QUORUM,
    Ability.ELECT, Ability.REASSIGN, Ability.TOPICS, Ability.TIME, Ability.ONE_WAY,
})  # fmt: skip
"""What depends on the system alone. A system may lack what hosts can do as well."""


@runtime_checkable
class CanAudit(Protocol):
    """Hosts that can say what of a run is on them, or was changed by it."""

    def traces(self) -> Mapping[str, str]:
        """Return what is there now, by what it is: `{"n1: nft table logquake": "2 chains"}`.

        Asked before `up` and after `down`: a difference means that something was left behind.
        """


@runtime_checkable
class TellsRoom(Protocol):
    """Hosts whose nodes write to disks that are not this machine's."""

    def room(self) -> Mapping[str, int]:
        """Return how many bytes are left for each node, as far as is known; without waiting."""


@runtime_checkable
class CanLimitDisk(Protocol):
    """Hosts whose nodes keep their data on a file system of their own, of limited size."""

    def fill_disk(self, node: str) -> int:
        """Take all the room that is left on a node's disk; return how many bytes that were."""

    def empty_disk(self, node: str) -> None:
        """Give the room back. Idempotent."""

    def lock_disk(self, node: str) -> None:
        """Make a node's disk read-only; nobody may have a file of it open for writing."""

    def unlock_disk(self, node: str) -> None:
        """Make it writable again. Idempotent."""

    def try_disk(self, node: str) -> str:
        """Write a page to a node's disk; return the name of the error, `ENOSPC`; empty: none."""


@runtime_checkable
class CanSlowDisk(Protocol):
    """Hosts whose disks can be made to take long."""

    def slow_disk(self, node: str, flush_s: float) -> None:
        """Have each flush on a node's disk take up to so many seconds, and half of it at least.

        Real disks have each read and write take as long, too.
        """

    def quicken_disk(self, node: str) -> None:
        """Have it be as quick as it was. Idempotent."""

    def time_flush_s(self, node: str) -> float:
        """Write a page to a node's disk and flush it; return how long that took."""


DISK_REQUESTS = ("read", "write", "fsync")
"""What a disk is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskAnswers:
    """What a disk said to a page that was written, flushed and read again.

    Attributes:
        errors: By request, `read`, `write` and `fsync`: the name of its error; empty: none.
        written: How many bytes the page has.
        stored: How many of them lie below the node's file system; -1: nobody looked.
        asked: How many requests that took: nothing is read of a page that is not there.
        took_s: How long.
    """

    errors: Mapping[str, str]
    written: int
    stored: int
    asked: int
    took_s: float


@runtime_checkable
class CanFaultDisk(Protocol):
    """Hosts whose disks can be made to break requests, one way at a time on each node."""

    def fault_disk(
        self, node: str, kind: str, requests: Collection[str], *, folders: Collection[str] = ()
    ) -> None:
        """Have requests be broken on a node's disk, in place of any that were so far.

        Args:
            node: Whose.
            kind: `refused`: they get EIO; `torn`: a write stores its first half and gets EIO;
                `short`: it stores that and says so; `lost`: a flush of a segment is answered and
                not done.
            requests: `read`, `write`, `fsync`.
            folders: Of what is lost: the folders of partitions, in that of the node's data.
        """

    def mend_disk(self, node: str) -> int:
        """Have none be broken; return how many files could be flushed then. Idempotent.

        Raises:
            ClusterError: A file cannot be flushed.
        """

    def disk_counts(self, node: str) -> Mapping[str, int]:
        """Return how often that came to pass, since it was ordered: `{"refused write": 3}`."""

    def flushed(self, node: str) -> Mapping[PurePosixPath, int]:
        """Return how many bytes of each segment, as it is now called, have been on disk all along.

        From when flushes began to be lost: what was truncated and written again since is not.
        """

    def try_requests(self, node: str) -> DiskAnswers:
        """Write a page to a node's disk, flush it and read it again."""

    def disk_trouble(self, node: str) -> str:
        """Return what is wrong with what breaks a node's requests: `has ended`; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut:
    """What a loss of power left of one file.

    Attributes:
        flushed: How many of its first bytes were safe.
        kept: How many it has now: of what was not safe, some may have been written all the same.
        lost: How many are gone.
    """

    flushed: int
    kept: int
    lost: int


@runtime_checkable
class CanLosePower(Protocol):
    """Hosts whose machines can be turned off at once, with disks that tell what was flushed."""

    def lose_power(self, node: str) -> Mapping[PurePosixPath, PowerCut]:
        """Turn a machine off: what runs is gone, and no connection is closed.

        What was flushed stays; of what was not, as much as happened to be written. A start of its
        broker turns the machine on again.

        Returns:
            What became of each file that was on the disk, by its path in the node's folder.
        """


@runtime_checkable
class CanShiftClock(Protocol):
    """Hosts whose brokers may see another wall-clock time than the machine."""

    def clock_environment(self, node: str) -> Mapping[str, str]:
        """Return what a broker must be started with so that its clock can be shifted later."""

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Have a node's broker see the time shifted, and pass at another rate from now on."""

    def reset_clock(self, node: str) -> None:
        """Have it see the true time again. Idempotent."""

    def clock_offset_s(self, node: str) -> float:
        """Return by how much what a broker would see now differs from the true time."""
