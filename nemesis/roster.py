"""Who can be hit in a run, and what of it coordinators keep: pure, from the plan."""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.nodes import broker_names, controller_names, keepers
from cluster.protocol import CoordinatorKind
from results.record.identities import groups, transactional_ids
from results.record.plan import Plan
from results.record.shares import has_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """A consumer group, a transactional id or a share group's state, which a node coordinates.

    Attributes:
        kind: Which of them.
        key: Its name.
    """

    kind: CoordinatorKind
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Who there is.

    Attributes:
        nodes: The brokers.
        voters: Who keeps the metadata: the brokers, or controllers of their own; nobody of them
            where ZooKeeper does.
        partitions: Of the run's own topics.
        outside: ZooKeeper, where it keeps the metadata.
        coordinated: The groups and transactional ids of the run's own clients.
    """

    nodes: tuple[str, ...]
    voters: tuple[str, ...]
    partitions: tuple[tuple[str, int], ...]
    coordinated: tuple[Coordinated, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def everybody(self) -> tuple[str, ...]:
        """All that can be named: brokers, and controllers of their own."""
        return (*self.nodes, *(voter for voter in self.voters if voter not in self.nodes))


def roster_of(plan: Plan, nodes: Sequence[str] | None = None) -> Roster:
    """Return who there is in a run.

    Args:
        plan: The run's.
        nodes: Its brokers; None: `n1`, `n2`, ...
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
