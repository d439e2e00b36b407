"""Protocols and data types for a server's processor time, memory and file handles."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cluster.protocol.machines import ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """The file descriptors of a process (man 2 getrlimit, `RLIMIT_NOFILE`).

    Attributes:
        numbers: The open descriptors.
        soft, hard: The limits. The process can only open descriptors with numbers below `soft`.
    """

    numbers: frozenset[int]
    soft: int
    hard: int

    def free(self, wanted: int) -> tuple[int, ...]:
        """Return the lowest unused descriptor numbers below the limit, at most `wanted`."""
        lowest = range(min(self.soft, len(self.numbers) + wanted))
        return tuple(each for each in lowest if each not in self.numbers)[:wanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The processor time that a server may use and has used.

    Attributes:
        process: The server's process.
        share: The largest share of one core that the server may use; None if unlimited.
        throttled: The number of periods in which the server had to wait because its share was used
            up.
        throttled_s: How many seconds the server's threads waited in these periods, in total.
        used_s: The processor seconds that the server has used.
    """

    process: ProcessId
    share: float | None
    throttled: int
    throttled_s: float
    used_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory use of a server.

    Attributes:
        limit_bytes: The limit; None if there is none.
        used_bytes: The server's memory, including the files that the kernel caches for the server.
        cached_bytes: The bytes of these cached files. The kernel can drop them.
        hits: How often the server hit the limit.
        kills: How often the kernel killed the server because of the limit.
    """

    limit_bytes: int | None
    used_bytes: int
    cached_bytes: int
    hits: int
    kills: int


@runtime_checkable
class CanLimitResources(Protocol):
    """Hosts that can limit a server's processor time, memory and file handles.

    Processor time and memory can be limited only if the server was started with `Command.limited`.
    """

    def handles(self, process: ProcessId) -> Handles:
        """Return the file descriptors of a process, and their limits.

        Raises:
            ClusterError: The process has ended.
        """

    def limit_handles(self, process: ProcessId, soft: int) -> None:
        """From now on, let a process open only file descriptors with numbers below `soft`."""

    def processor(self, node: str) -> Processor:
        """Return the processor time that a node's server may use and has used.

        Raises:
            ClusterError: The server was not started with `Command.limited`, or it has ended.
        """

    def limit_processor(self, node: str, share: float | None) -> None:
        """Limit a node's server to a share of one core; None removes the limit. Idempotent."""

    def memory(self, node: str) -> Memory:
        """Return the memory use of a node's server.

        Raises:
            ClusterError: The server was not started with `Command.limited`.
        """

    def limit_memory(self, node: str, limit_bytes: int | None) -> None:
        """Limit the memory of a node's server; None removes the limit. Idempotent.

        Raises:
            ClusterError: The server uses more memory, and the kernel cannot reclaim enough.
        """
