"""The brokers of an attached cluster, asked over Kafka's protocol.

The user's commands inject the faults.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from cluster.kafka.admin import Admin
from cluster.kafka.brokers import BrokerProcesses
from cluster.kafka.observer import Observer
from cluster.kafka.questions import Place
from cluster.kafka.topics import make_topic, make_topics
from cluster.kafka.wire import dialling
from cluster.protocol import (
    ClusterError,
    ClusterView,
    Command,
    CoordinatorKind,
    Ended,
    Endpoint,
    ProcessId,
)
from cluster.systems.attached.hosts import AttachedHosts
from results.record.clock import RunClock, WaitTimeoutError, wait_until
from results.record.declared import Sight
from results.record.nodes import broker_names
from results.record.plan import Plan
from results.record.topics import CreatedTopic

READY_LIMIT_S = 30.0
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The settings of the run's topics, which keep all records.

The brokers' defaults may delete some records.
"""


class AttachedCluster:
    """Implements `Deployment`, `CanPause` and `CanTellBack` for an attached cluster.

    Args:
        plan: The run's plan.
        hosts: The cluster's machines, ready for use.
        sees: The observations that the brokers support.

    Attributes:
        nodes: The names of the brokers.
        controllers: Empty: the controllers are unknown.
        zookeeper: None.
        endpoints: The addresses of the brokers.
        sees: The observations that the brokers support.
    """

    controllers: Sequence[str] = ()
    zookeeper: str | None = None

    def __init__(self, plan: Plan, hosts: AttachedHosts, *, sees: frozenset[Sight]) -> None:
        assert plan.prefix is not None, "`settled` was not called for the plan"
        self.sees = sees
        self._prefix = plan.prefix
        self.nodes: Sequence[str] = broker_names(plan)
        self.endpoints: Mapping[str, Endpoint] = {node: hosts.places()[node] for node in self.nodes}
        self._hosts = hosts
        self._processes = BrokerProcesses(hosts, _by_the_users)
        with dialling(hosts.attached.dial):
            self._admin = Admin(self.endpoints, self.answers, only=plan.topic_names, sees=sees)

    def start(self, first: Sequence[str] = (), *, inherited: bool = False) -> None:  # noqa: ARG002 - the protocol's
        """Use the brokers, which already run; wait until every broker answers.

        Raises:
            ClusterError: A broker does not run or does not answer.
        """
        for node in self.nodes:
            self._processes.found(node, self._hosts.running(node))
        try:
            wait_until(
                lambda: all(map(self.is_back, self.nodes)),
                timeout_s=READY_LIMIT_S,
                what="every broker to be registered and to answer",
            )
        except WaitTimeoutError as late:
            missing = [node for node in self.nodes if not self._admin.lists_itself(node)]
            raise ClusterError(f"{late}; {', '.join(missing) or 'the cluster'} did not") from late

    def stop(self, timeout_s: float) -> dict[str, bool]:  # noqa: ARG002 - the protocol's
        """Leave the user's brokers running; return an empty mapping, because none was stopped."""
        self.close()
        return {}

    def close(self) -> None:
        """Close the harness's connections. Idempotent."""
        self._admin.close()

    def observer(self, topics: Sequence[CreatedTopic], *, clock: RunClock, live: Path) -> Observer:
        """Return the observer that asks each broker about topics."""
        with dialling(self._hosts.attached.dial):
            return Observer(self, topics, clock=clock, live=live)

    def collect(self, folder: Path) -> None:
        """Do nothing: the files that the judge needs have already been fetched."""

    def start_node(self, node: str) -> ProcessId:
        """Run a broker's start command; return when the `status` command names the process."""
        return self._processes.start(node)

    def stop_node(self, node: str, timeout_s: float) -> bool:
        """Stop a broker cleanly with `stop`; use `kill` after the timeout."""
        return self._processes.stop(node, timeout_s)

    def kill_node(self, node: str) -> None:
        """Kill a broker with `kill`."""
        self._processes.kill(node)

    def pause_node(self, node: str) -> None:
        """Pause a broker with `pause`."""
        self._processes.pause(node)

    def resume_node(self, node: str) -> None:
        """Resume a broker with `resume`. Idempotent."""
        self._processes.resume(node)

    def process(self, node: str) -> ProcessId | None:
        """Return the process that `status` named when the broker was found or last started."""
        return self._processes.process(node)

    def incarnation(self, node: str) -> int:
        """Return how often the broker was started since the run began."""
        return self._processes.incarnation(node)

    def answers(self, node: str) -> bool:
        """Return whether a broker should answer; False if the run ended or paused the broker."""
        return self._processes.is_meant_to_answer(node)

    def ended(self) -> Sequence[Ended]:
        """Return the processes that ended or stopped without an order of the run."""
        return self._processes.ended()

    def lives(self) -> int:
        """Return the number of broker processes so far; each start counts."""
        return self._processes.lives()

    def complaints(self, node: str, *, life: int = 0) -> list[str]:  # noqa: ARG002 - the protocol's
        """Return nothing: the broker's log belongs to the owner of the cluster."""
        return []

    def stacks(self) -> dict[str, str]:
        """Return nothing: thread stacks are not accessible."""
        return {}

    def view(self) -> ClusterView | None:
        """Ask all brokers that should answer for the cluster's state; see `Admin.view`."""
        return self._admin.view()

    def is_back(self, node: str) -> bool:
        """Return whether the broker itself and the cluster's view list the broker as registered."""
        if not self._admin.lists_itself(node):
            return False
        view = self._admin.view()
        return view is not None and node in view.registered

    def bootstrap(self) -> str:
        """Return the bootstrap servers `host:port,...` for clients."""
        return ",".join(f"{at.host}:{at.broker_port}" for at in self.endpoints.values())

    def create_topics(
        self,
        names: Sequence[str],
        *,
        partitions: int,
        replication: int,
        configs: Mapping[str, str] | None = None,
    ) -> list[CreatedTopic]:
        """Create topics with the run's prefix, and wait for them; see `KEPT`."""
        self._refuse_others(names)
        return make_topics(
            self._admin,
            names,
            partitions=partitions,
            replication=replication,
            configs={**KEPT, **(configs or {})},
        )

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> CreatedTopic:
        """Create a topic with the run's prefix, and wait for it; see `KEPT`."""
        self._refuse_others([name])
        kept = {**KEPT, **configs}
        return make_topic(self._admin, name, assignment=assignment, configs=kept)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics with the run's prefix."""
        self._refuse_others(names)
        self._admin.delete(names)

    def topics_of(self, node: str) -> frozenset[str] | None:
        """Return the run's topics that one broker knows."""
        found = self._admin.topics_of(node)
        if found is None:
            return None
        return frozenset(name for name in found if name.startswith(self._prefix))

    def coordinator(self, kind: CoordinatorKind, key: str) -> str | None:
        """Return the node that coordinates a group or a transactional id now; None if unknown."""
        return self._admin.coordinator(kind, key)

    def elect_preferred(self, place: Place) -> None:
        """Elect the preferred leader of one of the run's partitions."""
        self._refuse_others([place[0]])
        self._admin.elect_preferred(place)

    def elect_unclean(self, place: Place) -> None:
        """Elect any live replica as leader of one of the run's partitions."""
        self._refuse_others([place[0]])
        self._admin.elect_unclean(place)

    def reassign(self, place: Place, replicas: Sequence[str]) -> None:
        """Reassign one of the run's partitions to other replicas, or change their order."""
        self._refuse_others([place[0]])
        self._admin.reassign(place, replicas)

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask each partition's leader for the log's end; see `Admin.leader_ends`."""
        return self._admin.leader_ends(places, committed=committed, timeout_s=timeout_s)

    def open_transactions(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Return, by partition, a sentence about each open transaction that the leader reports."""
        return self._admin.open_transactions(places)

    def share_lags(self, group: str, places: Collection[Place]) -> dict[Place, int]:  # noqa: ARG002 - the protocol's
        """Return nothing: share groups are not supported here."""
        return {}

    def _refuse_others(self, names: Iterable[str]) -> None:
        """Raise if a topic's name has another prefix than the run's.

        Raises:
            ClusterError: A topic is not the run's own.
        """
        for name in names:
            if not name.startswith(self._prefix):
                raise ClusterError(
                    f"the topic {name} of the attached cluster does not belong to this run, so it"
                    " was not changed"
                )


def _by_the_users(node: str, _incarnation: int) -> Command:
    """Return an empty command: the hosts run the user's own start command."""
    return Command(argv=(), log=Path(node), cwd=Path())
