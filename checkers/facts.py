"""The facts of a run that all its groups share: plan, milestones, topics, faults."""

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
"""The names of the snapshots after a stop, and after a crash of the harness."""
NOTED = "noted"
"""The milestone at which all brokers were asked for the last time before they were stopped."""
CLEAN = "clean"
"""The harness's word for a node that was asked to stop and then ended by itself."""
LOOKED, AUDITED = "looked", "audited"
"""The milestones of the checks of the hosts, before and after the run.

`AUDITED` has the changes.
"""

_RETENTION = (
    "log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes",
)  # fmt: skip
"""The settings that let a broker delete the beginning of a log. The value -1 forbids this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLoss:
    """The records of a partition that some nodes lost, or may have lost, by a fault of their disks.

    Attributes:
        nodes: The nodes that were hit.
        topic, partition: The partition. If it is unknown which partitions lost records: "" and -1.
        replicas: How many replicas the fault's row lists; None: one on each of the nodes. A target
            of the fault need not have a replica of the partition.
        end_after: The highest log end offset (exclusive) on any of the nodes after the loss.
        least_after: The lowest log end offset on any of the nodes after the loss. None means that
            all nodes have the same log end offset.
        end_before: The highest log end offset on any of the nodes before the loss.
        until_ns: No broker of these nodes ran again before this time; -1 if unknown. For an
            unconfirmed fault: when it was healed, or the largest integer.
        began_ns: The earliest time at which the fault can have had any effect.
        healed_ns: When the fault was over, -1 if it never was.
        excuse: The row of the contract's table, such as `power-loss`. `unconfirmed-fault` means
            that the fault began but was not confirmed, so it may have removed any record.
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
    replicas: int | None = None
    excuse: str

    @property
    def first_taken(self) -> int:
        """The first offset that one of the nodes may have lost."""
        return self.end_after if self.least_after is None else self.least_after

    def concerns(self, topic: str, partition: int) -> bool:
        """Return whether the loss may have removed records of a partition."""
        return (self.topic, self.partition) in {(topic, partition), ("", -1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanOrder:
    """An unclean election that a fault requested for a partition.

    Attributes:
        topic, partition: The partition.
        after_epoch, epoch: The fault saw no leader in `after_epoch`, and a leader in `epoch`; -1 if
            not seen.
        leader: The node of the elected leader; empty if not seen.
        began_ns: The earliest time at which the fault can have had any effect; -1 if unknown.
        seen_ns: When the election was seen. At that time, all earlier leaders were down, and they
            stayed down. -1 means that the election was not seen.
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
        """Whether the election, its leader and its epoch were seen."""
        return bool(self.leader) and self.epoch >= 0 and self.seen_ns >= 0

    def may_be(self, epoch: int) -> bool:
        """Return whether the request may have led to an epoch; true if either is not known."""
        return epoch < 0 or not self.known or self.after_epoch < epoch <= self.epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RemadeTopic:
    """The last incarnation of a topic that a fault deleted and recreated.

    Attributes:
        topic, topic_id: The topic's name and id.
        replicas: The nodes with a replica, by partition.
        acked: The records that were acknowledged with acks=all: partition, offset, value.
        made_ns: When the topic was created. All `acked` records were acknowledged later.
        healed_ns: When the fault was over. All `acked` records were acknowledged earlier.
        confirmed: Whether the fault was confirmed. If so, each partition acknowledged a record.
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
        kind: The fault's effect. A fault of another kind that killed its targets is also a `kill`.
        begun_ns, ended_ns: When the fault was requested, and when it was healed. If it was never
            healed, `ended_ns` is the largest integer.
        confirmed_ns: When the fault was seen to work; -1 if it never was.
        healing_ns: When the heal began; -1 if unknown.
        nodes: The fault's targets.
        family: The family of the fault's kind; empty in old records.
        strikes: How often the fault broke connections of clients; -1 if unknown.
        place: The topic and the partition that the fault concerns, from the plan or chosen at
            random. None if the fault does not concern one partition only.
        controller: Whether a target was the active controller when the fault began.
        ends: The nodes at the ends of the links that the fault cuts or degrades.
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
    """A period in which a node's broker was certainly down or paused.

    Attributes:
        node: The broker's node.
        from_ns, until_ns: The absence lasted at least from `from_ns` until `until_ns`.
        gone: Whether the process had ended, so that a new process came back.
    """

    node: str
    from_ns: int
    until_ns: int
    gone: bool = False


@dataclass(frozen=True, kw_only=True)  # Not slotted, because `numbers` is cached.
class RunFacts:
    """The context of a run's rows.

    Attributes:
        run_id: The id in the name of the run's folder.
        recorded_id: `run_id` in the tables. This id differs from `run_id` if the folder was moved.
        plan: The run's plan, or the default plan if the run's plan could not be read (see
            `problems`). A setting of the system that could not be read has its weakest value.
        topics: The topics as they were created.
        milestones: The milestones that the run reached.
        reservations: The ranges of values that workers announced before they used them: (from, to),
            without `to`.
        quorum_high_watermark: The highest known high watermark of the metadata log, None if
            unknown.
        quorum: A summary of the reports about the controllers' quorum and its log.
        calm_from_ns: When the last fault was healed. The plan's time limits begin at that time. In
            a run without faults, it is the start of the main phase. None means that a fault may
            have been in force until the end.
        silences: The periods in the main phase, or later, in which neither clients nor observers
            recorded anything.
        problems: Sentences on data that could not be read. If there is any problem, the verdict is
            at best unknown.
        plan_known: Whether `plan` is the run's own plan. If not, the promises are unknown.
        unread: The tables of the record that cannot be read; they count as empty.
        cut_streams: Whether a live stream is missing, ended without its end mark, or could not be
            read. Also true if a table of the record cannot be read, or ingest's notes on streams.
        events_known: Whether all faults and all answers of brokers could be read. If not, an event
            that allows an anomaly may be missing.
        unreadable_nodes: The nodes with a file that could not be read; for the copies of a step,
            the step is part of the name: `step-01/n2`.
        collected_nodes: The nodes with at least one final log that was read.
        step_isrs: For a scenario: the nodes in the partition's ISR at the end of each step. The
            keys are the steps' names, in the order of the steps.
        disk_losses: The losses by power losses, lost flushes, wipes and flipped bits, and the
            possible losses by unconfirmed faults.
        unclean_orders: The unclean elections that faults requested.
        remade: The topics that faults recreated. They are judged in addition to the plan's topics.
        disturbances: The faults that may have been in force.
        absences: The periods in which brokers were certainly down or paused.
        answers: For each target of an unconfirmed fault, a pair of times: of the last answer before
            the fault began, and of the first answer after that. A time is -1 if there was no
            answer. The key is the target and the begin of the fault.
        reigns: The leadership periods of all partitions, including internal topics, from the
            controllers' log.
        inner_cuts: The recorded truncations of replicas of internal topics.
        taking: How the high watermark of each partition grew after the last heal, as the
            partition's leaders reported it.
        story_broken: Whether a step of a scenario could not be run to its end, or the list of
            steps could not be read.
        judge: The judge. If the judge is Jepsen, the checkers use Jepsen's definitions.
        ww_deps: Whether cycles may use the order of a log as dependencies between the writers.
        commits_kept_on: The nodes with committed offsets in their final logs of
            `__consumer_offsets`. Empty if such a log may have been compacted, or a topic's id is
            unknown.
        witnessed: The op ids of transactions that certainly committed although their outcome is
            unknown to the client. In some partition, a read_committed reader got one of their
            sends.
        moves_known: Whether the rows of an assignment also show the partitions that the assignment
            left out.
        contents_known: Whether not only the value of each message was compared, but also the other
            parts.
        history: Whether the ops are an imported history: client-side ops of another recorder,
            without final reads, replicas' logs or faults.
        picked: For a history: the value to use for an offset that has several values. The keys are
            (topic, partition), and then the offset.
        names: For a history with values that are not integers: the names of these values.
        declared: The kinds of observation that the system provides besides its clients.
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
    events_known: bool = True
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
    commits_kept_on: frozenset[str] = field(default_factory=frozenset)
    witnessed: frozenset[int] = field(default_factory=frozenset)
    moves_known: bool = True
    contents_known: bool = False
    history: bool = False
    picked: Mapping[tuple[str, int], Mapping[int, int]] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)

    def shows(self, sight: Sight) -> bool:
        """Return whether the system provides a kind of observation."""
        return sight in self.declared.sees

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers' ids: the ids in the plan, or 1, 2, ..."""
        return self.plan.broker_ids or tuple(range(1, self.plan.nodes + 1))

    @property
    def played(self) -> tuple[Milestone, ...]:
        """The milestones of the run, without the later check of its hosts."""
        return tuple(each for each in self.milestones if each.name != AUDITED)

    def milestone(self, name: str) -> Milestone | None:
        """Return the last milestone with the given name; None if the run has no such milestone."""
        return next((each for each in reversed(self.milestones) if each.name == name), None)

    @property
    def clients_end_ns(self) -> int | None:
        """When clients were asked to stop; in older records, when they had stopped."""
        told = self.milestone(STOPPING) or self.milestone("final-reads")
        return told.at_ns if told is not None else None

    @property
    def workers_watched(self) -> int:
        """The number of workers that were watched to their end; 0 in old records."""
        told = self.milestone(STOPPING)
        workers = told.detail.get("workers", "") if told else ""
        noted = int(workers) if workers.isascii() and workers.isdigit() else 0
        return max(noted, sum(each.name == WORKER_ENDED for each in self.milestones))

    @property
    def clean_nodes(self) -> frozenset[str]:
        """The nodes that ended by themselves after a normal stop."""
        stopped = self.milestone("stopped")
        detail = stopped.detail if stopped is not None else {}
        return frozenset(node for node, how in detail.items() if how == CLEAN)

    @property
    def proving_nodes(self) -> frozenset[str]:
        """The nodes that stopped cleanly and whose files were all read.

        If the log of such a node lacks a record, the replica did not have that record.
        """
        return self.clean_nodes & self.collected_nodes - self.unreadable_nodes

    @property
    def snapshot(self) -> str:
        """The name of the snapshot that the nodes' files belong to: `final` or `crash`."""
        return FINAL if self.milestone("stopped") else CRASH

    @property
    def whole_story(self) -> bool:
        """Whether the run reached its end with all steps of its scenario; true without a scenario.

        A run that died has no milestone `failed`, but it did not reach the end of its main phase.
        """
        if self.plan.scenario is None:
            return True
        ended = self.milestone("main-ended") is not None and self.milestone("failed") is None
        return ended and not self.story_broken

    @property
    def recovered(self) -> bool:
        """Whether every partition had a leader and a full ISR again before the final reads."""
        reached = self.milestone("recovered")
        return reached is not None and "failed" not in reached.detail

    @property
    def weak_acks(self) -> bool:
        """Whether the producers asked for less than acks=all."""
        setting = self._client("acks", "request.required.acks") or self.plan.acks
        return setting in {"0", "1"}

    @property
    def no_acks(self) -> bool:
        """Whether nothing was ever acknowledged (acks=0)."""
        return (self._client("acks", "request.required.acks") or self.plan.acks) == "0"

    @property
    def idempotent(self) -> bool:
        """Whether idempotence keeps a producer's retry from writing a message twice."""
        setting = self._client("enable.idempotence")
        return self.plan.idempotent if setting is None else setting.lower() == "true"

    @property
    def retries(self) -> bool:
        """Whether producers retry by themselves."""
        setting = self._client("retries", "message.send.max.retries")
        return setting != "0" if setting is not None else self.plan.retries != 0

    @property
    def resends_after_ns(self) -> int:
        """The minimum time after which a producer retries a message that got no answer."""
        return int(self._client("retry.backoff.ms") or 100) * 1_000_000

    @property
    def compacted(self) -> bool:
        """Whether the brokers may drop records in the middle of a log."""
        return any("compact" in policy for policy in self._policies)

    @property
    def _policies(self) -> set[str]:
        """The cleanup policies of the brokers."""
        return {each.get("log.cleanup.policy", "delete") for each in self.plan.settings}

    @property
    def keeps_known(self) -> bool:
        """Whether it is known what brokers must keep: all records, or each key's last record."""
        return not self.compacted or self.plan.keys > 0

    @property
    def forgets(self) -> bool:
        """Whether the brokers may delete the beginning of a log. True if this is unknown.

        By default, Kafka keeps records for a week, which is longer than any run takes. In a topic
        that is only compacted, Kafka keeps the beginning of a log.
        """
        asked = any(
            each.get(name, "-1") != "-1" for each in self.plan.settings for name in _RETENTION
        )
        only_compacts = self.plan.keys > 0 and self._policies <= {"compact"}
        forgets = asked or (self.compacted and not only_compacts)
        return forgets or self.history or not self.plan_known

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The number of each (topic, partition). The values of a partition contain its number."""
        return {place: n for n, place in enumerate(self.plan.topic_partitions, start=1)}

    def remade_at(self, topic: str, topic_id: str, partition: int) -> RemadeTopic | None:
        """Return the recreated topic that a partition belongs to, or None."""
        for each in self.remade:
            if (each.topic, each.topic_id) == (topic, topic_id) and partition in each.replicas:
                return each
        return None

    def home_of(self, value: int) -> str:
        """Return the partition for which a value of this run was created (`log-0-1`), or ""."""
        at = (value >> SEQUENCE_BITS) - 1
        places = self.plan.topic_partitions
        return "{}-{}".format(*places[at]) if 0 <= at < len(places) else ""

    def name_of(self, value: int) -> str:
        """Return a value's name for reports; in a scenario, a name such as `message2 (value …)`.

        The payload of a scenario's message contains the message's value and name.
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
