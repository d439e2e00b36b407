"""What a system is, to those who play runs of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cluster.protocol import (
    Ability,
    CanFindCoordinators,
    CanKill,
    CanMakeTopics,
    CanMoveLeaders,
    Cluster,
    ClusterView,
    Ended,
    Endpoint,
    Hosts,
    Summary,
)
from results.environment import Told
from results.record.clock import RunClock
from results.record.declared import Declared
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.topics import CreatedTopic

Say = Callable[[str], None]
Place = tuple[str, int]
"""A topic and a partition of it."""


class Observer(Protocol):
    """Asks each broker by itself, several times a second, for the record."""

    def start(self) -> None:
        """Start asking."""

    def stop(self) -> None:
        """Stop asking, and end the streams. Idempotent."""

    def note(self, timeout_s: float) -> frozenset[str]:
        """Take the last look before the stop; return the nodes that answered."""

    def snapshot(self, name: str, timeout_s: float) -> frozenset[str]:
        """Have every replica's state written under a name, now; return the nodes that answered."""

    def failures(self) -> list[str]:
        """Return why observers ended before `stop`, in sentences."""

    def latest(self) -> Summary:
        """Return what is known now."""


class Deployment(Cluster, CanFindCoordinators, CanKill, CanMakeTopics, CanMoveLeaders, Protocol):
    """The brokers of one run, and who keeps their metadata; see `cluster.kafka.cluster`."""

    controllers: Sequence[str]
    """Controllers of their own."""
    endpoints: Mapping[str, Endpoint]
    """Where brokers and controllers of their own listen."""

    @property
    def zookeeper(self) -> str | None:
        """Return `host:port` of ZooKeeper, None without it."""

    def start(self, first: Sequence[str] = (), *, inherited: bool = False) -> None:
        """Start all nodes; return when each is registered and answers."""

    def stop(self, timeout_s: float) -> dict[str, bool]:
        """End the run's use of all nodes; return of each whether it ended by itself."""

    def close(self) -> None:
        """Close our connections; processes stay as they are. Idempotent."""

    def observer(self, topics: Sequence[CreatedTopic], *, clock: RunClock, live: Path) -> Observer:
        """Return who will ask each broker about topics."""

    def collect(self, folder: Path) -> None:
        """Tidy a node's folder when all has stopped, so that it holds what the judge reads."""

    def incarnation(self, node: str) -> int:
        """Return how often the node's broker was started: 1 for the first."""

    def answers(self, node: str) -> bool:
        """Tell whether a node's broker runs and is not paused, as far as processes show."""

    def ended(self) -> Sequence[Ended]:
        """Return what ended, or stands still, though nobody of ours did that."""

    def lives(self) -> int:
        """Return how many servers were started, each start counted."""

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last lines of a server that report an error, and its very last line.

        Args:
            node: The server's node.
            life: Which start of the server wrote them: 1 is the first start, 0 the last one.
        """

    def stacks(self) -> dict[str, str]:
        """Have servers print their threads' stacks; return the deadlocks found, by node."""

    def view(self) -> ClusterView | None:
        """Return what the cluster says of itself; None if nobody answers."""

    def is_back(self, node: str) -> bool:
        """Tell whether a node is registered anew since its start, and serves."""

    def create_topics(
        self,
        names: Sequence[str],
        *,
        partitions: int,
        replication: int,
        configs: Mapping[str, str] | None = None,
    ) -> list[CreatedTopic]:
        """Create topics and wait until every partition has a leader and a full ISR."""

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> CreatedTopic:
        """Create a topic with its replicas where they are wanted, and wait for them."""

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask each partition's leader for its end until all have answered, or time is up."""

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Return whose transactions are open, a sentence each, as the leaders tell."""

    def share_lags(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Return how many records of each partition a share group is not done with, if known."""


class System(Protocol):
    """A system, for the plan of one run.

    Attributes:
        plan: Of the run.
    """

    plan: Plan

    def refuse(self, *, keep: bool) -> None:
        """Refuse what of the plan cannot be done with it.

        Args:
            keep: Whether the cluster shall go on after the verdict.

        Raises:
            UserError: What, and the remedy.
        """

    def settled(self, say: Say) -> Plan:
        """Return the plan with what only the system knows: its version, its brokers' ids.

        Raises:
            UserError: Its files, or its brokers, do not tell.
        """

    def prepare(self, say: Say) -> None:
        """Fetch, or find, what its brokers are started with.

        Args:
            say: Is told in a few words how far it is.

        Raises:
            UserError: What is missing, and the remedy.
        """

    def declared(self) -> Declared:
        """Return what can be seen of it, and what cannot be done to it."""

    def told(self) -> Told:
        """Return what `environment.json` has of it; `prepare` was called."""

    def cuts_by_itself(self, hosts: str) -> bool:
        """Tell whether its nodes cut links themselves, on hosts that cannot."""

    def hosts(self, paths: RunPaths) -> Hosts | None:
        """Return machines of its own; None: those of the plan's kind."""

    def cluster(self, hosts: Hosts, paths: RunPaths) -> Deployment:
        """Return its brokers on hosts that are up, not started; `prepare` was called."""

    def commands(self) -> Mapping[str, str]:
        """Return where its own tools lie, as a command on a kept node finds them."""


def why_not(declared: Declared) -> dict[Ability, str]:
    """Return why some abilities are not there, of what a system declared."""
    return {each: declared.cannot[each] for each in Ability if each in declared.cannot}
