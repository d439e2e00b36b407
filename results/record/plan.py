"""The plan of a run: all inputs that decide the run, with all defaults written out.

A plan comes from a TOML file, from the command line, or from both. The complete plan is stored as
`plan.toml` of the run. Two runs of one plan differ only because the brokers behave differently.
"""

import re
from pathlib import Path
from typing import Literal

import tomli_w
from pydantic import Field, ValidationError, field_validator, model_validator

from results.record.cleaning import keys_refusal
from results.record.group_ways import GroupProtocol, pipeline_refusal, protocol_refusal
from results.record.level import TOP_LEVEL, level_refusal
from results.record.loads import WORKLOAD, Load, load_refusal, with_defaults
from results.record.plan_contents import Contents, in_flight_refusal
from results.record.plan_parts import (
    CLIENT_KINDS,
    Budgets,
    Minimums,
    Part,
    PlannedFault,
    ScenarioPlan,
)
from results.record.plan_words import refusal_of
from results.record.reading import MAX_PLAN_BYTES, parse_toml, read_text
from results.record.shares import OF_ONE_GROUP, shares_refusal
from results.record.stopping import stop_refusal
from results.record.systems import (
    FIRST_KRAFT,
    NEWEST_KAFKA,
    SystemKind,
    SystemName,
    known_numbers,
    mode_refusal,
    system_named,
)
from results.record.terms import Judge, Mode
from results.record.transactional import transactions_refusal
from results.record.tuning import MARKERS_S, PATIENCE, abort_interval_s, number_of

NEMESIS_KINDS = (
    "partition", "splits", "clients", "network", "kill", "stop", "pause", "rolling", "power-loss",
    "wipe", "bit-flip", "disk", "clock", "leadership", "topics", "outage", "keeper",
    "keeper-links", "double", "stall", "stall-clients", "aftermath", "remade", "connections",
    "client-connections", "resources", "slow-disks", "disk-errors", "lost-flushes")  # fmt: skip
"""The fault families. In a plan's `nemesis`, `all` means every family that fits the hosts."""
ALL = "all"
MAX_TIME_LIMIT_S = 7 * 86_400


class PlanError(ValueError):
    """An error: the plan cannot be run. The message is one sentence with a remedy."""


MESSAGE_FORMAT = "log.message.format.version"
FIRST_WITH_PRODUCER_IDS = (0, 11)

REFERENCE = "reference"
SIMULATED = "simulated"
"""Value of `hosts` for the reference cluster. It runs in virtual time, without real hosts."""
ATTACHED = "attached"
"""Value of `hosts` for a cluster that is already running. A file lists the permitted commands."""
NEWEST = ".".join(map(str, NEWEST_KAFKA))
"""The newest known Kafka version. Its rules apply to systems other than Kafka."""


class Plan(Part):
    """The plan of a run."""

    schema_version: Literal[1] = 1
    """Version of the format of plans."""
    name: str = Field(default="log", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")
    system: str = "kafka:4.3.1"
    """The system under test, in a form of `results.record.systems`."""
    version: str | None = Field(default=None, pattern=r"^[0-9][0-9A-Za-z.+_-]{0,60}$")
    """For a Kafka that the user built: the version that the jars report."""
    broker_ids: tuple[int, ...] | None = None
    """Broker ids, if `system` is `attached:FILE` or `command:FILE`; by default 1, 2, ..."""
    prefix: str | None = Field(default=None, pattern=r"^logquake-[0-9a-f]{8}-$")
    """On an attached cluster: the run's prefix for topics, groups and transactional ids."""
    bug: str | None = None
    """For the reference cluster: the bug to switch on."""
    hosts: str = Field(
        default="auto", pattern=r"^(auto|namespace|docker|process|simulated|attached|ssh:.+)$"
    )
    """`ssh:HOSTS.toml` names a file with the hosts. `simulated` is virtual time without hosts."""
    image: str | None = None
    """Image for docker containers. It contains Java or Kafka."""
    disk_mb: int | None = Field(default=None, ge=64)
    """MiB of a separate file system for each node's data; by default, the store's disk is used."""
    nodes: int = Field(default=3, ge=1, le=9)
    """Number of brokers, named `n1`, `n2`, ..."""
    controllers: int = Field(default=3, ge=1, le=5)
    """Number of separate controllers (`n101`, `n102`, ...) in the mode `controllers`."""
    replication: int = Field(default=3, ge=1, le=9)
    topics: int = Field(default=2, ge=1, le=64)
    partitions: int = Field(default=4, ge=1, le=256)
    """Number of partitions of each topic."""
    workload: str = Field(default="log", pattern=WORKLOAD)
    """A name in `workloads.registry`, or `script` if a scenario's steps send and read messages."""
    nemesis: tuple[str, ...] = ("partition", "kill", "pause")
    nemesis_interval_s: float = Field(default=6, gt=0)
    warmup_s: float = Field(default=5, ge=0)
    time_limit_s: float = Field(default=60, gt=0, le=MAX_TIME_LIMIT_S)
    load: Load = Load.LIGHT
    """The load decides how often, how much and from how many processes clients send by default."""
    rate: float = Field(default=500, ge=0)
    """Operations per second of all processes; 0 means no limit. The default of `txn` is 100."""
    concurrency: int = Field(default=16, ge=1, le=4096)
    """Number of logical processes."""
    workers: int = Field(default=2, ge=1, le=64)
    """Number of operating system processes that run the logical processes."""
    acks: Literal["0", "1", "all"] = "all"
    idempotence: bool | None = None
    """By default on if acks=all and the message format permits it, as in Kafka's clients."""
    retries: int | None = Field(default=None, ge=0)
    """By default as in the client: retries are unlimited until the delivery timeout."""
    client_version: str | None = Field(default=None, pattern=r"^\d+\.\d+\.\d+$")
    """Version of librdkafka and confluent-kafka; by default the version that Logquake installs."""
    client_kind: str | None = Field(default=None, pattern=CLIENT_KINDS)
    """`java` or `java:VERSION` for Kafka's own clients; by default `librdkafka`."""
    group_protocol: GroupProtocol = "mixed"
    """Protocol of group members. `mixed` uses both, if the consumer protocol is supported."""
    linger_ms: float = Field(default=5, ge=0)
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd", "mixed"] = "none"
    """`mixed` gives each worker a different compression."""
    sends_per_op: int = Field(default=1, ge=1, le=100_000)
    payload_bytes: int = Field(default=100, ge=8, le=1_000_000)
    """The size of each message. From 20 bytes on, readers notice any changed byte."""
    keys: int = Field(default=0, ge=0, le=1_000_000)
    """Keys per partition, for `keyed` 8 to 32 by default; 0 gives each message its own key."""
    delivery_timeout_s: float = Field(default=30, gt=0)
    """Time until a producer gives up a message. Without `go-on`, it is longer than all faults."""
    transaction_timeout_s: float = Field(default=10, gt=0)
    """Time after which a coordinator aborts an open transaction (`transaction.timeout.ms`)."""
    after_timeout: Literal["discard", "go-on"] = "discard"
    """After a timeout, a transactional client discards its producer, or goes on with it."""
    min_insync: int = Field(default=2, ge=1, le=9)
    drawn: bool = False
    """Whether `nemesis` was `all` or its default. Such a run needs enough faults, but need not
    execute every family."""
    heap_mb: int = Field(default=512, ge=16, le=65_536)
    """Heap of each broker's or controller's JVM, in MiB."""
    judge: Judge = Judge.CONTRACT
    stop_on_violation: bool = False
    """Whether the run is judged while it runs, and stops at the first violation."""
    seed: int = Field(default=0, ge=0)
    level: int = Field(default=0, ge=0, le=TOP_LEVEL)
    """Difficulty of the scheduled faults (`nemesis/levels.py`)."""
    swarm: bool = False
    """Whether unset settings are chosen at random from the seed (`harness/swarm.py`)."""
    swarmed: tuple[str, ...] = ()
    """Names of the settings that were chosen at random: `rate`, `broker.num.io.threads`."""
    broker: dict[str, str] = Field(default_factory=dict)
    """Broker settings of the user: `--set KEY=VALUE`."""
    node: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Settings of single nodes, which override `broker`: `[node.n101]`."""
    features: dict[str, int] = Field(default_factory=dict)
    """KRaft's feature levels (KIP-584) with which disks are formatted, such as
    `"eligible.leader.replicas.version" = 0`. Other features keep the version's default."""
    client: dict[str, str] = Field(default_factory=dict)
    """librdkafka settings of the user: `--client KEY=VALUE`."""
    clients: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Name of a table in the user's own client settings (`results/record/own.py`)."""
    contents: Contents = Contents()
    budgets: Budgets = Budgets()
    minimums: Minimums = Minimums()
    faults: tuple[PlannedFault, ...] | None = None
    """Handwritten faults, which replace all random faults (`nemesis`). None: random faults from the
    seed."""
    scenario: ScenarioPlan | None = None
    """The scenario of a scripted run; ordinary runs have none."""

    @model_validator(mode="before")
    @classmethod
    def _of_the_workload(cls, values: object) -> object:
        return with_defaults(values)

    @field_validator("nemesis", mode="before")
    @classmethod
    def _split_nemesis(cls, value: object) -> object:
        return tuple(filter(None, value.split(","))) if isinstance(value, str) else value

    @field_validator("system")
    @classmethod
    def _is_a_system(cls, value: str) -> str:
        return system_named(value).text

    @model_validator(mode="after")
    def _of_its_system(self) -> "Plan":
        if self.bug is not None and not self.is_reference:
            raise ValueError(f"bug: {self.system} has no bugs to choose; use --system reference")
        if self.broker_ids is not None and len({*self.broker_ids}) != self.nodes:
            raise ValueError(f"broker_ids: {self.nodes} brokers need {self.nodes} different ids")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> "Plan":
        unknown = [kind for kind in self.nemesis if kind not in {*NEMESIS_KINDS, ALL}]
        if unknown:
            raise ValueError(
                f"nemesis: {unknown[0]!r} does not exist; use one of"
                f" {', '.join((*NEMESIS_KINDS, ALL))}"
            )
        version = self.named.version or self.version if self.is_kafka else None
        if version and (refusal := mode_refusal(version, self.mode)):
            raise ValueError(f"system: {refusal}")
        if self.workload == "script" and self.scenario is None:
            raise ValueError("workload: script needs a scenario: name one in [scenario]")
        if self.replication > self.nodes:
            raise ValueError(
                f"replication: {self.replication} replicas do not fit on {self.nodes} nodes"
            )
        if self.min_insync > self.replication:
            raise ValueError(
                f"min_insync: {self.min_insync} is more than the replication {self.replication}"
            )
        if self.idempotence and self.acks != "all":
            raise ValueError(f'idempotence: needs acks = "all", not {self.acks!r}')
        if self.idempotence and not self.keeps_producer_ids:
            written = self.broker[MESSAGE_FORMAT]
            raise ValueError(f"idempotence: the message format {written} has no producer ids")
        refusals = (self._hosts_refusal, self._workload_refusal, self._clients_refusal,
                    lambda: stop_refusal(self), lambda: level_refusal(self))  # fmt: skip
        if refusal := next(filter(None, (each() for each in refusals)), None):
            raise ValueError(refusal)
        longest_s = max((fault.hold_s for fault in self.faults or ()), default=0)
        if longest_s >= self.delivery_timeout_s and not self.goes_on:
            raise ValueError(
                f"delivery_timeout_s: {self.delivery_timeout_s:g} is not longer than the longest"
                f" fault ({longest_s:g} s), so every send during that fault would end with an"
                " unknown outcome; increase it"
            )
        return self

    def _hosts_refusal(self) -> str | None:
        """Return why the names of system and hosts do not fit together; None if they do."""
        if self.hosts == ATTACHED and not self.runs_already:
            return f"hosts: {self.system} is not an attached cluster; use another kind of hosts"
        return None

    def _clients_refusal(self) -> str | None:
        """Return why these clients are not possible; None if they are possible."""
        if self.goes_on and self.workload != "txn":
            return "after_timeout: only the workload txn supports it; remove after_timeout"
        if self.wants_java and self.client_version is not None:
            return (
                f"client_version: {self.client_version} is a version of librdkafka; for Kafka's"
                " Java client, write the version into client_kind, such as java:4.3.1"
            )
        return in_flight_refusal(self.contents, idempotent=self.idempotent)

    def _workload_refusal(self) -> str | None:
        """Return why these clients cannot run the workload; None if they can."""
        members = {"groups": self.workers + 1} | dict.fromkeys(OF_ONE_GROUP, 2 * self.workers)
        if self.concurrency < (needed := members.get(self.workload, 0)):
            return (
                f"concurrency: {self.concurrency} processes in {self.workers} workers would all"
                f" be members of groups, so none would send: use {needed} or more"
            )
        of_groups = pipeline_refusal(self) or (self.is_grouped and protocol_refusal(self))
        if refusal := of_groups or keys_refusal(self) or shares_refusal(self):
            return refusal
        scripted, simulated = self.scenario is not None, self.is_simulated
        if refusal := load_refusal(self.load, scripted=scripted, simulated=simulated):
            return refusal
        return transactions_refusal(self) if self.transactional else None

    @property
    def topic_names(self) -> list[str]:
        """The topics of the run, in order: `log-0`, `log-1`, ..."""
        if self.scenario is not None:
            return [self.scenario.topic]
        return [f"{self.prefix or ''}log-{number}" for number in range(self.topics)]

    @property
    def topic_partitions(self) -> list[tuple[str, int]]:
        """All (topic, partition) pairs, in order. A value contains its pair's number, from 1."""
        return [(topic, part) for topic in self.topic_names for part in range(self.partitions)]

    @property
    def crews(self) -> int:
        """Number of workers to start. There are not more workers than logical processes."""
        return min(self.workers, self.concurrency)

    @property
    def transactional(self) -> bool:
        """Whether clients write in transactions, because of the workload or the scenario."""
        return self.workload in {"txn", "pipeline", "keyed"} or (
            self.scenario is not None and self.scenario.transactions is True
        )

    @property
    def goes_on(self) -> bool:
        """Whether a transactional client continues with its producer after a timeout."""
        return self.after_timeout == "go-on"

    @property
    def reuses_sequences(self) -> bool:
        """Whether a client that goes on may use a sequence number again, as librdkafka does."""
        return self.goes_on and not self.wants_java

    @property
    def is_grouped(self) -> bool:
        """Whether some clients are members of groups."""
        return self.workload in {"groups", "pipeline"}

    @property
    def inputs(self) -> list[str]:
        """The topics that group members read: all topics, but in `pipeline` not the last topic."""
        return self.topic_names[:-1] if self.workload == "pipeline" else self.topic_names

    @property
    def wants_java(self) -> bool:
        """Whether the workload uses Kafka's own Java clients."""
        return (self.client_kind or "").startswith("java")

    @property
    def hanging_after_s(self) -> float:
        """Seconds after which an open transaction counts as hanging.

        They are the sum of the transaction timeout, the interval at which the coordinator checks
        timeouts, and the time to write the markers.
        """
        looks_s = abort_interval_s(self.broker, self.version_numbers if self.is_kafka else None)
        return self.transaction_timeout_s + looks_s + MARKERS_S

    @property
    def shifts_clocks(self) -> bool:
        """Whether a fault may shift a broker's clock, so that the broker needs a special start."""
        return self._may_have("clock", "clock-")

    @property
    def limits_resources(self) -> bool:
        """Whether a fault may limit a broker's resources, which requires a special start."""
        return self._may_have("resources", "few-", "little-")

    def _may_have(self, family: str, *kinds: str) -> bool:
        """Return whether faults of a family may occur; handwritten faults match by prefix."""
        if self.faults is not None:
            return any(fault.kind.startswith(kinds) for fault in self.faults)
        return not {family, ALL}.isdisjoint(self.nemesis)

    @property
    def idempotent(self) -> bool:
        """Whether producers are idempotent, by the plan or by default."""
        if self.idempotence is None:
            return self.acks == "all" and self.keeps_producer_ids
        return self.idempotence

    @property
    def keeps_producer_ids(self) -> bool:
        """Whether the topics' message format has producer ids: v2, since Kafka 0.11 (KIP-98)."""
        written = re.match(r"(\d{1,9})\.(\d{1,9})", self.broker.get(MESSAGE_FORMAT, ""))
        return written is None or tuple(map(int, written.groups())) >= FIRST_WITH_PRODUCER_IDS

    @property
    def keeps_headers(self) -> bool:
        """Whether the message format has headers, which came with producer ids (KIP-82)."""
        return self.keeps_producer_ids

    @property
    def named(self) -> SystemName:
        """The parts of the system's name."""
        return system_named(self.system)

    @property
    def kafka_version(self) -> str:
        """`3.9.1` for `kafka:3.9.1:combined`; for other systems, the version whose rules apply."""
        return self.named.version or self.version or NEWEST

    @property
    def is_reference(self) -> bool:
        """Whether the brokers are Logquake's own reference cluster."""
        return self.named.kind is SystemKind.REFERENCE

    @property
    def is_kafka(self) -> bool:
        """Whether the brokers are Apache Kafka, started by Logquake."""
        return self.named.kind is SystemKind.KAFKA

    @property
    def is_simulated(self) -> bool:
        """Whether the run uses virtual time."""
        return self.hosts == SIMULATED

    @property
    def version_numbers(self) -> tuple[int, ...]:
        """The version as numbers, (0, 11, 0, 3); for unknown newer versions, `NEWEST_KAFKA`."""
        return known_numbers(self.kafka_version)

    @property
    def runs_already(self) -> bool:
        """Whether the run uses a cluster that is already running."""
        return self.named.kind is SystemKind.ATTACHED

    @property
    def mode(self) -> Mode:
        """Where the metadata are kept. If `system` does not say it, the version decides."""
        named = self.named
        if named.mode is not None:
            return named.mode
        if named.is_strange:
            return Mode.HIDDEN
        return Mode.ZOOKEEPER if self.version_numbers < FIRST_KRAFT else Mode.COMBINED

    @property
    def has_quorum(self) -> bool:
        """Whether Kafka's own controllers keep the metadata in a log (KIP-500)."""
        return self.mode in {Mode.COMBINED, Mode.CONTROLLERS}

    @property
    def brokers_vote(self) -> bool:
        """Whether the brokers themselves are the controllers."""
        return self.mode is Mode.COMBINED

    @property
    def own_controllers(self) -> int:
        """Number of separate controllers."""
        return self.controllers if self.mode is Mode.CONTROLLERS else 0

    @property
    def voters(self) -> int:
        """Number of voters in the controller quorum; 0 if there is none."""
        return self.nodes if self.brokers_vote else self.own_controllers

    @property
    def kept_outside(self) -> bool:
        """Whether ZooKeeper keeps the metadata, so that brokers may learn of changes late."""
        return self.mode is Mode.ZOOKEEPER

    @property
    def settings(self) -> tuple[dict[str, str], ...]:
        """Broker settings: first for all nodes, then for each single node."""
        return (self.broker, *self.node.values())

    @property
    def takeover_s(self) -> float:
        """Maximum seconds until another broker replaces a failed broker, including all timeouts."""
        told = (max(number_of(each.get(name, "")) or 0 for each in self.settings)
                for name in PATIENCE)  # fmt: skip
        return self.budgets.election_s + sum(told) / 1000

    @property
    def least_insync(self) -> int:
        """Minimum number of replicas that hold a record acknowledged with acks=all."""
        told = (number_of(each.get("min.insync.replicas", "")) for each in self.settings)
        return min([self.min_insync, *(each for each in told if each is not None)])

    def internal_copies(self, setting: str) -> int:
        """Return the number of replicas of an internal topic, given the name of its setting."""
        told = number_of(self.broker.get(setting, ""))
        return min(3, self.nodes) if told is None else told

    @property
    def unclean_elections(self) -> bool:
        """Whether the settings permit unclean elections: leaders from outside the ISR."""
        name = "unclean.leader.election.enable"
        return any(settings.get(name, "false").lower() == "true" for settings in self.settings)


def plan_from(values: dict[str, object]) -> Plan:
    """Validate a plan's values and return the plan.

    Raises:
        PlanError: One sentence with the key, the value and a remedy.
    """
    try:
        return Plan.model_validate(values)
    except ValidationError as invalid:
        raise PlanError(refusal_of(invalid, Plan)) from invalid


def load_plan(path: Path, *, own: bool = False) -> dict[str, object]:
    """Read a plan file as plain values; `plan_from` validates them.

    Args:
        path: The file.
        own: Whether the user named the file. A file that the user named may be a link or a pipe; a
            file of a run may not.

    Raises:
        PlanError: The file cannot be read, or is not TOML.
    """
    try:
        text = path.read_text("utf-8") if own else read_text(path, max_bytes=MAX_PLAN_BYTES)
        return parse_toml(text)
    except (OSError, UnicodeDecodeError) as unreadable:
        why = getattr(unreadable, "strerror", None) or "it is not UTF-8"
        raise PlanError(f"the plan {path} cannot be read: {why}") from unreadable
    except ValueError as malformed:
        raise PlanError(f"the plan {path} is not TOML: {malformed}") from malformed


def dump_plan(plan: Plan) -> str:
    """Return the plan as TOML, including defaults and seed."""
    return tomli_w.dumps(plan.model_dump(mode="json", exclude_none=True))
