"""What a checker is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from checkers.facts import RunFacts
from checkers.group import Group
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Example, Words

MAX_DESCRIBED = 100
"""So many anomalies of a checker and group get a sentence and evidence; the rest are counted."""


class Scope(StrEnum):
    """What one call of a checker is given."""

    PARTITION = "partition"
    RUN = "run"
    QUORUM = "quorum"
    """The controllers' log, like a partition's rows, and with them `quorum_states`."""
    REMADE = "remade"
    """A partition of a topic that a fault made again: `RunFacts.remade`."""
    ACROSS = "across"
    """What was derived of all partitions of a run: see `Derivation`."""


class Premise(StrEnum):
    """What must hold for an anomaly to prove anything about the system under test."""

    WELL_FORMED = "well-formed-history"
    WHOLE_RECORD = "whole-record"
    READABLE_LOGS = "readable-final-logs"
    RECOVERED = "recovered"
    AWAKE = "awake"
    KNOWN_PLAN = "known-plan"
    WHOLE_STORY = "whole-story"
    KNOWN_MOVES = "known-moves"
    KNOWN_LOSSES = "known-losses"
    KEPT_COPIES = "kept-copies"
    KNOWN_CAUSE = "known-cause"
    SHOWN_CAUSE = "shown-cause"
    UNDISTURBED = "undisturbed"


class Excuse(StrEnum):
    """The rows of the contract's table: what was asked of the system, and so may happen."""

    ALWAYS = "always"
    ACKS = "acks-0-1"
    UNCLEAN = "unclean-election"
    RETRIES = "retries-without-idempotence"
    NEW_EPOCH = "new-producer-epoch"
    SEQUENCE = "sequence-used-twice"
    POWER = "power-loss"
    WIPE = "wipe"
    FLIP = "bit-flip"
    REUSED = "reused-epoch"
    REBALANCE = "rebalance"
    UNCONFIRMED = "unconfirmed-fault"
    LAST_COPIES = "last-copies"


class Promise(StrEnum):
    """What a run's system has to keep, as a verdict lists it (`checkers/guarantees.py`)."""

    STORED = "stored"
    LEADERS = "leaders"
    ONCE = "once"
    LOG = "log"
    EPOCHS = "epochs"
    TRANSACTIONS = "transactions"
    GROUPS = "groups"
    SERVERS = "servers"
    CLIENTS = "clients"
    RECOVERY = "recovery"


class Chapter(StrEnum):
    """The table of `docs/checkers.md` that lists a check."""

    CLIENTS = "clients"
    ORDER = "order"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    REPLICAS = "replicas"
    CONTROLLERS = "controllers"
    LIVENESS = "liveness"
    HARNESS = "harness"


class Proof(StrEnum):
    """Why an anomaly of an unfinished record stands at its end, too."""

    TOLD = "told"
    """It rests on acknowledgements, reads and answers: the logs serve for excuses only."""
    OBSERVED = "observed"
    """The same, and only on what observers were answered."""
    COPIED = "copied"
    """It rests on replicas' logs, of which a copy is kept."""
    GONE = "gone"
    """It rests on what no replica's log has, though each was read to its end afterwards."""


class Waits(StrEnum):
    """Reasons that several checks have to wait for the end of the record."""

    BUDGET = "its budget counts from the last heal"
    BEFORE = "it compares with rows that have left the window"
    STOPPED = "it needs the files of stopped nodes"
    LATER = "an answer that excuses it may still come"
    CYCLES = "a cycle goes through all partitions and the whole run"


class During(StrEnum):
    """From when what a check compares is."""

    RUN = "run"
    """From the first clients until they were stopped."""
    AFTER_HEAL = "after-heal"
    """From the last heal until clients were stopped."""
    AT_END = "at-end"
    """What lay in the logs when the brokers had stopped."""


DISK_EXCUSES = (Excuse.POWER, Excuse.WIPE, Excuse.FLIP)
"""One row of that table: what every replica that could have held a record lost."""
DISK_DOUBTS: Mapping[Excuse, Premise] = {
    Excuse.UNCONFIRMED: Premise.KNOWN_LOSSES,
    Excuse.LAST_COPIES: Premise.KEPT_COPIES,
}
"""No rows of that table: what a fault of disks may have cost, and nobody can tell. These do not
allow an anomaly; they take its trust."""

Labels = tuple[tuple[str, ...], tuple[str, ...]]
"""Excuses and broken premises of an anomaly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one call of a checker found.

    Attributes:
        rows: How many comparisons it made that could have failed; 0 means that no anomaly could
            have shown, whatever the brokers did.
        anomalies: By offset, at most `MAX_DESCRIBED`.
        beyond: How many more there are, by their labels.
        gaps: Sentences on what it would have needed and was not there; any makes the verdict
            unknown at best.
        unshown: Sentences on what this run could not show, and why, though nothing is wrong with
            it: "no send failed, so an aborted read could not show". Without rows and without
            these, the verdict is unknown at best.
    """

    rows: int
    anomalies: tuple[Anomaly, ...] = ()
    beyond: Mapping[Labels, int] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()


class Proved(str):
    """A reason that is the whole cause: no other anomaly's cause adds to it."""

    __slots__ = ()


def no_reason(_group: Group, _found: Anomaly) -> str:
    """Return no cause: the check gives its anomalies their own, or has none to give."""
    return ""


def always(_facts: RunFacts) -> bool:
    """Tell that a check applies to every run."""
    return True


def _as_ever(_examples: Sequence[Example]) -> Words | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """One check.

    Attributes:
        name: Of the anomaly that it finds.
        anomaly_class: Safety, liveness, or the harness's own.
        tables: What it reads of its group (across partitions: which derivations); a test holds it
            to that.
        check: The kernel.
        premises: What must hold in the whole run; local ones are the kernel's to note.
        scope: What one call is given.
        sees: What must be seen of the system, beyond its clients.
        applies: Whether the plan of a run can feed it at all.
        promise: Which one an anomaly breaks; None: none of the system's.
        compares: What one of its `rows` is, for people, in the plural.
        during: From when that is.
        words: The anomaly for people; None: as the contract's check of that name has them.
        told_as: Other words for what all of these examples show; None: `words` fit.
        why: The reason of one of its anomalies that has no cause yet, from the rows of its group
            (those of `tables`), as `Anomaly.reason`; it names what the record lacks. If it is
            `Proved`, it becomes the anomaly's cause.
        chapter: Which table of `docs/checkers.md` lists it; None: it is Jepsen's.
        looks_for: What is an anomaly, or what is compared, as that table has it.
        excuses: The rows of the contract's table that allow it where its kernel notes them.
        always_allowed: Whether nobody promises that it does not happen.
        meanwhile: Why what it finds in an unfinished record stands; None: it waits for the end.
        waits: Then: the reason.
        follows: Which other anomalies may bring it about by themselves, and why. What a root says
            in its `Words.explains` is not repeated here.
        of_histories: Whether what clients saw is enough for it, as in a history of others.
    """

    name: str
    anomaly_class: AnomalyClass
    tables: tuple[str, ...]
    check: Callable[[Group], Findings]
    premises: tuple[Premise, ...] = (Premise.WELL_FORMED,)
    scope: Scope = Scope.PARTITION
    sees: frozenset[Sight] = frozenset()
    applies: Callable[[RunFacts], bool] = always
    promise: Promise | None = None
    compares: str = "rows"
    during: During = During.RUN
    words: Words | None = None
    told_as: Callable[[Sequence[Example]], Words | None] = _as_ever
    why: Callable[[Group, Anomaly], str] = no_reason
    chapter: Chapter | None = None
    looks_for: str = ""
    excuses: frozenset[Excuse] = frozenset()
    always_allowed: bool = False
    meanwhile: Proof | None = None
    waits: str = ""
    follows: Mapping[str, str] = field(default_factory=dict)
    of_histories: bool = False

    def fits(self, facts: RunFacts) -> bool:
        """Tell whether a run's plan can feed it, and its system shows what it needs."""
        return self.sees <= facts.declared.sees and self.applies(facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """What is worked out in each partition for a check that needs more than one of them.

    Attributes:
        name: Of the table in `Group.derived`.
        schema: Its columns.
        tables: What it reads of its group.
        derive: Gives its rows.
        applies: Whether any check of the run needs it.
    """

    name: str
    schema: pa.Schema
    tables: tuple[str, ...]
    derive: Callable[[Group], pa.Table]
    applies: Callable[[RunFacts], bool] = always
