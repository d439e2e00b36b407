"""The possible targets of a run, and the groups that its coordinators serve. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.protocol import CoordinatorKind
from results.record.identities import groups, transactional_ids
from results.record.nodes import broker_names, controller_names, keepers
from results.record.plan import Plan
from results.record.shares import has_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """A consumer group, a transactional id or a share group's state. Each has a coordinator node.

    Attributes:
        kind: Whether it is a group, a transactional id or a share group's state.
        key: The name of the group, or the transactional id.
    """

    kind: CoordinatorKind
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """All nodes, partitions and groups that targets can name.

    Attributes:
        nodes: The brokers.
        voters: The nodes that keep the metadata: brokers or separate controllers. Empty with
            ZooKeeper.
        partitions: The partitions of the run's own topics.
        outside: ZooKeeper, if it keeps the metadata.
        coordinated: The groups, share groups and transactional ids of the run's own clients.
    """

    nodes: tuple[str, ...]
    voters: tuple[str, ...]
    partitions: tuple[tuple[str, int], ...]
    coordinated: tuple[Coordinated, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def everybody(self) -> tuple[str, ...]:
        """Return all nodes that a target can name: brokers and separate controllers."""
        return (*self.nodes, *(voter for voter in self.voters if voter not in self.nodes))


def roster_of(plan: Plan, nodes: Sequence[str] | None = None) -> Roster:
    """Return the roster of a run.

    Args:
        plan: The plan of the run.
        nodes: The brokers of the run. None means `n1`, `n2`, ...
    """
    brokers = tuple(nodes or broker_names(plan))
    transactional = [_of(CoordinatorKind.TRANSACTION, key) for key in transactional_ids(plan)]
    in_groups = [_of(CoordinatorKind.GROUP, key) for key in groups(plan)]
    shared = [_of(CoordinatorKind.SHARE, key) for key in groups(plan) if has_shares(plan)]
    return Roster(
        nodes=brokers,
        voters=_voters(plan, brokers),
        partitions=tuple(plan.topic_partitions),
        coordinated=(*transactional, *in_groups, *shared),
        outside=tuple(keepers(plan)),
    )


def _voters(plan: Plan, brokers: tuple[str, ...]) -> tuple[str, ...]:
    return brokers if plan.brokers_vote else tuple(controller_names(plan))


def _of(kind: CoordinatorKind, key: str) -> Coordinated:
    return Coordinated(kind=kind, key=key)
