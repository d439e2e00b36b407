"""Anomalies, and the verdict that results from them.

A checker yields `Anomaly` objects. The engine decides which anomalies the judge allows. The engine
trusts an anomaly if the checker's premises hold. It combines all anomalies into a `Verdict`, which
is stored as `verdict.json`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from results.record.terms import AnomalyClass, Validity

Evidence = dict[str, "int | str | bool | float | list[int] | list[str] | None"]
"""The facts behind an anomaly, as a flat JSON object: op ids, nodes, offsets, epochs, times."""

UNCOVERED = "uncovered"
"""A key of `Verdict.stats`. If transitions could not be computed, it says where and why."""
MAX_EXAMPLES = 10
"""Maximum number of examples of an anomaly in `verdict.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The description of an anomaly for new readers: `37 acknowledged writes were lost`.

    The module of a check defines these texts, and pages take them from `verdict.json`.

    Attributes:
        one: The event in the singular, without the number.
        many: The event in the plural, without the number.
        means: Meaning of the anomaly, as a full sentence.
        promise: The promise that the system, or Logquake itself, did not keep, as a sentence.
        uncounted: A text without a number, for anomalies whose number has no meaning; else empty.
        explains: Other anomalies that this anomaly causes, and why. `checkers.symptoms` lists the
            permitted names.
    """

    one: str
    many: str
    means: str
    promise: str = ""
    uncounted: str = ""
    explains: Mapping[str, str] = field(default_factory=dict)

    def counted(self, count: int) -> str:
        """Return the description with a number: `37 acknowledged writes were lost`."""
        return f"{count:,} {self.one if count == 1 else self.many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One violation at one place.

    Attributes:
        name: Name in the catalogue: `lost-write`.
        sentence: Description for people: the event, its place, and its observer.
        evidence: The facts behind the sentence, for machines and for verification.
        run_id, topic, topic_id, partition: Place of the anomaly. If the anomaly concerns the whole
            run, the texts are empty, and `partition` is -1.
        offset: The offset by which examples are ordered; -1 if there is none.
        excuses: Reasons that may allow the anomaly. They are names of rows in the contract's table,
            such as `acks-0-1`, `unclean-election`, `retries-without-idempotence` and
            `new-producer-epoch`.
        broken_premises: Premises of the checker that did not hold here. If there are any, the
            anomaly is not trusted.
        cause: Cause in one sentence without a capital letter; empty if unknown.
        reason: Facts about the cause from the anomaly's own rows. Other anomalies may add facts.
    """

    name: str
    sentence: str
    evidence: Evidence
    run_id: str = ""
    topic: str = ""
    topic_id: str = ""
    partition: int = -1
    offset: int = -1
    excuses: tuple[str, ...] = ()
    broken_premises: tuple[str, ...] = ()
    cause: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An anomaly as `verdict.json` stores it, with the judge's decision.

    Attributes:
        sentence: Description for people: the event, its place, and who observed it.
        evidence: The facts behind the sentence: op ids, nodes, offsets, epochs, times.
        topic: Topic of the anomaly; empty if the anomaly concerns the whole run.
        topic_id: Id of the topic; empty if the anomaly concerns the whole run.
        partition: Id of the partition; -1 if the anomaly concerns the whole run.
        offset: The offset of the first record concerned; -1 if there is none.
        allowed: Whether the judge allows the anomaly.
        trusted: Whether the premises of the check held.
        why: Reason why the anomaly is allowed, or why it is not trusted; else empty.
        cause: Cause in one sentence without a capital letter; empty if unknown.
    """

    sentence: str
    evidence: Evidence
    topic: str
    topic_id: str
    partition: int
    offset: int
    allowed: bool
    trusted: bool
    why: str
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalySummary:
    """All anomalies of one name.

    Attributes:
        anomaly_class: Safety, liveness, or Logquake's own.
        count: Number of anomalies.
        allowed: Number of anomalies that the judge allows.
        trusted: Number of anomalies for which the premises of the check held.
        examples: Examples, sorted by place and offset. Examples that decide the verdict come first.
    """

    anomaly_class: AnomalyClass
    count: int
    allowed: int
    trusted: int
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The number of comparisons that one check made.

    Attributes:
        check: Name of the check.
        rows: Number of comparisons that could have shown an anomaly.
        what: A noun for what was compared: `polled records`.
        from_ns: Start of the compared objects' time span; -1 if unknown.
        to_ns: End of that time span; -1 if unknown.
    """

    check: str
    rows: int
    what: str
    from_ns: int = -1
    to_ns: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The checks on which a verdict about one promise is based.

    Attributes:
        promise: The promise, as in `Verdict.guarantees`.
        given_up: Whether `promise` states that nothing is promised.
        compared: Comparisons of all applicable checks. Checks that had nothing to compare are
            included.
        unshown: Full sentences: which violations the run could not show, and why.
    """

    promise: str
    given_up: bool = False
    compared: tuple[Compared, ...] = ()
    unshown: tuple[str, ...] = ()

    @property
    def looked_at(self) -> bool:
        """Whether there was a comparison that could have shown that the promise is broken."""
        return any(each.rows for each in self.compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The contents of `verdict.json`.

    Attributes:
        run_id: Id of the run.
        valid: The verdict.
        judge: Name of the judge.
        engine: Name of the engine that ran the checks.
        anomalies: Anomalies by name.
        unknown_because: Full sentences that say why the verdict cannot be `valid`.
        guarantees: The promises that follow from the plan's configuration, in sentences.
        checked: For each check, the number of comparisons that could have shown an anomaly; None if
            the check does not apply.
        basis: For each promise, the comparisons, and the violations that the run could not show.
            Empty in old verdicts and for imported histories.
        words: The descriptions of the checks in `checked`, and the descriptions of the anomalies.
        reach: Limits of the verdict, in sentences about data or settings that could not be
            observed. Empty if there are no limits.
        ranked: Names of the anomalies, the most important first. In old verdicts, `words` and
            `ranked` are missing, so pages show names instead of descriptions.
        stats: Figures for people: ops by f and outcome, faults by kind, rates, times.
    """

    run_id: str
    valid: Validity
    judge: str
    engine: str
    anomalies: dict[str, AnomalySummary]
    unknown_because: tuple[str, ...] = ()
    guarantees: tuple[str, ...] = ()
    checked: dict[str, int | None] = field(default_factory=dict)
    basis: tuple[Basis, ...] = ()
    words: dict[str, Words] = field(default_factory=dict)
    ranked: tuple[str, ...] = ()
    reach: tuple[str, ...] = ()
    stats: dict[str, object] = field(default_factory=dict)

    def words_of(self, name: str) -> Words:
        """Return an anomaly's description; if there is none, a description made from the name."""
        return self.words.get(name) or Words(
            one=f"{name} anomaly", many=f"{name} anomalies", means=""
        )


def as_sentence(text: str) -> str:
    """Return a checker's sentence with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
