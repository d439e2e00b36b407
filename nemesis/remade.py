"""What faults share that make one topic again, under its name, while a broker of it is down.

A broker that comes back finds a log of a topic that is gone, and is to have a replica of another
one of the same name (KAFKA-14616). Clients, tools and tests that delete a topic and create it again
do so. The topic is the fault's own, with a record every now and then to each of its partitions,
acknowledged by all in sync: before the broker is down, to each incarnation meanwhile, and after its
start. It stays when the fault is over, so that the judge sees whether the broker has its replicas,
and whether what was acknowledged of the last incarnation is in the logs. What was sent to a deleted
one is gone by order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from cluster.protocol import CanMakeTopics, ClusterError, HasTopicsByHand, ToldTopic
from nemesis.background import Background
from nemesis.broker_effects import BackEffect, ProcessChange
from nemesis.brokers import broker_is_gone
from nemesis.kill import Kill
from nemesis.protocol import FAILURES, Aim, Patience, Site
from nemesis.stop import Stop
from nemesis.undo import Restart
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.plan import Plan
from results.record.runtime import new_event
from results.record.terms import REMADE_PREFIX
from results.record.values import encode_payload, pack_value

PARTITIONS = 2
REPLICAS = 3
MOST_TIMES = 3
"""So often the topic is made again at most, while a broker is down."""
ROUNDS = 3
"""So many records each partition is sent of an incarnation, at least."""
REST_S = 0.2
"""Between two of them: the brokers have the run's own messages to carry, too."""
PAYLOAD_BYTES = 64
SEND_LIMIT_S = 3.0
MADE_LIMIT_S = 15.0
"""Until an incarnation serves: a controller may have been the broker that is down."""
MISSED_LIMIT_S = 10.0
"""Until the others miss a broker: a session takes 3 s."""
END_LIMIT_S = 5.0
_FIRST_NUMBER = 1 << 20
"""No partition of a plan has such a number: no value is one of the run's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A record that was acknowledged by all in sync."""

    partition: int
    offset: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One life of the topic: its id, and how many of its records were acknowledged."""

    topic_id: str
    acked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemadeEffect:
    """A topic that was made again while brokers of it were down.

    Attributes:
        took_s: From the first creation on.
        topic: Its name.
        away: The brokers, each of which has a replica of one of its partitions.
        processes: Theirs, which are gone.
        incarnations: In their order, the first from before.
        isrs: Of the last incarnation, by partition: none has a broker that is down.
        asked: The node whose word that is.
    """

    took_s: float
    topic: str
    away: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    incarnations: tuple[Incarnation, ...]
    isrs: Mapping[int, tuple[str, ...]]
    asked: str

    @property
    def told(self) -> str:
        """What was measured, for people."""
        lives = ", then ".join(
            f"{each.topic_id} ({each.acked} records acknowledged)" for each in self.incarnations
        )
        times = {1: "once", 2: "twice"}.get(
            len(self.incarnations) - 1, f"{len(self.incarnations) - 1} times"
        )
        return (
            f"{self.topic} was made again {times} while {', '.join(self.away)} was down:"
            f" {lives}; {self.asked} told of ISRs without it after {self.took_s:.1f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemadeBackEffect:
    """Brokers that are back, and a topic that stays.

    Attributes:
        took_s: From the heal on.
        back: How they came back.
        topic, topic_id: The last incarnation.
        replicas: Its nodes, by partition.
        acked: Its records that were acknowledged.
    """

    took_s: float
    back: BackEffect
    topic: str
    topic_id: str
    replicas: Mapping[int, tuple[str, ...]]
    acked: tuple[Acked, ...]

    @property
    def told(self) -> str:
        """What was measured, for people."""
        who = ", ".join(each.node for each in self.back.processes)
        return (
            f"{who} was back after {self.back.took_s:.1f} s, as {self.back.asked} told;"
            f" {self.topic} stays, with {len(self.acked)}"
            " acknowledged records of its last incarnation"
        )


class Remade:
    """A topic that is made again while the targets are down.

    Args:
        aim: Which fault this is; draws how often.
        site: Where.
        outage: Takes the targets down, and brings them back.

    Raises:
        ClusterError: There are no topics to be made here, or no broker is left beside the targets.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site, outage: Kill | Stop) -> None:
        cluster = site.cluster
        if not isinstance(cluster, CanMakeTopics) or not isinstance(cluster, HasTopicsByHand):
            raise ClusterError("topics of this cluster can neither be made nor deleted")
        self._others = tuple(node for node in cluster.nodes if node not in aim.targets)
        if not self._others:
            raise ClusterError("no broker is left to lead the topic; use fewer targets")
        self._aim, self._site, self._outage = aim, site, outage
        self.targets = outage.targets
        self._delete = cluster.delete_topics
        self._topic = _Topic(f"{REMADE_PREFIX}{aim.fault_id}", aim, cluster)
        self._replicas = _replicas(aim.targets, self._others)
        self._times = aim.rng.randint(1, MOST_TIMES)
        self._background, self._over = Background(), new_event()
        self._started_s = stopwatch_s()
        self._healed_s: float | None = None
        self._back: tuple[float, BackEffect] | None = None

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """The partitions that stay, once they are of the last incarnation."""
        made = len(self._topic.lives) > self._times
        return tuple((self._topic.name, each) for each in self._replicas) if made else ()

    def undo(self) -> tuple[Restart, ...]:
        """Return the brokers to start again; the topic goes with its cluster."""
        return self._outage.undo()

    def inject(self) -> None:
        """Make the topic, take the targets down, make it again, and send to each incarnation.

        Raises:
            ClusterError: One cannot be made, takes no records, or the main phase ends meanwhile.
        """
        self._started_s = stopwatch_s()
        self._topic.watch()
        self._make((*self._others, *self.targets))
        self._outage.inject()
        self._await_missed()
        for _ in range(self._times):
            self._delete([self._topic.name])
            self._make(self._others)
        self._background.start(self._go_on, f"fault-{self._aim.fault_id}-records")

    def confirm(self, patience: Patience) -> RemadeEffect | None:
        """See that the targets are gone, and that the last incarnation is in sync without them."""
        outage = self._outage.confirm(patience)
        if outage is None:
            return None
        longer = max(patience.limit_s, MISSED_LIMIT_S)
        try:
            asked, told = wait_until(
                self._told_without, timeout_s=longer, what="ISRs", stop=patience.stop
            )
        except WaitTimeoutError:
            self._background.raise_failure()
            return None
        if not all(broker_is_gone(self._site, node) for node in self.targets):
            return None
        return RemadeEffect(
            took_s=stopwatch_s() - self._started_s,
            topic=self._topic.name,
            away=self.targets,
            processes=outage.processes,
            incarnations=tuple(
                Incarnation(topic_id=topic_id, acked=len(acked))
                for topic_id, acked in self._topic.lives.items()
            ),
            isrs={number: state.isr for number, state in sorted(told.partitions.items())},
            asked=asked,
        )

    def heal(self) -> None:
        """Start the brokers again, but those that run."""
        if self._healed_s is None:
            self._healed_s = stopwatch_s()
        self._outage.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | RemadeBackEffect | None:
        """See that the brokers are registered again, and send the last records.

        Whether they have their replicas again is no matter of the heal: the judge tells.
        """
        self._background.raise_bugs()
        if self._back is None:
            back = self._outage.confirm_healed(patience)
            if back is None:
                return None
            self._back = stopwatch_s(), back
        self._over.set()
        self._background.join(END_LIMIT_S)
        if self._background.is_busy():
            return None
        seen_s, back = self._back
        if not self.places:  # It was not made again: there is nothing to look after.
            return replace(back, took_s=back.took_s + stopwatch_s() - seen_s)
        self._topic.send_rounds(self._others, ROUNDS)
        topic_id, acked = list(self._topic.lives.items())[-1]
        return RemadeBackEffect(
            took_s=stopwatch_s() - (self._healed_s or seen_s),
            back=back,
            topic=self._topic.name,
            topic_id=topic_id,
            replicas=self._replicas,
            acked=tuple(acked),
        )

    def _make(self, there: tuple[str, ...]) -> None:
        """Make an incarnation, and send it records."""
        if self._aim.is_late:
            raise ClusterError("the main phase ended before the topic was made again")
        self._topic.make(self._replicas, there)
        self._topic.send_rounds(there, ROUNDS)
        if {each.partition for each in self._topic.acked} != self._replicas.keys():
            why = self._topic.failed or "no broker leads it"
            raise ClusterError(f"{self._topic.name} takes no records: {why}")

    def _await_missed(self) -> None:
        """Wait until the others miss the targets; otherwise the topic is made all the same."""

        def are_missed() -> bool:
            view = self._site.cluster.view()
            return view is not None and view.registered.isdisjoint(self.targets)

        try:
            wait_until(
                are_missed, timeout_s=MISSED_LIMIT_S, what="a session's end", stop=self._aim.stop
            )
        except WaitTimeoutError:
            return

    def _told_without(self) -> tuple[str, ToldTopic] | None:
        """Return who tells of the last incarnation that no ISR of it has a target, and what."""
        for node in self._others:
            told = self._topic.told_by(node)
            if told and all(
                not {*self.targets} & {*state.isr} for state in told.partitions.values()
            ):
                return node, told
        return None

    def _go_on(self) -> None:
        """Send records to the last incarnation, until the targets are back."""
        while not self._over.is_set() and not self._aim.is_late:
            self._topic.send_rounds(self._others, 1)
            pause_until(stopwatch_s() + REST_S, self._over)


class _Topic:
    """One topic and its incarnations, made and written to by single requests.

    Args:
        name: Of all of them.
        aim: Of its fault.
        cluster: Where.

    Attributes:
        lives: What was acknowledged of each incarnation, by its id, in their order.
        failed: What went wrong last.
    """

    def __init__(self, name: str, aim: Aim, cluster: HasTopicsByHand) -> None:
        self.name, self._by_hand, self._stop = name, cluster.by_hand, aim.stop
        self.lives: dict[str, list[Acked]] = {}
        self.failed: Exception | None = None
        self._values = count(pack_value(_FIRST_NUMBER + aim.fault_id, 0))
        self._leaders: dict[int, str] = {}

    @property
    def acked(self) -> list[Acked]:
        """What was acknowledged of the last incarnation."""
        return list(self.lives.values())[-1]

    def watch(self) -> None:
        """Have each broker asked about it from now on, for the record."""
        self._by_hand.watch(self.name)

    def make(self, replicas: Mapping[int, tuple[str, ...]], there: tuple[str, ...]) -> None:
        """Make an incarnation, and wait until leaders among some nodes serve it.

        Raises:
            ClusterError: It cannot be made.
            WaitTimeoutError: It is not served in time.
        """
        made = self._by_hand.create(self.name, assignment=replicas, configs=_configs(replicas))
        self.lives[made] = []
        self._leaders = wait_until(
            lambda: self._served(replicas, there),
            timeout_s=MADE_LIMIT_S,
            what=f"{self.name} to be served",
            stop=self._stop,
        )

    def told_by(self, node: str) -> ToldTopic | None:
        """Return the last incarnation as a broker knows it."""
        told = self._by_hand.told_by(node, self.name)
        return told if told and told.topic_id == list(self.lives)[-1] else None

    def send_rounds(self, nodes: tuple[str, ...], rounds: int) -> None:
        """Send each partition's leader so many records; some nodes tell who that is now."""
        for _ in range(rounds):
            for number in sorted(self._leaders):
                self._send(number, nodes)

    def _send(self, number: int, nodes: tuple[str, ...]) -> None:
        value, place = next(self._values), (self.name, number)
        payload = encode_payload(value, PAYLOAD_BYTES)
        try:
            offset = self._by_hand.send(
                self._leaders[number], place, payload, timeout_s=SEND_LIMIT_S
            )
        except (
            FAILURES
        ) as failed:  # Another fault, or an election: the next one may have better luck.
            self.failed = failed
            self._leaders[number] = self._leader_of(number, nodes) or self._leaders[number]
        else:
            self.acked.append(Acked(partition=number, offset=offset, value=value))

    def _leader_of(self, number: int, nodes: tuple[str, ...]) -> str | None:
        told = (self.told_by(node) for node in nodes)
        return next((each.partitions[number].leader for each in told if each), None)

    def _served(
        self, replicas: Mapping[int, tuple[str, ...]], there: tuple[str, ...]
    ) -> dict[int, str] | None:
        """Return who serves each partition, all replicas in sync that are there; None: not yet.

        A log that is empty is none of an earlier incarnation: records were sent to each.
        """
        leaders = {}
        told = {node: each for node in there if (each := self.told_by(node))}
        for number, nodes in replicas.items():
            wanted = {*nodes} & {*there}
            for node, each in told.items():
                state = each.partitions.get(number)
                leads = state and state.leader == node and {*state.isr} >= wanted
                if leads and self._by_hand.end_at(node, (self.name, number)) == 0:
                    leaders[number] = node
        return leaders if leaders.keys() == replicas.keys() else None


def _replicas(targets: tuple[str, ...], others: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """Return the replicas of each partition: a target, which is to lead the first, and others."""
    placed = {}
    for number in range(max(PARTITIONS, len(targets))):
        first = number % len(others)
        beside = (*others[first:], *others[:first])[: REPLICAS - 1]
        target = targets[number % len(targets)]
        placed[number] = (*beside, target) if number % 2 else (target, *beside)
    return placed


def _configs(replicas: Mapping[int, tuple[str, ...]]) -> dict[str, str]:
    """Return settings by which it keeps all records, and takes some while a broker is down."""
    fewest = min(map(len, replicas.values()))
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": str(max(1, min(2, fewest - 1))),
    }


def deletes_at_once(plan: Plan) -> bool:
    """Tell whether a topic is gone while a broker of it is down: ZooKeeper has it wait."""
    return not plan.kept_outside
