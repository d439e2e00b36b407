"""The fault `unclean-election`: a replica outside the ISR is elected while the whole ISR is down.

The fault reaches this state in four steps. It kills one replica, which falls behind. It kills all
other replicas. It starts the first replica again. It requests that this replica is elected. The
records that this replica never had are lost. Kafka documents this for unclean elections. The
contract judge allows this loss, and names the election. The heal starts the other replicas, which
truncate their logs to match the new leader's log.

The election needs a metadata quorum. If the brokers themselves keep the metadata, a majority of
them must be alive as soon as the replica is back.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster.protocol import CanKill, CanTellBack, ClusterError
from nemesis.broker_effects import BackEffect
from nemesis.brokers import HitBrokers
from nemesis.cluster_effects import Led, Place, UncleanElectionEffect
from nemesis.in_words import InWords
from nemesis.leadership import Partition, has_all
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Restart
from results.record.clock import pause_until, stopwatch_s, wait_until
from results.record.plan import Plan

BEHIND_LIMIT_S = 20.0
"""Seconds until a killed broker leaves the ISR, because its session ends or
`replica.lag.time.max.ms` passes."""
BEHIND_S = 1.0
"""For this many seconds, the other replicas accept writes that the killed replica does not get."""
BACK_LIMIT_S = 60.0
ELECTED_LIMIT_S = 15.0
"""Seconds to confirm the election. This limit is long, because an observed election restricts
the losses that the judge allows. Without it, the judge may allow the loss of any record."""


class UncleanElection:
    """A fault that makes an out-of-sync replica the leader.

    Args:
        aim: The fault's id, partition and targets. The targets are all replicas of the partition.
        site: The run's cluster and hosts.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        self._site, self._cluster = site, site.cluster
        self._partition = Partition(aim, site, has_all)
        now = self._partition.led()
        if set(aim.targets) != set(now.replicas):
            raise ClusterError(
                f"the targets are {', '.join(aim.targets)}, but the replicas of {self._partition}"
                f" are {', '.join(now.replicas)}; use the target"
                f" replicas({self._partition.place[0]},{self._partition.place[1]})"
            )
        _refuse_without_majority(now.replicas, site)
        followers = [node for node in now.isr if node != now.leader]
        if not followers:
            raise ClusterError(
                f"no follower of {self._partition} is in sync, so the fault cannot"
                " let one fall behind"
            )
        self._late = aim.rng.choice(followers)
        self.targets = aim.targets
        self._brokers = HitBrokers(site, aim.targets)
        self._stop = aim.stop
        self._last_isr: tuple[str, ...] = ()
        self._refusal: ClusterError | None = None
        self._before = now
        self._started_s = stopwatch_s()

    @property
    def place(self) -> Place:
        """Return the partition. It is recorded before the injection, so that losses are excused."""
        return self._partition.place

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers again."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Let one replica fall behind, kill the others, start the first, and have it elected."""
        self._started_s = stopwatch_s()
        self._cluster.kill_node(self._late)
        left = self._until(
            lambda now: bool(now.isr) and self._late not in now.isr,
            BEHIND_LIMIT_S,
            f"{self._late} to leave the ISR of {self._partition}",
        )
        pause_until(stopwatch_s() + BEHIND_S, self._stop)
        self._last_isr = left.isr
        for node in self.targets:
            if node != self._late:
                self._cluster.kill_node(node)
        self._start_late()
        self._before = self._until(
            lambda now: now.leader is None,
            BACK_LIMIT_S,
            f"{self._partition} to have no leader",
        )
        try:
            self._partition.orders.elect_unclean(self._partition.place)
        except ClusterError as refusal:
            # Maybe only the answer was lost. The metadata show whether the election took place.
            self._refusal = refusal

    def confirm(self, patience: Patience) -> UncleanElectionEffect | None:
        """Confirm that the replica leads in a later epoch, and was not in the last ISR."""
        after = self._partition.wait(
            lambda now: now.leader == self._late and now.leader_epoch > self._before.leader_epoch,
            replace(patience, limit_s=max(patience.limit_s, ELECTED_LIMIT_S)),
            what="the unclean leader",
        )
        if after is None and self._refusal is not None:
            raise self._refusal
        if after is None or self._late in self._last_isr:
            return None
        return UncleanElectionEffect(
            took_s=stopwatch_s() - self._started_s,
            place=self._partition.place,
            last_isr=self._last_isr,
            before=self._before,
            after=after,
        )

    def heal(self) -> None:
        """Start the brokers that are down."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the brokers are registered again."""
        return self._brokers.wait_back(patience)

    def _start_late(self) -> None:
        """Start the replica that fell behind, and wait until it is registered again."""
        cluster = self._site.cluster
        cluster.start_node(self._late)

        def is_back() -> bool:
            if isinstance(cluster, CanTellBack):
                return cluster.is_back(self._late)
            view = cluster.view()
            return view is not None and self._late in view.registered

        what = f"{self._late} to be back"
        wait_until(is_back, timeout_s=BACK_LIMIT_S, what=what, interval_s=0.2, stop=self._stop)

    def _until(self, wanted: Callable[[Led], bool], limit_s: float, what: str) -> Led:
        patience = Patience(limit_s=limit_s, stop=self._stop)
        now = self._partition.wait(wanted, patience, what=what)
        if now is None:
            raise ClusterError(f"waited {limit_s:g} s for {what}")
        return now


def leaves_somebody_to_elect(plan: Plan) -> bool:
    """Return whether the metadata quorum survives while only one replica of a partition is up.

    The mode of an attached cluster is unknown. Such a cluster is treated as if its brokers keep the
    metadata.
    """
    if plan.replication == 1:
        return False
    apart = plan.kept_outside or plan.own_controllers > 0
    return apart or _majority_lives(plan.replication, plan.nodes)


def _majority_lives(replicas: int, voters: int) -> bool:
    return voters - (replicas - 1) > voters // 2


def _refuse_without_majority(replicas: Sequence[str], site: Site) -> None:
    view = site.cluster.view()
    apart = bool(site.controllers) or view is None or view.asked not in site.cluster.nodes
    voters = len(site.cluster.nodes)
    if not apart and not _majority_lives(len(replicas), voters):
        raise ClusterError(
            f"with {len(replicas)} replicas on {voters} nodes that also keep the metadata, no"
            " majority of the metadata quorum would stay up to elect a leader; use --replication"
            " 2, or separate controllers (--system kafka:VERSION:controllers), or more nodes"
        )


SAYS = {
    "unclean-election": InWords(
        does="a replica outside the ISR is elected while the whole ISR is down",
        injected="SIGKILL to all replicas; a start of one; ElectLeaders (unclean)",
        proven="the new leader was not in the last ISR",
        undone="each other replica is started",
        costs=(
            "records that the new leader did not have: lost writes and their consequences"
            " (`unclean-election`)"
        ),
    ),
}
