"""Anomalies, and the verdict that results from them.

A checker yields `Anomaly` objects. The engine decides which anomalies the judge allows. It trusts
an anomaly if the checker's premises hold. It sums up all anomalies as a `Verdict`, stored as
`verdict.json`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from results.record.terms import AnomalyClass, Validity

Evidence = dict[str, "int | str | bool | float | list[int] | list[str] | None"]
"""The facts behind an anomaly: op ids, nodes, offsets, epochs, times. A flat JSON object."""

UNCOVERED = "uncovered"
"""A key of `Verdict.stats`: place and reason of the error, if transitions were not computed."""
MAX_EXAMPLES = 10
"""Maximum number of examples of an anomaly in `verdict.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The description of an anomaly for new readers: `37 acknowledged writes were lost`.

    A check's own module defines these texts, and `verdict.json` carries them to every page.

    Attributes:
        one: The event in the singular, without the number.
        many: The event in the plural, without the number.
        means: Meaning of the anomaly, as a full sentence.
        promise: The broken promise of the system, or of Logquake itself, as a sentence.
        uncounted: Text without a number, if the number has no meaning; else empty.
        explains: Other anomalies that follow from this one, each with the reason
            (`checkers.symptoms` lists the permitted ones).
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
        run_id, topic, topic_id, partition: Place of the anomaly; empty and -1 for a whole run.
        offset: The offset by which examples are ordered; -1 if there is none.
        excuses: Names of rows in the contract's table that would allow the anomaly (`acks-0-1`,
            `unclean-election`, `retries-without-idempotence`, `new-producer-epoch`, ...).
        broken_premises: Premises of the checker that did not hold here. If there are any, the
            anomaly is not trusted.
        cause: Cause in one sentence without a capital letter; empty if unknown.
        reason: Facts about the cause from this anomaly's rows; other anomalies may complete them.
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
        topic: Topic of the anomaly; empty for a whole run.
        topic_id: Id of the topic; empty for a whole run.
        partition: Number of the partition; -1 for a whole run.
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
        examples: Examples by place and offset; those that decide the verdict come first.
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
        rows: Number of comparisons that could have failed.
        what: Noun for the compared objects: `polled records`.
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
    """The checks behind a verdict, for one promise.

    Attributes:
        promise: The promise, as in `Verdict.guarantees`.
        given_up: Whether `promise` states that nothing is promised.
        compared: Comparisons of all applicable checks, including checks without rows.
        unshown: Full sentences about violations that the run could not show, with reasons.
    """

    promise: str
    given_up: bool = False
    compared: tuple[Compared, ...] = ()
    unshown: tuple[str, ...] = ()

    @property
    def looked_at(self) -> bool:
        """Whether any comparison could have shown that the promise is broken."""
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
        unknown_because: Full sentences with reasons why the verdict cannot be `valid`.
        guarantees: The promises that follow from the plan's configuration, in sentences.
        checked: For each check, the number of comparisons that could have failed; None if the check
            does not apply.
        basis: For each promise, the comparisons, and the violations that the run could not show;
            empty in old verdicts and for imported histories.
        words: Descriptions of each check in `checked` and of each anomaly.
        reach: Limits of the verdict, in sentences: data or settings that could not be observed;
            empty if there are none.
        ranked: Names of the anomalies, the most important first. Old verdicts lack `words` and
            `ranked`, so names replace descriptions.
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
        """Return the description of an anomaly; if there is none, make one from its name."""
        return self.words.get(name) or Words(
            one=f"{name} anomaly", many=f"{name} anomalies", means=""
        )


def as_sentence(text: str) -> str:
    """Return a checker's sentence with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
