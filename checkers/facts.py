"""What is known of a run before its rows are looked at: plan, milestones, topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from checkers.quorum import QuorumFacts
from checkers.reigns import Cut, Reign
from checkers.taking import Taking
from results.record.declared import Declared, Sight
from results.record.milestones import STOPPING, WORKER_ENDED, Milestone
from results.record.plan import Plan
from results.record.terms import Judge
from results.record.topics import CreatedTopic
from results.record.values import SEQUENCE_BITS

FINAL, CRASH = "final", "crash"
"""Names of snapshots: after a stop, and after the death of the harness."""
NOTED = "noted"
"""The last look at the brokers before their stop: what they said, and no files."""
CLEAN = "clean"
"""How the harness notes that a node ended by itself when it was told to stop."""
LOOKED, AUDITED = "looked", "audited"
"""Milestones: the hosts were looked at before the run; after it, with what is not as it was."""

_RETENTION = (
    "log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes",
)  # fmt: skip
"""Settings by which a broker drops the beginning of a log; -1: it keeps everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLoss:
    """What a power loss, wipe or flipped bit left of a partition on some nodes.

    Attributes:
        nodes: Those that were hit.
        topic, partition: Which partition; "" and -1: any, for nobody knows what was taken.
        end_after: At most so much of the log was left on each: its end, exclusive.
        least_after: So much was left at least, on one of them; None: as much as on the others.
        end_before: On one of them the log had reached that far.
        until_ns: Until then, at least, none of their brokers ran again.
        began_ns: Not before that was anything done to them.
        healed_ns: When the fault was over, -1 if it never was.
        excuse: What it was, as the contract's table has it: `power-loss`; `unconfirmed-fault`: one
            of them that was begun and not confirmed, and that may have taken anything.
    """

    nodes: frozenset[str]
    topic: str
    partition: int
    end_after: int
    end_before: int
    until_ns: int
    began_ns: int = -1
    healed_ns: int = -1
    least_after: int | None = None
    excuse: str

    @property
    def first_taken(self) -> int:
        """The first offset that one of the nodes may have lost."""
        return self.end_after if self.least_after is None else self.least_after

    def concerns(self, topic: str, partition: int) -> bool:
        """Tell whether it may have taken records of a partition."""
        return (self.topic, self.partition) in {(topic, partition), ("", -1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanOrder:
    """An unclean election that a fault ordered of a partition.

    Attributes:
        topic, partition: Which.
        after_epoch, epoch: As was seen, nobody led in the first and somebody in the second; -1 if
            that was not seen.
        leader: Who was elected, a node; empty if that was not seen.
        began_ns: Before that nothing was done for it; -1 if unknown.
        seen_ns: When it was seen; all who led before were dead by then, and stayed so. -1: never.
    """

    topic: str
    partition: int
    after_epoch: int = -1
    epoch: int = -1
    leader: str = ""
    began_ns: int = -1
    seen_ns: int = -1

    @property
    def known(self) -> bool:
        """Whether it was seen, with its leader and its epoch."""
        return bool(self.leader) and self.epoch >= 0 and self.seen_ns >= 0

    def may_be(self, epoch: int) -> bool:
        """Tell whether it may have begun a leader epoch; -1: nobody knows which."""
        return epoch < 0 or not self.known or self.after_epoch < epoch <= self.epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RemadeTopic:
    """The last incarnation of a topic that a fault made again.

    Attributes:
        topic, topic_id: Which.
        replicas: The nodes that have one, by partition.
        acked: Its records that were acknowledged with acks=all: partition, offset, value.
        made_ns: When it was created; all of them were acknowledged after that.
        healed_ns: When the fault was over; all of them were acknowledged before that.
        confirmed: Whether the fault was. Then each partition had taken a record.
    """

    topic: str
    topic_id: str
    replicas: Mapping[int, tuple[str, ...]]
    acked: tuple[tuple[int, int, int], ...]
    made_ns: int
    healed_ns: int
    confirmed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A fault that may have been in force, confirmed or not.

    Attributes:
        kind: What it did: `kill` also of a fault of another kind that killed its targets.
        begun_ns, ended_ns: When it was asked for and when healed; beyond all times if never.
        confirmed_ns: When it was seen to work; -1 if it never was.
        healing_ns: When its heal began; -1 if nobody knows.
        nodes: Its targets.
        family: Of its kind; empty in records of old.
        strikes: How often it broke connections of clients; -1 if nobody knows.
        place: The topic and partition that it is about, be it named or drawn; None: of none.
        controller: Whether a target led the controllers when it began.
        ends: The nodes at the ends of the links that it cuts or makes bad.
    """

    kind: str
    begun_ns: int
    ended_ns: int
    confirmed_ns: int = -1
    healing_ns: int = -1
    nodes: frozenset[str] = frozenset()
    family: str = ""
    strikes: int = 0
    place: tuple[str, int] | None = None
    controller: bool = False
    ends: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time in which a node's broker was certainly down, or stood still.

    Attributes:
        node: Whose.
        from_ns, until_ns: From when to when at least.
        gone: Whether its process had ended, so that another one came back.
    """

    node: str
    from_ns: int
    until_ns: int
    gone: bool = False


@dataclass(frozen=True, kw_only=True)  # Not slotted: `numbers` is cached.
class RunFacts:
    """The context of a run's rows.

    Attributes:
        run_id: Of the run's folder.
        recorded_id: `run_id` in the tables; another one if the folder was moved.
        plan: The plan; its defaults if it could not be read (see `problems`).
        topics: As they were created.
        milestones: How far the run came.
        reservations: Ranges of values (from, to; exclusive) that workers announced before use.
        quorum_high_watermark: The metadata log's highest known high watermark, None if unknown.
        quorum: What the leaders of the controllers' quorum told.
        calm_from_ns: When the last fault was healed, from which the plan's budgets count (without
            faults: when the main phase began); None if one may have been in force to the end.
        silences: From when to when in the main phase, and later, neither clients nor observers
            recorded anything.
        problems: Sentences on what could not be read; any makes the verdict unknown at best.
        plan_known: Whether the plan is the run's own: without it nobody knows what was promised.
        unread: The tables of the record that cannot be read, and count as empty.
        cut_streams: Whether a live stream ended without its end mark, or could not be read.
        unreadable_nodes: Nodes of whose files something could not be read; of a step's copies as
            `step-01/n2`.
        collected_nodes: Nodes of whose final logs any was read.
        step_isrs: Of a scenario: the ISR of its partition at the end of each step, nodes by the
            step's name, in the order of the steps.
        disk_losses: What power losses, wipes and flipped bits took.
        unclean_orders: The unclean elections that faults ordered.
        remade: Topics that faults made again, and that are judged beside the plan's.
        disturbances: The faults that may have been in force.
        absences: When which brokers were away for certain.
        answers: Of each target of a fault that was never confirmed, and when that fault began: when
            it had answered last by then, and first again; -1: not at all.
        reigns: Who led each partition by the controllers' log, internal topics' ones too.
        inner_cuts: What replicas of internal topics were recorded to truncate.
        taking: How each partition's high watermark grew after the last heal, by its leaders.
        story_broken: Whether a step of a scenario could not be played to its end.
        judge: Whose definitions the checkers follow: Jepsen's own differ.
        ww_deps: Whether the order of a log counts as dependencies between writers (for cycles).
        witnessed: Op ids of transactions of unknown outcome that certainly committed, because a
            read_committed reader got one of their sends, in whichever partition.
        moves_known: Whether assignments tell which partitions they leave out.
        contents_known: Whether anybody looked at what messages hold beside their values.
        history: Whether these are another recorder's client-side ops, with nothing else of a run:
            no final reads, no replicas' logs, no faults.
        picked: Of a history: which value stands at an offset with several, by (topic, partition)
            and offset, where somebody knows.
        names: Of a history: what values are called that are no integers.
        declared: What can be seen of the system, beyond its clients.
    """

    run_id: str
    recorded_id: str
    plan: Plan
    topics: tuple[CreatedTopic, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    reservations: tuple[tuple[int, int], ...] = ()
    quorum_high_watermark: int | None = None
    quorum: QuorumFacts = field(default_factory=QuorumFacts)
    calm_from_ns: int | None = None
    silences: tuple[tuple[int, int], ...] = ()
    problems: tuple[str, ...] = ()
    unread: frozenset[str] = field(default_factory=frozenset)
    cut_streams: bool = False
    plan_known: bool = True
    unreadable_nodes: frozenset[str] = field(default_factory=frozenset)
    collected_nodes: frozenset[str] = field(default_factory=frozenset)
    step_isrs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    disk_losses: tuple[DiskLoss, ...] = ()
    unclean_orders: tuple[UncleanOrder, ...] = ()
    remade: tuple[RemadeTopic, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    absences: tuple[Absence, ...] = ()
    answers: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    reigns: tuple[Reign, ...] = ()
    inner_cuts: tuple[Cut, ...] = ()
    taking: tuple[Taking, ...] = ()
    story_broken: bool = False
    judge: Judge = Judge.CONTRACT
    ww_deps: bool = True
    witnessed: frozenset[int] = field(default_factory=frozenset)
    moves_known: bool = True
    contents_known: bool = False
    history: bool = False
    picked: Mapping[tuple[str, int], Mapping[int, int]] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)

    def shows(self, sight: Sight) -> bool:
        """Tell whether something can be seen of the system."""
        return sight in self.declared.sees

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers' ids: those that the plan has, or 1, 2, ..."""
        return self.plan.broker_ids or tuple(range(1, self.plan.nodes + 1))

    @property
    def played(self) -> tuple[Milestone, ...]:
        """The milestones of the run itself: the audit of its hosts comes after its last second."""
        return tuple(each for each in self.milestones if each.name != AUDITED)

    def milestone(self, name: str) -> Milestone | None:
        """Return a milestone that the run reached, the last one of that name."""
        return next((each for each in reversed(self.milestones) if each.name == name), None)

    @property
    def clients_end_ns(self) -> int | None:
        """When clients were told to stop; of a record of before that was noted, when they had."""
        told = self.milestone(STOPPING) or self.milestone("final-reads")
        return told.at_ns if told is not None else None

    @property
    def workers_watched(self) -> int:
        """How many workers were watched to their end; 0 in records of before anybody did."""
        told = self.milestone(STOPPING)
        workers = told.detail.get("workers", "") if told else ""
        noted = int(workers) if workers.isascii() and workers.isdigit() else 0
        return max(noted, sum(each.name == WORKER_ENDED for each in self.milestones))

    @property
    def clean_nodes(self) -> frozenset[str]:
        """The nodes that ended by themselves when they were told to stop."""
        stopped = self.milestone("stopped")
        detail = stopped.detail if stopped is not None else {}
        return frozenset(node for node, how in detail.items() if how == CLEAN)

    @property
    def proving_nodes(self) -> frozenset[str]:
        """The nodes whose files prove what they lack: stopped cleanly, and read to their ends."""
        return self.clean_nodes & self.collected_nodes - self.unreadable_nodes

    @property
    def snapshot(self) -> str:
        """The name of the snapshot that the nodes' files are."""
        return FINAL if self.milestone("stopped") else CRASH

    @property
    def whole_story(self) -> bool:
        """Whether a scenario was played to its end, and the run too; true of an ordinary run.

        A run that died has no milestone `failed`, but did not reach the end of its main phase.
        """
        if self.plan.scenario is None:
            return True
        ended = self.milestone("main-ended") is not None and self.milestone("failed") is None
        return ended and not self.story_broken

    @property
    def recovered(self) -> bool:
        """Whether every partition got a leader and a full ISR back before the final reads."""
        reached = self.milestone("recovered")
        return reached is not None and "failed" not in reached.detail

    @property
    def weak_acks(self) -> bool:
        """Whether the producers asked for less than all acknowledgements."""
        setting = self._client("acks", "request.required.acks") or self.plan.acks
        return setting in {"0", "1"}

    @property
    def no_acks(self) -> bool:
        """Whether nothing was ever acknowledged."""
        return (self._client("acks", "request.required.acks") or self.plan.acks) == "0"

    @property
    def idempotent(self) -> bool:
        """Whether the producers' retries cannot write twice."""
        setting = self._client("enable.idempotence")
        return self.plan.idempotent if setting is None else setting.lower() == "true"

    @property
    def retries(self) -> bool:
        """Whether producers send again by themselves."""
        setting = self._client("retries", "message.send.max.retries")
        return setting != "0" if setting is not None else self.plan.retries != 0

    @property
    def resends_after_ns(self) -> int:
        """How long a producer waits, at least, before it sends again what got no answer."""
        return int(self._client("retry.backoff.ms") or 100) * 1_000_000

    @property
    def compacted(self) -> bool:
        """Whether the brokers may drop records in the middle of a log."""
        policies = (each.get("log.cleanup.policy", "delete") for each in self.plan.settings)
        return any("compact" in policy for policy in policies)

    @property
    def keeps_known(self) -> bool:
        """Whether it can be told what brokers must keep: all records, or the last of each key."""
        return not self.compacted or self.plan.keys > 0

    @property
    def forgets(self) -> bool:
        """Whether the brokers may drop the beginning of a log, or nobody knows that they may not.

        Kafka keeps records for a week where nobody asks for less, and no run takes that long.
        """
        asked = any(
            each.get(name, "-1") != "-1" for each in self.plan.settings for name in _RETENTION
        )
        return self.compacted or asked or self.history or not self.plan_known

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The n of a value, by (topic, partition)."""
        return {place: n for n, place in enumerate(self.plan.topic_partitions, start=1)}

    def remade_at(self, topic: str, topic_id: str, partition: int) -> RemadeTopic | None:
        """Return the topic made again that a partition is of; None if it is none of these."""
        for each in self.remade:
            if (each.topic, each.topic_id) == (topic, topic_id) and partition in each.replicas:
                return each
        return None

    def home_of(self, value: int) -> str:
        """Return the partition that a value of this run was made for: `log-0-1`; else empty."""
        at = (value >> SEQUENCE_BITS) - 1
        places = self.plan.topic_partitions
        return "{}-{}".format(*places[at]) if 0 <= at < len(places) else ""

    def name_of(self, value: int) -> str:
        """Return what people call a value: a scenario's messages have names, `message2 (value …)`.

        The payload of a named message is its value and its name, so both say the same.
        """
        if value in self.names:
            return f"value {self.names[value]}"
        number, sequence = value >> SEQUENCE_BITS, value & (1 << SEQUENCE_BITS) - 1
        ours = 1 <= number <= len(self.plan.topic_partitions) and sequence
        if self.plan.scenario is None or not ours:
            return f"value {value}"
        return f"message{sequence} (value {value})"

    def _client(self, *names: str) -> str | None:
        return next((self.plan.client[name] for name in names if name in self.plan.client), None)
