"""The enumerations of the record: every term that a column may contain."""

from enum import StrEnum

NO_HANDLE = "Too many open files"
"""The message for EMFILE in the C library, Java and Python (man 3 strerror)."""
UNMEASURED = "no effect could be measured in time"
"""The reason that is given if a fault began, but no check found its effect."""


class Outcome(StrEnum):
    """How an op ended. `fail` certainly had no effect; the effect of `info` is unknown."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class F(StrEnum):
    """The type of an op, Jepsen's `f`."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    SEEK = "seek"
    ACKNOWLEDGE = "acknowledge"
    CRASH = "crash"


class Isolation(StrEnum):
    """Isolation level: a consumer reads all records, or only records of committed transactions."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class AssignmentKind(StrEnum):
    """The way in which a consumer got or lost a partition."""

    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    REBALANCE_ASSIGNED = "rebalance-assigned"
    REBALANCE_REVOKED = "rebalance-revoked"
    SEEK = "seek"
    """The partition stays assigned, and the consumer reads from another offset."""


class GroupAct(StrEnum):
    """A member's request to its group's coordinator about the committed offset of a partition."""

    COMMIT = "commit"
    FETCH = "fetch"


class ShareAct(StrEnum):
    """An event of a record in a share group: its delivery, or the member's acknowledgement."""

    DELIVER = "deliver"
    ACCEPT = "accept"
    RELEASE = "release"
    """The record will be delivered again."""
    REJECT = "reject"


class Decision(StrEnum):
    """A client's decision on its transaction. Kafka aborts a transaction without a decision."""

    COMMIT = "commit"
    ABORT = "abort"


class TransactionOutcome(StrEnum):
    """The coordinator's response to the client's decision."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """The phase of a run in which an op was invoked."""

    WARMUP = "warmup"
    MAIN = "main"
    RECOVERY = "recovery"
    FINAL = "final"


class Judge(StrEnum):
    """The rules by which a run is judged.

    `contract` checks the promises that follow from the plan's settings. `strict` allows an anomaly
    only if no system promises to prevent it. `jepsen` follows the rules of Jepsen's checker.
    """

    CONTRACT = "contract"
    STRICT = "strict"
    JEPSEN = "jepsen"


class Mode(StrEnum):
    """Where a cluster keeps its metadata: ZooKeeper, the brokers, or separate controllers."""

    ZOOKEEPER = "zookeeper"
    COMBINED = "combined"
    CONTROLLERS = "controllers"
    HIDDEN = "hidden"
    """The system does not show where it keeps its metadata."""


KNOWN_MODES = tuple(each for each in Mode if each is not Mode.HIDDEN)
"""Modes with which the name of a system may end."""
QUORUM_TOPIC = "__cluster_metadata"
"""Topic of the controllers' log. The topic has one partition, and no plan contains it."""
REMADE_PREFIX = "__logquake-remade-"
"""Prefix of the topics that faults delete and create again, and that the judge checks."""


class Source(StrEnum):
    """The source of a row in the table `leadership`."""

    LIST_OFFSETS = "list-offsets"
    """A broker that responds as the leader."""
    METADATA = "metadata"
    """A broker's own view of the leader."""
    ZOOKEEPER = "zookeeper"
    METADATA_LOG = "metadata-log"
    STATE_CHANGE_LOG = "state-change-log"
    """A line in the state change log of a node."""
    SERVER_LOG = "server-log"


class CheckpointFile(StrEnum):
    """The files that a broker keeps next to its logs. The first one is in each log's folder."""

    EPOCHS = "leader-epoch-checkpoint"
    HIGH_WATERMARKS = "replication-offset-checkpoint"
    RECOVERY_POINTS = "recovery-point-offset-checkpoint"
    LOG_STARTS = "log-start-offset-checkpoint"


CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""A broker writes this file after it has closed all its logs, and removes it at its next start."""

OWN_LOGS = ("server.log", "state-change.log", "controller.log", "kraft.log")
"""Log files that a Kafka broker or controller writes for people."""


class Rule(StrEnum):
    """The rule by which a follower truncates its log before it fetches (KIP-101 changed it)."""

    HIGH_WATERMARK = "high-watermark"
    LEADER_EPOCH = "leader-epoch"
    LEADER_EPOCH_V0 = "leader-epoch-v0"


class Validity(StrEnum):
    """The three values of a verdict."""

    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"


class AnomalyClass(StrEnum):
    """The kind of promise that an anomaly breaks. `harness` means an error of Logquake itself."""

    SAFETY = "safety"
    LIVENESS = "liveness"
    HARNESS = "harness"


OUTCOME_RANK = {Outcome.OK: 0, Outcome.FAIL: 1, Outcome.INFO: 2}
"""An op's outcome is the worst of its messages' outcomes: ok < fail < info."""

VALIDITY_RANK = {Validity.VALID: 0, Validity.UNKNOWN: 1, Validity.INVALID: 2}
"""If there are several verdicts, only the worst counts: valid < unknown < invalid."""
