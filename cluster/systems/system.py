"""The protocol of a system under test, as the harness uses it."""

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
"""A topic, and the id of a partition of this topic."""


class Observer(Protocol):
    """Asks each broker for its state several times a second, and records the answers."""

    def start(self) -> None:
        """Start asking."""

    def stop(self) -> None:
        """Stop asking, and close the streams. Idempotent."""

    def note(self, timeout_s: float) -> frozenset[str]:
        """Observe once more before the brokers stop; return the nodes that answered."""

    def snapshot(self, name: str, timeout_s: float) -> frozenset[str]:
        """Record every replica's present state under a name; return the nodes that answered."""

    def failures(self) -> list[str]:
        """Return, as sentences, the reasons why observers ended before `stop`."""

    def latest(self) -> Summary:
        """Return the known state of the cluster, from the brokers' last answers."""


class Deployment(Cluster, CanFindCoordinators, CanKill, CanMakeTopics, CanMoveLeaders, Protocol):
    """The brokers of one run, with their controllers or ZooKeeper; see `cluster.kafka.cluster`."""

    controllers: Sequence[str]
    """The names of controllers that have nodes of their own."""
    endpoints: Mapping[str, Endpoint]
    """The addresses of brokers and separate controllers."""

    @property
    def zookeeper(self) -> str | None:
        """Return `host:port` of ZooKeeper; None without ZooKeeper."""

    def start(self, first: Sequence[str] = (), *, inherited: bool = False) -> None:
        """Start all nodes; return when each of them is registered and answers."""

    def stop(self, timeout_s: float) -> dict[str, bool]:
        """Stop all nodes for this run; return, for each node, whether it ended by itself."""

    def close(self) -> None:
        """Close the harness's connections; processes stay unchanged. Idempotent."""

    def observer(self, topics: Sequence[CreatedTopic], *, clock: RunClock, live: Path) -> Observer:
        """Return the observer that asks each broker about topics."""

    def collect(self, folder: Path) -> None:
        """Prepare a stopped node's folder for the judge, which reads it."""

    def incarnation(self, node: str) -> int:
        """Return the number of starts of the node's broker; 1 after the first start."""

    def answers(self, node: str) -> bool:
        """Return whether a node's broker runs and is not paused, according to its process."""

    def ended(self) -> Sequence[Ended]:
        """Return the processes that ended or stopped without an order of the run."""

    def lives(self) -> int:
        """Return the number of servers started so far; each start counts."""

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last error lines in a server's log, and the last line of this log.

        Args:
            node: The server's node.
            life: Selects the lines that were written after one start: 1 is the first start, 0 the
                latest.
        """

    def stacks(self) -> dict[str, str]:
        """Make servers print the stacks of their threads; return the deadlocks found, by node."""

    def view(self) -> ClusterView | None:
        """Return the cluster's report about itself; None if no node answers."""

    def is_back(self, node: str) -> bool:
        """Return whether a node serves requests, and has registered since its last start."""

    def create_topics(
        self,
        names: Sequence[str],
        *,
        partitions: int,
        replication: int,
        configs: Mapping[str, str] | None = None,
    ) -> list[CreatedTopic]:
        """Create topics, and wait until every partition has a leader and a full ISR."""

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> CreatedTopic:
        """Create a topic with an assignment of replicas, and wait until the topic is ready."""

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask each partition's leader for the log's end, until all answer or the time is over."""

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Return, by partition, one sentence for each open transaction that the leaders report."""

    def share_lags(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Return, by partition, how many records a share group has not finished, if known."""


class System(Protocol):
    """A system under test, for the plan of one run.

    Attributes:
        plan: The run's plan.
    """

    plan: Plan

    def refuse(self, *, keep: bool) -> None:
        """Raise if the plan asks for something that this system does not support.

        Args:
            keep: Whether the cluster should continue to run after the verdict.

        Raises:
            UserError: The plan cannot be run. The message has the remedy.
        """

    def settled(self, say: Say) -> Plan:
        """Return the plan with the system's data, such as its version and the brokers' ids.

        Raises:
            UserError: The system's files or brokers do not report these data.
        """

    def prepare(self, say: Say) -> None:
        """Fetch or find the software that starts the system's brokers.

        Args:
            say: Gets short messages about the progress.

        Raises:
            UserError: Something is missing. The message has the remedy.
        """

    def declared(self) -> Declared:
        """Return the observations that are possible, and the abilities that the system lacks."""

    def told(self) -> Told:
        """Return the system's entries for `environment.json`; call `prepare` before."""

    def cuts_by_itself(self, hosts: str) -> bool:
        """Return whether the nodes cut links themselves, because these hosts cannot cut links."""

    def hosts(self, paths: RunPaths) -> Hosts | None:
        """Return the system's own machines; None to use the plan's kind of hosts."""

    def cluster(self, hosts: Hosts, paths: RunPaths) -> Deployment:
        """Return the system's brokers, not started; call `prepare` before.

        The hosts must be up.
        """

    def commands(self) -> Mapping[str, str]:
        """Return the paths of the system's command-line tools, as environment variables.

        On a kept node, the user's commands find the tools in these variables.
        """


def why_not(declared: Declared) -> dict[Ability, str]:
    """Return the abilities that a system declares as missing, each with the reason."""
    return {each: declared.cannot[each] for each in Ability if each in declared.cannot}
