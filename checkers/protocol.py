"""The types that define a checker and its findings."""

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
"""The maximum number of anomalies of one checker and group that get a sentence and evidence.

Further anomalies are only counted.
"""


class Scope(StrEnum):
    """The kind of group that one call of a checker receives."""

    PARTITION = "partition"
    RUN = "run"
    QUORUM = "quorum"
    """The rows of the controllers' log. (`quorum_states` has no partition: it is in `RUN`.)"""
    REMADE = "remade"
    """A partition of a topic that a fault deleted and created again (`RunFacts.remade`)."""
    ACROSS = "across"
    """The rows that were derived from all partitions of a run (see `Derivation`)."""


class Premise(StrEnum):
    """A condition that must hold before an anomaly can prove a bug of the system under test."""

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
    KNOWN_EVENTS = "known-events"
    KNOWN_ENDS = "known-ends"


class Excuse(StrEnum):
    """The reasons why the plan, or a fault, permits an anomaly. The contract lists the reasons.

    The last two reasons are doubts: they permit nothing (`DISK_DOUBTS`).
    """

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
    """A guarantee that the system under test must keep, as a verdict lists it (`guarantees.py`)."""

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
    """Why an anomaly that was found during the run will still be true at the run's end."""

    TOLD = "told"
    """The anomaly follows from acknowledgements, reads and responses. The logs can only excuse the
    anomaly."""
    OBSERVED = "observed"
    """The anomaly follows only from responses to observers. The logs can only excuse the
    anomaly."""
    COPIED = "copied"
    """The anomaly follows from replicas' logs, and a copy of these logs is kept."""
    GONE = "gone"
    """The anomaly is a record that no replica's log contains, although all logs were read fully."""


class Waits(StrEnum):
    """Common reasons why a check must wait for the run's end."""

    BUDGET = "the check measures a time budget, in most checks from the last heal on"
    BEFORE = "the check compares with rows that have left the window"
    STOPPED = "the check needs the files of stopped nodes"
    LATER = "a later answer may still excuse the anomaly"
    CYCLES = "a cycle may involve all partitions and the whole run"


class During(StrEnum):
    """The phase of the run that a check's comparisons cover."""

    RUN = "run"
    """From the start of the first clients until the clients were stopped."""
    AFTER_HEAL = "after-heal"
    """From the last heal until clients were stopped."""
    AT_END = "at-end"
    """The content of the logs after the brokers had stopped."""


DISK_EXCUSES = (Excuse.POWER, Excuse.WIPE, Excuse.FLIP)
"""The excuses that apply if disk faults removed a record from every replica."""
DISK_DOUBTS: Mapping[Excuse, Premise] = {
    Excuse.UNCONFIRMED: Premise.KNOWN_LOSSES,
    Excuse.LAST_COPIES: Premise.KEPT_COPIES,
}
"""Losses that disk faults may have caused. The run's record does not confirm such a loss, so the
loss does not allow an anomaly. But the loss breaks the given premise, so the anomaly is not
trusted."""

Labels = tuple[tuple[str, ...], tuple[str, ...]]
"""The excuses (reasons that allow an anomaly), and the premises that are broken for the anomaly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of one call of a checker.

    Attributes:
        rows: The number of comparisons that could have failed. If it is 0, the checker could not
            find any anomaly.
        anomalies: The described anomalies, usually sorted by offset. There are at most
            `MAX_DESCRIBED`. If there are more anomalies, those without labels are described first.
        beyond: The number of further anomalies for each combination of labels.
        gaps: Sentences that name missing input. If there is a gap, the verdict is unknown at best.
        unshown: Sentences that say why a sound run could not show an anomaly. Example: "no send
            failed, so an aborted read could not be detected". If `rows` is 0 and `unshown` is
            empty, the verdict is unknown at best.
    """

    rows: int
    anomalies: tuple[Anomaly, ...] = ()
    beyond: Mapping[Labels, int] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()


class Proved(str):
    """A reason that fully explains an anomaly, so no other anomaly is named as its cause."""

    __slots__ = ()


def no_reason(_group: Group, _found: Anomaly) -> str:
    """Return an empty reason, for checks that find no reason or set the cause elsewhere."""
    return ""


def always(_facts: RunFacts) -> bool:
    """Return True: the check applies to every run."""
    return True


def _as_ever(_examples: Sequence[Example]) -> Words | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """One check.

    Attributes:
        name: The name of the anomaly that the check finds.
        anomaly_class: Safety, liveness, or Logquake's own.
        tables: The names of the tables that the check reads. For a check across partitions: the
            names of the derivations. A test verifies the list.
        check: The function that finds the anomalies.
        premises: Conditions that must hold in the whole run. `check` itself reports the conditions
            of a single anomaly.
        scope: The kind of group that one call receives.
        sees: The kinds of observation that the check needs, besides the clients' observations.
        applies: Whether a run's plan can produce input for the check.
        promise: The guarantee that the anomaly breaks. None if the system under test does not give
            such a guarantee.
        compares: A plural noun phrase for the report, which says what `rows` counts.
        during: The phase of the run that the check's comparisons cover.
        words: Texts about the anomaly for reports. If it is None, the texts come from
            the contract's check with the same name.
        told_as: A function that returns other texts if all given examples need them. It returns
            None if `words` fit.
        why: A function that returns the reason (`Anomaly.reason`) of an anomaly that has no cause
            yet. The function uses the rows of `tables`. It also names facts that the run's record
            does not contain. A `Proved` reason becomes the anomaly's cause.
        chapter: The table of `docs/checkers.md` that lists the check. None for Jepsen's checks.
        looks_for: A description for the table `chapter`: the anomaly, or the data that is compared.
        excuses: The excuses that may allow the check's anomalies.
        always_allowed: Whether no system promises to avoid this anomaly.
        meanwhile: Why an anomaly that was found during the run is still true at the run's end.
            None: the check waits for the end.
        waits: The reason why the check waits for the end.
        follows: The other anomalies that may cause this anomaly, each with the reason. Reasons that
            are in the other anomaly's `Words.explains` are not repeated here.
        of_histories: Whether the check needs only the clients' view. An imported history contains
            nothing else.
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
        """Return whether the run's plan and observations can give this check its input."""
        return self.sees <= facts.declared.sees and self.applies(facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The rows that are computed in each partition for a check that needs several partitions.

    Attributes:
        name: The name of the table in `Group.derived`.
        schema: The columns of the table.
        tables: The tables that `derive` reads.
        derive: The function that computes the rows.
        applies: Whether any check of the run needs the rows.
    """

    name: str
    schema: pa.Schema
    tables: tuple[str, ...]
    derive: Callable[[Group], pa.Table]
    applies: Callable[[RunFacts], bool] = always
