"""What a machine gives a server's process of its processors, memory and file handles."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cluster.protocol.machines import ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """The file descriptors of a process (man 2 getrlimit, `RLIMIT_NOFILE`).

    Attributes:
        numbers: Those that are open.
        soft, hard: Its limits: it opens none whose number would be `soft` or more.
    """

    numbers: frozenset[int]
    soft: int
    hard: int

    def free(self, wanted: int) -> tuple[int, ...]:
        """Return the lowest numbers below the limit that are not open, as many as wanted."""
        lowest = range(min(self.soft, len(self.numbers) + wanted))
        return tuple(each for each in lowest if each not in self.numbers)[:wanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """How much of the processors a server gets, and got.

    Attributes:
        process: The server that was measured.
        share: The part of one core that it gets at most; None: it has no limit.
        throttled: In how many periods it had to wait because it had had its share.
        throttled_s: How long it waited, all its threads together.
        used_s: How long it has run.
    """

    process: ProcessId
    share: float | None
    throttled: int
    throttled_s: float
    used_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How much memory a server has.

    Attributes:
        limit_bytes: As much as it gets; None: without a limit.
        used_bytes: Its memory, with the files that the kernel keeps in memory for it.
        cached_bytes: Those files, which the kernel can drop.
        hits: How often it wanted more than its limit.
        kills: How often the kernel killed it for that.
    """

    limit_bytes: int | None
    used_bytes: int
    cached_bytes: int
    hits: int
    kills: int


@runtime_checkable
class CanLimitResources(Protocol):
    """Hosts that can give a server less of processors, memory and file handles than it wants.

    Limits of processors and memory need a server that was started for them (`Command.limited`).
    """

    def handles(self, process: ProcessId) -> Handles:
        """Return the file descriptors of a process.

        Raises:
            ClusterError: It has ended.
        """

    def limit_handles(self, process: ProcessId, soft: int) -> None:
        """Have a process open no descriptor whose number would be `soft` or more."""

    def processor(self, node: str) -> Processor:
        """Return how much of the processors a node's server gets, and got.

        Raises:
            ClusterError: It was not started so that it can be limited, or has ended.
        """

    def limit_processor(self, node: str, share: float | None) -> None:
        """Give a node's server so much of one core; None: as before. Idempotent."""

    def memory(self, node: str) -> Memory:
        """Return how much memory a node's server has.

        Raises:
            ClusterError: It was not started so that it can be limited.
        """

    def limit_memory(self, node: str, limit_bytes: int | None) -> None:
        """Give a node's server so much memory; None: as before. Idempotent.

        Raises:
            ClusterError: It has more, and the kernel cannot take it back.
        """
