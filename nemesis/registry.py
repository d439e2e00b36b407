"""The kinds of faults by name. To add a kind, write its module, its test, and a line in `KINDS`."""

from collections.abc import Collection
from dataclasses import replace

from cluster.protocol import Ability
from nemesis.answers_cut import answers_cut
from nemesis.bandwidth import bandwidth
from nemesis.bit_flip import BitFlip
from nemesis.bridge import LEAST_NODES, bridge
from nemesis.claims import Aspect
from nemesis.client_connection_stall import client_connection_stall
from nemesis.client_cut import client_cut
from nemesis.client_half_open import client_half_open
from nemesis.client_reset import client_reset
from nemesis.client_stall import client_stall
from nemesis.clock_drift import ClockDrift
from nemesis.clock_offset import ClockOffset
from nemesis.clock_strobe import ClockStrobe
from nemesis.connection_half_open import connection_half_open
from nemesis.connection_reset import connection_reset
from nemesis.connection_stall import connection_stall
from nemesis.controller_failover import ControllerFailover, leaves_a_quorum
from nemesis.delay import delay
from nemesis.disk_error import DiskError
from nemesis.disk_full import DiskFull
from nemesis.disputed_election import LEAST_VOTERS, DisputedElection, has_enough_voters
from nemesis.duplicate import duplicate
from nemesis.few_handles import FewHandles
from nemesis.flapping import Flapping
from nemesis.grudges import LEAST_RING
from nemesis.halves import halves
from nemesis.isolate import isolate
from nemesis.jitter import jitter
from nemesis.keeper_cut import keeper_cut
from nemesis.keeper_kill import keeper_kill
from nemesis.keeper_pause import keeper_pause
from nemesis.kill import Kill
from nemesis.kill_all import kill_all
from nemesis.kill_remade import kill_remade
from nemesis.kill_twice import KillTwice
from nemesis.kind import Kind
from nemesis.link_stall import link_stall
from nemesis.little_memory import LittleMemory
from nemesis.little_processor import LittleProcessor
from nemesis.loss import loss
from nemesis.lost_flush import LostFlush
from nemesis.one_way import one_way_in, one_way_out
from nemesis.pause import Pause
from nemesis.pause_all import pause_all
from nemesis.power_loss import PowerLoss
from nemesis.preferred_election import PreferredElection
from nemesis.protocol import FaultMaker
from nemesis.read_only import ReadOnly
from nemesis.reassignment import Reassignment
from nemesis.remade import deletes_at_once
from nemesis.reorder import reorder
from nemesis.ring import ring
from nemesis.rolling import RollingRestart
from nemesis.rolling_kill import RollingKill
from nemesis.slow_disk import SlowDisk
from nemesis.stop import Stop
from nemesis.stop_remade import stop_remade
from nemesis.targets import COORDINATOR, KEEPER, QUORUM_VOTERS, SERVERS
from nemesis.topic_churn import TopicChurn
from nemesis.torn_write import TornWrite
from nemesis.unclean_election import UncleanElection, leaves_somebody_to_elect
from nemesis.wipe import Wipe
from results.record.plan import Plan, PlanError

ON_FILES = frozenset({Ability.FILES, Ability.APART})
"""The abilities that faults on the files of one broker need. The other brokers must stay alive."""
PARTITION = "partition"
"""The family of the basic network partitions."""
CLIENTS_ASK = ("leader", COORDINATOR, "controller")
"""Roles of nodes to which clients talk. Each such node has data that no other node serves."""


def _cut(
    make: FaultMaker,
    *,
    family: str = PARTITION,
    least_nodes: int = 2,
    spares: bool = False,
    divides: bool = False,
    needs: Collection[Ability] = (),
) -> Kind:
    return Kind(
        family=family,
        make=make,
        settle_s=1,
        needs=frozenset({Ability.CUT, Ability.APART, *needs}),
        aspect=Aspect.LINKS,
        least_nodes=least_nodes,
        spares=spares,
        divides=divides,
    )


def _client_cut(make: FaultMaker, *, by_hand: bool = False) -> Kind:
    return Kind(
        family="clients",
        make=make,
        settle_s=1,
        needs=frozenset({Ability.CUT, Ability.CUT_CLIENTS}),
        aims=("leader",),
        aspect=Aspect.LINKS,
        by_hand=by_hand,
    )


def _shape(make: FaultMaker) -> Kind:
    return Kind(
        family="network",
        make=make,
        settle_s=2,
        needs=frozenset({Ability.SHAPE, Ability.APART}),
        aspect=Aspect.QUALITY,
        least_nodes=2,
    )


def _stall(
    family: str,
    make: FaultMaker,
    need: Ability,
    *,
    aims: tuple[str, ...] = (),
    least_nodes: int = 1,
) -> Kind:
    return Kind(
        family=family,
        make=make,
        confirm_s=9,  # The end of the longest stall.
        settle_s=3,  # Longer than the pause between two stalls.
        needs=frozenset({Ability.SHAPE, need}),
        aims=aims,
        aspect=Aspect.QUALITY,
        least_nodes=least_nodes,
    )


def _client_stall(make: FaultMaker) -> Kind:
    return _stall("stall-clients", make, Ability.SHAPE_CLIENTS, aims=CLIENTS_ASK)


def _connections(make: FaultMaker, need: Ability, *, of_clients: bool = False) -> Kind:
    return Kind(
        family="client-connections" if of_clients else "connections",
        make=make,
        settle_s=2,
        needs=frozenset({Ability.CONNECTIONS, need}),
        aims=CLIENTS_ASK if of_clients else (),
        aspect=Aspect.LINKS,
        least_nodes=1 if of_clients else 2,
    )


def _clock(make: FaultMaker) -> Kind:
    needs = frozenset({Ability.CLOCK, Ability.TIME})
    return Kind(family="clock", make=make, settle_s=2, needs=needs, aspect=Aspect.CLOCK)


def _leadership(make: FaultMaker, *needs: Ability, settle_s: float) -> Kind:
    return Kind(
        family="leadership",
        make=make,
        settle_s=settle_s,
        needs=frozenset(needs),
        aims=("leader", COORDINATOR),
        aspect=Aspect.CLUSTER,
        suits=lambda plan: plan.replication > 1,
        unless="it needs replication 2 or more",
        on_controllers=True,  # It acts on a partition, not on the target node.
    )


def _disk(make: FaultMaker, *more: Ability) -> Kind:
    needs = frozenset({Ability.DISK, Ability.KILL, *more})
    return Kind(family="disk", make=make, settle_s=9, starts=1, needs=needs)


def _faulty_disk(
    make: FaultMaker,
    family: str,
    *more: Ability,
    settle_s: float = 9,
    when_whole: bool = False,
) -> Kind:
    return Kind(
        family=family,
        make=make,
        settle_s=settle_s,
        starts=1,
        needs=frozenset({Ability.FAULTY_DISK, Ability.KILL, *more}),
        when_whole=when_whole,
    )


def _process(make: FaultMaker, need: Ability, *, settle_s: float, starts: int = 0) -> Kind:
    return Kind(
        family=need.value,
        make=make,
        settle_s=settle_s,
        starts=starts,
        ends=starts > 0,
        needs=frozenset({need}),
        on_controllers=True,
    )


def _remade(make: FaultMaker, need: Ability) -> Kind:
    return Kind(
        family="remade",
        make=make,
        # Time for the confirmation: a session ends, and a topic is recreated up to three times.
        settle_s=16,
        starts=1,
        ends=True,
        needs=frozenset({need, Ability.TOPICS, Ability.APART}),
        aims=("one", "leader", "follower"),
        least_nodes=2,
        spares=True,
        suits=deletes_at_once,
        unless="another broker must stay up, and ZooKeeper must not keep the metadata: a cluster"
        " with ZooKeeper deletes a topic only while all brokers of the topic are up",
    )


def _outage(make: FaultMaker, need: Ability, *, settle_s: float, starts: int = 0) -> Kind:
    return Kind(
        family="outage",
        make=make,
        settle_s=settle_s,
        starts=starts,
        needs=frozenset({need}),
        aims=(SERVERS,),
        only=(SERVERS, "all"),
        on_controllers=True,
        divides=True,
    )


def _keeper(
    make: FaultMaker,
    *needs: Ability,
    settle_s: float,
    starts: int = 0,
    family: str = KEEPER,
    aspect: Aspect = Aspect.PROCESS,
) -> Kind:
    return Kind(
        family=family,
        make=make,
        settle_s=settle_s,
        starts=starts,
        needs=frozenset(needs),
        aims=(KEEPER,),
        only=(KEEPER,),
        aspect=aspect,
        suits=lambda plan: plan.kept_outside,
        unless="this system has no ZooKeeper (only Kafka up to 3.9 can use it)",
        on_controllers=True,
        divides=True,
    )


def _resource(make: FaultMaker) -> Kind:
    return Kind(
        family="resources",
        make=make,
        settle_s=8,
        starts=1,
        needs=frozenset({Ability.RESOURCES, Ability.KILL, Ability.APART}),
    )


def _files(
    family: str, make: FaultMaker, *needs: Ability, settle_s: float, aims: tuple[str, ...] = ()
) -> Kind:
    return Kind(
        family=family,
        make=make,
        settle_s=settle_s,
        starts=1,
        needs=ON_FILES | {*needs},
        aims=aims,
        when_whole=True,
    )


KINDS: dict[str, Kind] = {
    "isolate": _cut(isolate),
    "halves": _cut(halves, divides=True),
    "one-way-in": _cut(one_way_in, spares=True, needs={Ability.ONE_WAY}),
    "one-way-out": _cut(one_way_out, spares=True, needs={Ability.ONE_WAY}),
    # Not in `partition`: every default run uses that family's four shapes.
    "ring": _cut(ring, family="splits", least_nodes=LEAST_RING, divides=True),
    "bridge": _cut(bridge, family="splits", least_nodes=LEAST_NODES, divides=True),
    "flapping": _cut(Flapping, family="splits"),
    "client-cut": _client_cut(client_cut),
    # By hand on real hosts, so that old seeds keep their old schedules there.
    "answers-cut": _client_cut(answers_cut, by_hand=True),
    "delay": _shape(delay),
    "jitter": _shape(jitter),
    "loss": _shape(loss),
    "duplicate": _shape(duplicate),
    "reorder": _shape(reorder),
    "bandwidth": _shape(bandwidth),
    "link-stall": _stall("stall", link_stall, Ability.APART, least_nodes=2),
    "connection-stall": _stall("stall", connection_stall, Ability.APART, least_nodes=2),
    "client-stall": _client_stall(client_stall),
    "client-connection-stall": _client_stall(client_connection_stall),
    "kill": _process(Kill, Ability.KILL, settle_s=6, starts=1),
    "stop": _process(Stop, Ability.STOP, settle_s=7, starts=1),
    "pause": _process(Pause, Ability.PAUSE, settle_s=1),
    "rolling-restart": Kind(
        family="rolling",
        make=RollingRestart,
        needs=frozenset({Ability.STOP, Ability.APART}),
        settle_s=30,
        starts=3,
        aims=("all",),
        on_controllers=True,
    ),
    "power-loss": _files("power-loss", PowerLoss, Ability.KILL, settle_s=9),
    "wipe": _files("wipe", Wipe, Ability.STOP, settle_s=10),
    "bit-flip": _files(
        "bit-flip", BitFlip, Ability.KILL, Ability.STOP, settle_s=9, aims=("follower",)
    ),
    "disk-full": _disk(DiskFull),
    "read-only": _disk(ReadOnly, Ability.STOP),
    # A separate family on real hosts, so that schedules of `disk` stay the same there.
    "slow-disk": Kind(
        family="disk",
        family_on_hosts="slow-disks",
        make=SlowDisk,
        settle_s=1,
        needs=frozenset({Ability.SLOW_DISK}),
        aspect=Aspect.DISK,
    ),
    "disk-error": _faulty_disk(DiskError, "disk-errors"),
    "torn-write": _faulty_disk(TornWrite, "disk-errors"),
    "lost-flush": _faulty_disk(
        LostFlush, "lost-flushes", Ability.STOP, *ON_FILES, settle_s=15, when_whole=True
    ),
    "clock-offset": _clock(ClockOffset),
    "clock-drift": _clock(ClockDrift),
    "clock-strobe": _clock(ClockStrobe),
    "preferred-election": _leadership(
        PreferredElection, Ability.ELECT, Ability.REASSIGN, settle_s=1
    ),
    "reassignment": _leadership(Reassignment, Ability.REASSIGN, settle_s=4),
    "controller-failover": Kind(
        family="leadership",
        make=ControllerFailover,
        needs=frozenset({Ability.KILL, Ability.QUORUM, Ability.APART}),
        settle_s=7,
        starts=1,
        aims=("controller",),
        suits=leaves_a_quorum,
        unless="another controller and a majority of voters must stay up",
        only=("controller", "quorum-leader"),
        on_controllers=True,
    ),
    # It takes long to build its state: three stops and starts of brokers.
    "unclean-election": Kind(
        family="leadership",
        make=UncleanElection,
        needs=frozenset({Ability.KILL, Ability.ELECT, Ability.APART}),
        settle_s=20,
        starts=3,
        aims=("replicas",),
        when_whole=True,
        suits=leaves_somebody_to_elect,
        unless=(
            "a majority of the nodes that keep the metadata must stay up while all replicas of a"
            " partition except one are down; use 2 replicas, or separate controllers (system"
            " kafka:VERSION:controllers), or more nodes"
        ),
        only=("replicas", "all"),
    ),
    # By hand on real hosts: a majority is down for a while, and other faults would wait.
    "disputed-election": Kind(
        family="leadership",
        make=DisputedElection,
        settle_s=10,
        needs=ON_FILES | {Ability.SHAPE, Ability.KILL, Ability.QUORUM},
        aims=(QUORUM_VOTERS,),
        suits=has_enough_voters,
        unless=f"it needs a KRaft quorum of {LEAST_VOTERS} or more voters",
        only=(QUORUM_VOTERS, "all"),
        on_controllers=True,
        starts=1,
        by_hand=True,
    ),
    "topic-churn": Kind(
        family="topics",
        make=TopicChurn,
        needs=frozenset({Ability.TOPICS}),
        settle_s=2,
        aims=("one",),
        aspect=Aspect.CLUSTER,
        on_controllers=True,  # It acts on no node.
    ),
    "kill-all": _outage(kill_all, Ability.KILL, settle_s=14, starts=2),
    "pause-all": _outage(pause_all, Ability.PAUSE, settle_s=3),
    "kill-twice": replace(
        _process(KillTwice, Ability.KILL, settle_s=16, starts=2),
        family="double",
        needs=frozenset({Ability.KILL, Ability.APART}),
    ),
    "rolling-kill": Kind(
        family="aftermath",
        make=RollingKill,
        confirm_s=11,  # From the first kill to the second.
        settle_s=12,
        starts=2,
        needs=frozenset({Ability.KILL, Ability.APART}),
        aims=("majority",),
        only=("majority", "all"),
        least_nodes=2,
        least_targets=2,
        divides=True,
    ),
    "kill-remade": _remade(kill_remade, Ability.KILL),
    "stop-remade": _remade(stop_remade, Ability.STOP),
    "keeper-kill": _keeper(keeper_kill, Ability.KILL, settle_s=10, starts=1),
    "keeper-pause": _keeper(keeper_pause, Ability.PAUSE, settle_s=6),
    # In a family of its own, because the others need no links.
    "keeper-cut": _keeper(
        keeper_cut,
        Ability.CUT,
        Ability.APART,
        settle_s=4,
        family="keeper-links",
        aspect=Aspect.LINKS,
    ),
    "connection-reset": _connections(connection_reset, Ability.APART),
    "connection-half-open": _connections(connection_half_open, Ability.APART),
    "client-reset": _connections(client_reset, Ability.CUT_CLIENTS, of_clients=True),
    "client-half-open": _connections(client_half_open, Ability.CUT_CLIENTS, of_clients=True),
    "few-handles": _resource(FewHandles),
    "little-processor": _resource(LittleProcessor),
    "little-memory": _resource(LittleMemory),
}


def kind_named(name: str) -> Kind:
    """Return a kind of fault by its name.

    Raises:
        PlanError: There is no kind with this name.
    """
    if name not in KINDS:
        raise PlanError(f"fault {name!r} does not exist; use one of {', '.join(KINDS)}")
    return KINDS[name]


def kinds_of(
    family: str,
    abilities: Collection[Ability],
    *,
    nodes: int | None = None,
    hosts: str | None = None,
) -> tuple[str, ...]:
    """Return the names of a family's possible kinds, in order.

    Args:
        family: A name in `NEMESIS_KINDS`.
        abilities: The abilities of hosts and system.
        nodes: The number of nodes. None means any number.
        hosts: If given, only the kinds that the family schedules on these hosts are returned. None
            means any hosts.
    """
    able = frozenset(abilities)
    return tuple(
        name
        for name, kind in KINDS.items()
        if family in (kind.families if hosts is None else (kind.family_for(hosts),))
        if kind.needs <= able
        if nodes is None or kind.least_nodes <= nodes
    )


def unsuited_by(family: str, plan: Plan) -> str:
    """Return the reason why no kind of a family suits a plan, or "" if there is no common one."""
    kinds = [kind for kind in KINDS.values() if family == kind.family_for(plan.hosts)]
    reasons = {kind.unless for kind in kinds}
    suited = any(kind.suits(plan) for kind in kinds)
    return reasons.pop() if len(reasons) == 1 and not suited else ""


def needs_of(family: str) -> frozenset[Ability]:
    """Return the abilities that a family needs: the needs of its first kind.

    Other kinds of the family may be impossible. For an unknown family the result is empty.
    """
    return next((kind.needs for kind in KINDS.values() if family in kind.families), frozenset())
