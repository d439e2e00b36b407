"""Code shared by faults that delete a topic and create it again while one of its brokers is down.

When the broker comes back, it finds the log of a deleted topic. It must get a replica of a new
topic with the same name (KAFKA-14616). The topic belongs to the fault. Each life of the topic is
called an incarnation. The fault sends records with acks=all to each partition: before the outage,
to each incarnation during the outage, and after the start.

The topic stays after the fault. The judge (the checks after the run) verifies its replicas and the
acknowledged records of its last incarnation. A deleted incarnation loses its records on purpose.

The DeleteTopics request names no topic id, so a retry could delete the next incarnation. So the
request is sent once, to one broker. If no response comes, the fault ends without an effect.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from cluster.protocol import ClusterError, HasTopicsByHand, ToldTopic
from nemesis.background import Background
from nemesis.broker_effects import BackEffect, ProcessChange, StopEffect
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
"""The maximum number of recreations. If they take long, there are fewer."""
ENOUGH_S = 20.0
"""After this many seconds, the topic is not recreated again. Other faults wait for their turn, and
recreation is slow on a busy machine."""
LONGEST_S = 60.0
"""The maximum seconds of an injection. A longer injection counts as a fault without effect."""
ROUNDS = 3
"""The number of records to send to each partition after a creation, and after the start."""
REST_S = 0.2
"""Seconds between later rounds of records. The brokers need time for the run's messages, too."""
PAYLOAD_BYTES = 64
SEND_LIMIT_S = 3.0
MADE_LIMIT_S = 40.0
"""Seconds until an incarnation is served. The stopped broker may have been the controller. Besides,
creating a file can take seconds."""
TAKEN_LIMIT_S = 12.0
"""Seconds until an incarnation accepts records. The first record may create files on slow disks."""
MISSED_LIMIT_S = 10.0
"""Seconds until the other brokers notice a missing broker. A session takes 3 s."""
END_LIMIT_S = 5.0
_FIRST_NUMBER = 1 << 20
"""A number above all partition numbers of a plan. So these values never equal a client's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A record that was acknowledged with acks=all."""

    partition: int
    offset: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One incarnation (one life) of the topic: its id, and the number of acknowledged records."""

    topic_id: str
    acked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemadeEffect:
    """A topic that was recreated while some of its brokers were down.

    Attributes:
        took_s: Seconds since the injection began.
        topic: The name of the topic.
        away: The stopped brokers. Each has a replica of at least one partition.
        processes: The processes of these brokers, which have ended.
        graceful: The brokers that ended by themselves after SIGTERM.
        incarnations: All incarnations, in order. The first is older than the outage.
        isrs: The ISR of each partition of the last incarnation. No stopped broker is in it.
        asked: The node that reported the ISRs.
    """

    took_s: float
    topic: str
    away: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    graceful: tuple[str, ...]
    incarnations: tuple[Incarnation, ...]
    isrs: Mapping[int, tuple[str, ...]]
    asked: str

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        lives = ", then ".join(
            f"{each.topic_id} ({each.acked} records acknowledged)" for each in self.incarnations
        )
        times = {1: "once", 2: "twice"}.get(
            len(self.incarnations) - 1, f"{len(self.incarnations) - 1} times"
        )
        return (
            f"{self.topic} was recreated {times} while {', '.join(self.away)} was down: {lives};"
            f" {self.asked} reported ISRs without this broker after {self.took_s:.1f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemadeBackEffect:
    """Brokers that are back, and a topic that stays.

    Attributes:
        took_s: Seconds since the heal.
        back_s: Seconds from the heal to the registration.
        processes, pid_before, was_gone, asked: As in `BackEffect`.
        topic, topic_id: The name and the id of the last incarnation.
        age_s: Seconds since the creation of the last incarnation.
        replicas: The nodes of each partition.
        acked: The acknowledged records of the last incarnation.
    """

    took_s: float
    back_s: float
    processes: tuple[ProcessChange, ...]
    pid_before: dict[str, int]
    was_gone: tuple[str, ...]
    asked: str
    topic: str
    topic_id: str
    age_s: float
    replicas: Mapping[int, tuple[str, ...]]
    acked: tuple[Acked, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        who = ", ".join(each.node for each in self.processes)
        return (
            f"{who} was back after {self.back_s:.1f} s, as {self.asked} reported; {self.topic}"
            f" stays; its last incarnation has {len(self.acked)} acknowledged records"
        )


class Remade:
    """A fault that recreates a topic while the targets are down.

    Args:
        aim: The fault's id and targets. The random source chooses how often the topic is recreated.
        site: The run's cluster and hosts.
        outage: The fault that stops the targets and starts them again.

    Raises:
        ClusterError: Topics cannot be created here, or no broker is left beside the targets.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site, outage: Kill | Stop) -> None:
        cluster = site.cluster
        if not isinstance(cluster, HasTopicsByHand):
            raise ClusterError("this cluster cannot create and delete topics on request")
        self._others = tuple(node for node in cluster.nodes if node not in aim.targets)
        if not self._others:
            raise ClusterError("no broker is left to lead the topic; use fewer targets")
        self._aim, self._site, self._outage = aim, site, outage
        self.targets = outage.targets
        self._topic = _Topic(f"{REMADE_PREFIX}{aim.fault_id}", aim, cluster)
        self._replicas = _replicas(aim.targets, self._others)
        self._times = aim.rng.randint(1, MOST_TIMES)
        self._background, self._over = Background(), new_event()
        self._started_s = stopwatch_s()
        self._healed_s: float | None = None
        self._back: tuple[float, BackEffect] | None = None

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Return the topic's partitions. Empty if the topic was not recreated in the outage."""
        made_again = self._topic.stays and len(self._topic.lives) > 1
        return tuple((self._topic.name, each) for each in self._replicas) if made_again else ()

    def undo(self) -> tuple[Restart, ...]:
        """Return the undo steps that start the brokers. No step deletes the topic."""
        return self._outage.undo()

    def inject(self) -> None:
        """Create the topic, stop the targets, recreate the topic, and send to each incarnation.

        Raises:
            ClusterError: An incarnation cannot be created or written to, or the main phase ends.
        """
        self._started_s = stopwatch_s()
        self._topic.watch()
        self._refuse_if_late()
        self._make((*self._others, *self.targets))
        self._outage.inject()
        self._await_missed()
        for time in range(self._times):
            if time and stopwatch_s() >= self._started_s + ENOUGH_S:
                break
            self._refuse_if_late()  # Check before the deletion, because the last topic must stay.
            self._topic.delete()
            self._make(self._others)
        self._background.start(self._go_on, f"fault-{self._aim.fault_id}-records")

    def confirm(self, patience: Patience) -> RemadeEffect | None:
        """Confirm that the targets are down, and the last incarnation is in sync without them."""
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
            graceful=outage.graceful if isinstance(outage, StopEffect) else (),
            incarnations=tuple(
                Incarnation(topic_id=topic_id, acked=len(acked))
                for topic_id, acked in self._topic.lives.items()
            ),
            isrs={number: state.isr for number, state in sorted(told.partitions.items())},
            asked=asked,
        )

    def heal(self) -> None:
        """Start the brokers that are down."""
        if self._healed_s is None:
            self._healed_s = stopwatch_s()
        self._outage.heal()

    def confirm_healed(self, patience: Patience) -> BackEffect | RemadeBackEffect | None:
        """Confirm that the brokers are registered again, and send the last records.

        The heal does not wait until the replicas are in sync, because the judge checks that.
        """
        deadline_s = stopwatch_s() + patience.limit_s
        self._background.raise_bugs()
        if self._back is None:
            back = self._outage.confirm_healed(patience)
            if back is None:
                return None
            self._back = stopwatch_s(), back
        self._over.set()
        self._background.join(min(END_LIMIT_S, max(0.0, deadline_s - stopwatch_s())))
        if self._background.is_busy():
            return None
        seen_s, back = self._back
        if not self.places:  # It was not recreated, so there is nothing to judge.
            return replace(back, took_s=back.took_s + stopwatch_s() - seen_s)

        def is_over() -> bool:
            stopped = patience.stop is not None and patience.stop.is_set()
            return stopped or stopwatch_s() >= deadline_s

        self._topic.find_leaders(self._replicas, self._others)
        self._topic.send_rounds(self._others, ROUNDS, is_over)
        now_s = stopwatch_s()
        return RemadeBackEffect(
            took_s=now_s - (self._healed_s or seen_s),
            back_s=back.took_s,
            processes=back.processes,
            pid_before=back.pid_before,
            was_gone=back.was_gone,
            asked=back.asked,
            topic=self._topic.name,
            topic_id=self._topic.last_id,
            age_s=now_s - self._topic.made_s,
            replicas=self._replicas,
            acked=tuple(self._topic.acked),
        )

    def _refuse_if_late(self) -> None:
        if self._aim.is_late:
            raise ClusterError("the main phase ended before the topic was recreated")

    def _make(self, there: tuple[str, ...]) -> None:
        """Create an incarnation, and send records until each partition has accepted one."""
        self._topic.make(self._replicas, there, limit_s=self._at_most_s(MADE_LIMIT_S))
        until_s = stopwatch_s() + self._at_most_s(TAKEN_LIMIT_S)
        self._topic.send_rounds(there, ROUNDS, lambda: self._aim.is_late)
        while {each.partition for each in self._topic.acked} != self._replicas.keys():
            if self._aim.is_late or stopwatch_s() > until_s:
                why = self._topic.failed or "no broker leads the partition"
                raise ClusterError(f"{self._topic.name} accepts no records: {why}")
            pause_until(stopwatch_s() + REST_S, self._aim.stop)
            self._topic.send_rounds(there, 1, lambda: self._aim.is_late)

    def _at_most_s(self, limit_s: float) -> float:
        """Return the time limit of a step, so that the whole injection ends in time."""
        return max(0.0, min(limit_s, self._started_s + LONGEST_S - stopwatch_s()))

    def _await_missed(self) -> None:
        """Wait until the metadata lists no target as registered, or until the time limit."""

        def are_missed() -> bool:
            view = self._site.cluster.view()
            return view is not None and view.registered.isdisjoint(self.targets)

        try:
            wait_until(
                are_missed,
                timeout_s=self._at_most_s(MISSED_LIMIT_S),
                what="a session's end",
                stop=self._aim.stop,
            )
        except WaitTimeoutError:
            return

    def _told_without(self) -> tuple[str, ToldTopic] | None:
        """Return a node that reports ISRs without the targets, and its report. Or return None."""
        for node in self._others:
            told = self._topic.told_by(node)
            if told is None or told.partitions.keys() != self._replicas.keys():
                continue
            isrs = [{*state.isr} for state in told.partitions.values()]
            if all(isrs) and not any({*self.targets} & isr for isr in isrs):
                return node, told
        return None

    def _go_on(self) -> None:
        """Send records to the last incarnation until targets are back or the main phase ends."""
        while not self._over.is_set() and not self._aim.is_late:
            self._topic.send_rounds(self._others, 1, self._over.is_set)
            pause_until(stopwatch_s() + REST_S, self._over)


class _Topic:
    """One topic with all its incarnations. Single requests create, fill and delete the topic.

    Args:
        name: The name of all incarnations.
        aim: The data of the fault.
        cluster: The cluster.

    Attributes:
        lives: The acknowledged records of each incarnation, by topic id, in order.
        made_s: The time at which the last incarnation was created.
        stays: Whether the last incarnation exists, and no request to delete it was sent.
        failed: The last error.
    """

    def __init__(self, name: str, aim: Aim, cluster: HasTopicsByHand) -> None:
        self.name, self._by_hand, self._stop = name, cluster.by_hand, aim.stop
        self.lives: dict[str, list[Acked]] = {}
        self.made_s, self.stays = 0.0, False
        self.failed: Exception | None = None
        self._values = count(pack_value(_FIRST_NUMBER + aim.fault_id, 0))
        self._leaders: dict[int, str] = {}

    @property
    def last_id(self) -> str:
        """Return the id of the last incarnation."""
        return list(self.lives)[-1]

    @property
    def acked(self) -> list[Acked]:
        """Return the acknowledged records of the last incarnation."""
        return self.lives[self.last_id]

    def watch(self) -> None:
        """From now on, let the observer query each broker about this topic."""
        self._by_hand.watch(self.name)

    def delete(self) -> None:
        """Delete the last incarnation.

        Raises:
            ClusterError: The request is rejected, or no response comes. After this it is unknown
                whether the topic exists.
        """
        self.stays, self._leaders = False, {}
        self._by_hand.delete(self.name, self.last_id)

    def make(
        self, replicas: Mapping[int, tuple[str, ...]], there: tuple[str, ...], *, limit_s: float
    ) -> None:
        """Create an incarnation, and wait until brokers among `there` lead all its partitions.

        Raises:
            ClusterError: The incarnation cannot be created.
            WaitTimeoutError: The incarnation is not served in time.
        """
        made = self._by_hand.create(
            self.name, assignment=replicas, configs=_configs(replicas), known=self.lives
        )
        self.lives[made] = []
        self.made_s, self.stays = stopwatch_s(), True
        self._leaders = wait_until(
            lambda: self._served(replicas, there),
            timeout_s=limit_s,
            what=f"a leader to serve {self.name}",
            stop=self._stop,
        )

    def find_leaders(self, replicas: Mapping[int, tuple[str, ...]], there: tuple[str, ...]) -> None:
        """If the first search found no leaders of the last incarnation, search once more."""
        self._leaders = self._leaders or self._served(replicas, there) or {}

    def told_by(self, node: str) -> ToldTopic | None:
        """Return a broker's report on the last incarnation, or None."""
        told = self._by_hand.told_by(node, self.name)
        return told if told and told.topic_id == self.last_id else None

    def send_rounds(self, nodes: tuple[str, ...], rounds: int, is_over: Callable[[], bool]) -> None:
        """Send the given number of records to each partition's leader.

        No record is sent before a leader serves the incarnation. The request names no topic id, so
        a broker with old metadata would append a record to the deleted log and acknowledge it.

        Args:
            nodes: The nodes that report the leader after an election.
            rounds: The number of records for each partition.
            is_over: A function that is called before each record. It returns True to stop early.
        """
        for _ in range(rounds):
            for number in sorted(self._leaders):
                if is_over():
                    return
                self._send(number, nodes)

    def _send(self, number: int, nodes: tuple[str, ...]) -> None:
        leader, place = self._leaders[number], (self.name, number)
        value = next(self._values)
        payload = encode_payload(value, PAYLOAD_BYTES)
        try:
            offset = self._by_hand.send(leader, place, payload, timeout_s=SEND_LIMIT_S)
        except FAILURES as failed:  # Another fault or an election. A retry may work.
            self.failed = failed
            self._leaders[number] = self._leader_of(number, nodes) or leader
        else:
            self.acked.append(Acked(partition=number, offset=offset, value=value))

    def _leader_of(self, number: int, nodes: tuple[str, ...]) -> str | None:
        told = (self.told_by(node) for node in nodes)
        states = (each.partitions.get(number) for each in told if each)
        return next((state.leader for state in states if state), None)

    def _served(
        self, replicas: Mapping[int, tuple[str, ...]], there: tuple[str, ...]
    ) -> dict[int, str] | None:
        """Return the leader of each partition, or None if replicas on `there` are not in sync.

        Only an empty log surely belongs to this incarnation, because each earlier log has records.
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
    """Return the replicas of each partition. In every second one, the target comes first."""
    placed = {}
    for number in range(max(PARTITIONS, len(targets))):
        first = number % len(others)
        beside = (*others[first:], *others[:first])[: REPLICAS - 1]
        target = targets[number % len(targets)]
        placed[number] = (*beside, target) if number % 2 else (target, *beside)
    return placed


def _configs(replicas: Mapping[int, tuple[str, ...]]) -> dict[str, str]:
    """Return topic settings that keep all records, and allow writes while a broker is down."""
    fewest = min(map(len, replicas.values()))
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": str(max(1, min(2, fewest - 1))),
    }


def deletes_at_once(plan: Plan) -> bool:
    """Return whether a topic can be deleted while one of its brokers is down (KRaft only)."""
    return not plan.kept_outside
