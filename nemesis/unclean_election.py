"""The fault `unclean-election`: a leader from outside of the ISR, while nobody of the ISR lives.

The state for it is built: one replica is killed and falls behind, then those that were still in
sync are killed, then the first comes back and is elected by order. What it never had is lost, as
Kafka says of such elections: the contract allows it, with the election named. Healed by starting
the others, whose logs are cut to the new leader's.

Somebody must be left to elect: where the brokers keep the metadata themselves, a majority of them
has to live once the replica is back.
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
"""A broker that was killed leaves the ISR with its session, or with `replica.lag.time.max.ms`."""
BEHIND_S = 1.0
"""So long the others write on without it."""
BACK_LIMIT_S = 60.0
ELECTED_LIMIT_S = 15.0
"""What it loses is excused by the election: it may not go unseen because a machine is busy."""


class UncleanElection:
    """A replica that was not in sync, leading.

    Args:
        aim: Which fault this is; its place is the partition, its targets all replicas of it.
        site: Where.
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
                f"the targets are {', '.join(aim.targets)}, and the replicas of {self._partition}"
                f" {', '.join(now.replicas)}: use the target"
                f" replicas({self._partition.place[0]},{self._partition.place[1]})"
            )
        _refuse_without_majority(now.replicas, site)
        followers = [node for node in now.isr if node != now.leader]
        if not followers:
            raise ClusterError(f"no follower of {self._partition} is in sync, to be left behind")
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
        """The partition, on record before the order is given: what it loses is excused there."""
        return self._partition.place

    def undo(self) -> tuple[Restart, ...]:
        """Return the brokers to start again."""
        return tuple(Restart(node=node) for node in self.targets)

    def inject(self) -> None:
        """Leave one behind, kill the others, start the one, and have it elected."""
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
            f"{self._partition} to be without a leader",
        )
        try:
            self._partition.orders.elect_unclean(self._partition.place)
        except ClusterError as refusal:
            # The answer may be all that got lost: whether it was done, the metadata tell.
            self._refusal = refusal

    def confirm(self, patience: Patience) -> UncleanElectionEffect | None:
        """See that it leads in a later epoch, and was not in the last ISR."""
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
        """Start the brokers again, but those that run."""
        self._brokers.note_heal()
        self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that the brokers are registered again."""
        return self._brokers.wait_back(patience)

    def _start_late(self) -> None:
        """Start the replica that is behind, and wait until the cluster counts it in again."""
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
    """Tell whether who keeps the metadata outlives all replicas of a partition but one.

    Of an attached cluster nobody knows who does: they may be its brokers.
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
            f"with {len(replicas)} replicas on {voters} nodes that keep the metadata, too, nobody"
            " would be left to elect a leader; use --replication 2, or controllers of their own"
            " (--system kafka:VERSION:controllers)"
        )


SAYS = {
    "unclean-election": InWords(
        does="a replica from outside of the ISR is elected while nobody of it lives",
        injected="kills, a start, ElectLeaders (unclean)",
        proven="the leader was not in the ISR before",
        undone="starts of all others",
        costs="lost writes and what follows of them (`unclean-election`)",
    ),
}
