"""The closed sets of the record: every word that a column may hold."""

from enum import StrEnum

NO_HANDLE = "Too many open files"
"""EMFILE in the words of the C library, of Java and of Python (man 3 strerror)."""
UNMEASURED = "no effect could be measured in time"
"""Of a fault that began: why nothing of it was confirmed, though its effect was looked for."""


class Outcome(StrEnum):
    """How an op ended: `fail` certainly had no effect, of `info` nothing is known."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class F(StrEnum):
    """What an op does."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    SEEK = "seek"
    ACKNOWLEDGE = "acknowledge"
    CRASH = "crash"


class Isolation(StrEnum):
    """What a consumer is given: every record, or none of a transaction that is open or aborted."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class AssignmentKind(StrEnum):
    """How a consumer came by a partition, or lost it."""

    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    REBALANCE_ASSIGNED = "rebalance-assigned"
    REBALANCE_REVOKED = "rebalance-revoked"
    SEEK = "seek"
    """It stays assigned, and is read on from another offset."""


class GroupAct(StrEnum):
    """What a member asked its group's coordinator about the group's position in a partition."""

    COMMIT = "commit"
    FETCH = "fetch"


class ShareAct(StrEnum):
    """What befell a record in a share group: it was delivered, and what its member made of it."""

    DELIVER = "deliver"
    ACCEPT = "accept"
    RELEASE = "release"
    """It is to be delivered again."""
    REJECT = "reject"


class Decision(StrEnum):
    """What a client decided on its transaction; a crash before the end leaves it to be aborted."""

    COMMIT = "commit"
    ABORT = "abort"


class TransactionOutcome(StrEnum):
    """What the coordinator answered to the decision."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """The part of a run in which an op was invoked."""

    WARMUP = "warmup"
    MAIN = "main"
    RECOVERY = "recovery"
    FINAL = "final"


class Judge(StrEnum):
    """Who judges: what was asked of the system, nothing excused, or as Jepsen does."""

    CONTRACT = "contract"
    STRICT = "strict"
    JEPSEN = "jepsen"


class Mode(StrEnum):
    """Who keeps a cluster's metadata: ZooKeeper, the brokers, controllers of their own; or who."""

    ZOOKEEPER = "zookeeper"
    COMBINED = "combined"
    CONTROLLERS = "controllers"
    HIDDEN = "hidden"
    """Nobody outside of the system knows."""


KNOWN_MODES = tuple(each for each in Mode if each is not Mode.HIDDEN)
"""What a system's name may end with."""
QUORUM_TOPIC = "__cluster_metadata"
"""The topic of the controllers' log; it has one partition, and is none of a plan's."""
REMADE_PREFIX = "__logquake-remade-"
"""What the names of topics begin with that faults make again, and that are judged."""


class Source(StrEnum):
    """Who tells a row of `leadership`."""

    LIST_OFFSETS = "list-offsets"
    """A broker that answers as the leader."""
    METADATA = "metadata"
    """What a broker believes."""
    ZOOKEEPER = "zookeeper"
    METADATA_LOG = "metadata-log"
    STATE_CHANGE_LOG = "state-change-log"
    """A line of a node's own log; so is the next."""
    SERVER_LOG = "server-log"


class CheckpointFile(StrEnum):
    """The files that a broker keeps beside its logs: the first in each log's folder."""

    EPOCHS = "leader-epoch-checkpoint"
    HIGH_WATERMARKS = "replication-offset-checkpoint"
    RECOVERY_POINTS = "recovery-point-offset-checkpoint"
    LOG_STARTS = "log-start-offset-checkpoint"


CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""A broker that has closed all its logs leaves this file, and removes it as it starts."""

OWN_LOGS = ("server.log", "state-change.log", "controller.log", "kraft.log")
"""The logs that a broker or controller of Kafka writes for people."""


class Rule(StrEnum):
    """By what a follower truncates its log before it follows: KIP-101 replaced the first."""

    HIGH_WATERMARK = "high-watermark"
    LEADER_EPOCH = "leader-epoch"
    LEADER_EPOCH_V0 = "leader-epoch-v0"


class Validity(StrEnum):
    """The three values of a verdict."""

    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"


class AnomalyClass(StrEnum):
    """What kind of promise an anomaly breaks; a harness anomaly is our own failing."""

    SAFETY = "safety"
    LIVENESS = "liveness"
    HARNESS = "harness"


OUTCOME_RANK = {Outcome.OK: 0, Outcome.FAIL: 1, Outcome.INFO: 2}
"""An op's outcome is the worst of its parts: ok < fail < info."""

VALIDITY_RANK = {Validity.VALID: 0, Validity.UNKNOWN: 1, Validity.INVALID: 2}
"""Verdicts are merged by the worst: valid < unknown < invalid."""
