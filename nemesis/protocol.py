"""What a fault is, and what it works upon."""

import itertools
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, Self, runtime_checkable

from cluster.protocol import (
    CanPartition,
    Cluster,
    ClusterError,
    Disk,
    HasControllers,
    HasKeeper,
    HasLogs,
    Hosts,
    Link,
    Logs,
    ProcessId,
    SharesProcesses,
)
from cluster.sessions import OUR_SESSION_S
from nemesis.effects import Effect, HealEffect
from nemesis.network import Network
from nemesis.undo import Undo
from results.record.runtime import Event

FAILURES = (ClusterError, OSError, subprocess.SubprocessError)
"""What a host or a cluster raises when something outside of our code goes wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What faults work upon.

    Attributes:
        cluster: The brokers; abilities (`CanKill`, `CanPause`) are asked for with `isinstance`.
        network: Where the nodes' network can be cut, otherwise None.
        state_of: The letter of a process's state in `/proc`; None: it is gone.
        hosts: The machines; abilities (`CanShape`, ...) are asked for with `isinstance`.
        disk_of: The files of a node's folder, for faults of its disk; None: not at hand.
        controllers: Who keeps the metadata beside the nodes: controllers of their own, ZooKeeper.
        machines: All that have links; none: the nodes and controllers.
        session_s: For how long a broker that is gone counts as alive.
    """

    cluster: Cluster
    network: Network | None
    state_of: Callable[[ProcessId], str | None]
    hosts: Hosts | None = None
    disk_of: Callable[[str], Disk] | None = None
    controllers: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    session_s: float = OUR_SESSION_S

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        hosts: Hosts,
        state_of: Callable[[ProcessId], str | None] | None = None,
        *,
        machines: Sequence[str] = (),
        session_s: float = OUR_SESSION_S,
    ) -> Self:
        """Return the site of a run; `state_of` None: the hosts know."""
        return cls(
            cluster=cluster,
            network=Network(hosts) if isinstance(hosts, CanPartition) else None,
            state_of=state_of or hosts.state_of,
            hosts=hosts,
            disk_of=hosts.disk,
            controllers=_beside(cluster),
            machines=tuple(machines),
            session_s=session_s,
        )

    @property
    def logs(self) -> Logs | None:
        """Who knows the files of replicas; None: nobody, or they are not at hand."""
        return self.cluster.logs if isinstance(self.cluster, HasLogs) and self.disk_of else None

    def together(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return nodes with all others that their processes play: what hits one hits those."""
        if not isinstance(self.cluster, SharesProcesses):
            return tuple(nodes)
        shared = map(self.cluster.played_with, nodes)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(shared)))


def _beside(cluster: Cluster) -> tuple[str, ...]:
    """Return who keeps the metadata beside the nodes."""
    apart = tuple(cluster.controllers) if isinstance(cluster, HasControllers) else ()
    keeper = cluster.keeper if isinstance(cluster, HasKeeper) else None
    return apart if keeper is None else (*apart, keeper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One fault of the schedule at the moment at which it starts.

    Attributes:
        fault_id: Counted from 1 in a run.
        targets: The nodes that the role expression means now.
        rng: The fault's own, seeded by the run's seed and the fault's number.
        stop: Set when the main phase ends: a fault that takes long to inject ends early, and one
            that goes on by itself does nothing more.
        place: The topic and partition that the role expression names; None: none.
    """

    fault_id: int
    targets: tuple[str, ...]
    rng: Random
    stop: Event | None = None
    place: tuple[str, int] | None = None

    @property
    def is_late(self) -> bool:
        """Whether the main phase has ended; it may end by an error, and then nobody heals."""
        return self.stop is not None and self.stop.is_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for something to be confirmed.

    Attributes:
        limit_s: At most so many seconds.
        stop: Ends the wait early when set.
    """

    limit_s: float
    stop: Event | None = field(default=None)


class Fault(Protocol):
    """One fault with its targets. Whatever fails raises one of `FAILURES`.

    What it does beside itself, in a task, fails in its name: `nemesis.background`.
    """

    @property
    def targets(self) -> tuple[str, ...]:
        """The nodes that it hits."""

    @property
    def links(self) -> tuple[Link, ...]:
        """The directed links that it cuts; none for faults of processes."""

    def undo(self) -> tuple[Undo, ...]:
        """Return what would undo it; changes nothing."""

    def inject(self) -> None:
        """Measure what is before, then do it."""

    def confirm(self, patience: Patience) -> Effect | None:
        """Measure what it changed; None if that is nothing, within the patience."""

    def heal(self) -> None:
        """Undo it. Idempotent, also after an `inject` that failed or never was."""

    def confirm_healed(self, patience: Patience) -> HealEffect | None:
        """Measure that it is over; None if it is not, within the patience."""


@runtime_checkable
class OfPartition(Protocol):
    """A fault of one partition, which it may have drawn by itself."""

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""


@runtime_checkable
class LeavesTopics(Protocol):
    """A fault whose topics stay when it is over, and are to be whole like the run's own."""

    @property
    def places(self) -> Sequence[tuple[str, int]]:
        """Topics and partitions; none as long as they are not as they stay."""


FaultMaker = Callable[[Aim, Site], Fault]
"""Makes a fault; changes nothing yet. Raises `ClusterError` if this site cannot have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a scripted fault hits, known beforehand: no role to be resolved, no kind to look up.

    Attributes:
        nodes: Its targets.
        make: Makes it.
    """

    nodes: tuple[str, ...]
    make: FaultMaker
