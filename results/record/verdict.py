"""Anomalies and the verdict that they add up to.

A checker yields `Anomaly` objects; the engine decides which of them are allowed by the judge and
trusted by their premises, and sums them up as a `Verdict`, which is `verdict.json`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from results.record.terms import AnomalyClass, Validity

Evidence = dict[str, "int | str | bool | float | list[int] | list[str] | None"]
"""What an anomaly rests on: op ids, nodes, offsets, epochs, times. Flat, and JSON as it stands."""

UNCOVERED = "uncovered"
"""The key of `Verdict.stats` that says where, and why, nobody knows what was reached."""
MAX_EXAMPLES = 10
"""So many examples of an anomaly are kept in `verdict.json`, the first by place and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """An anomaly for those who meet it for the first time: `37 acknowledged writes were lost`.

    They stand in the check's own module, and `verdict.json` carries them to every page.

    Attributes:
        one, many: What happened once, and several times, without the number.
        means: What it means, as a whole sentence.
        promise: What the system, or Logquake itself, has to keep, as a sentence.
        uncounted: What is there or not, however often; empty where a count says something.
        explains: What else is seen, or not, where this promise was broken: anomaly and reason
            (`checkers.symptoms` says what may stand here).
    """

    one: str
    many: str
    means: str
    promise: str = ""
    uncounted: str = ""
    explains: Mapping[str, str] = field(default_factory=dict)

    def counted(self, count: int) -> str:
        """Return the sentence with its number."""
        return f"{count:,} {self.one if count == 1 else self.many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One thing that is wrong at one place.

    Attributes:
        name: As in the catalogue: `lost-write`.
        sentence: For people: what, where, who saw it.
        evidence: For machines, and for those who do not believe the sentence.
        run_id, topic, topic_id, partition: Where; empty and -1 for a whole run.
        offset: Orders examples; -1 where there is none.
        excuses: Names of the rows of the contract's table that would allow it (`acks-0-1`,
            `unclean-election`, `retries-without-idempotence`, `new-producer-epoch`, ...).
        broken_premises: Premises of the checker that did not hold here; any makes it untrusted.
        cause: Why it came so, for people, in one sentence without a capital; empty if unknown.
        reason: What the rows of its place show of its cause, where another anomaly may add to it.
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
    """An anomaly as `verdict.json` shows it, with what the judge made of it."""

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
    """All anomalies of one name: how many, how many of them allowed, how many trusted."""

    anomaly_class: AnomalyClass
    count: int
    allowed: int
    trusted: int
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What one check compared.

    Attributes:
        check: Its name.
        rows: How many comparisons could have failed.
        what: What they are, for people: `polled records`.
        from_ns, to_ns: From when to when that is; -1 if unknown.
    """

    check: str
    rows: int
    what: str
    from_ns: int = -1
    to_ns: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a verdict rests on where one promise is concerned.

    Attributes:
        promise: As `Verdict.guarantees` has it.
        given_up: Whether it says that nothing is promised.
        compared: By the checks that apply, those without rows too.
        unshown: Whole sentences: what the run could not show, and why.
    """

    promise: str
    given_up: bool = False
    compared: tuple[Compared, ...] = ()
    unshown: tuple[str, ...] = ()

    @property
    def looked_at(self) -> bool:
        """Whether anything that was compared could have shown the promise broken."""
        return any(each.rows for each in self.compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `verdict.json` holds.

    Attributes:
        run_id: Whose.
        valid: The verdict.
        judge, engine: Who judged, and with which engine.
        anomalies: By name.
        unknown_because: Whole sentences: why the verdict cannot be `valid`.
        guarantees: What the plan's configuration promises, in sentences.
        checked: For each check how many comparisons could have failed, or None where it is not
            applicable.
        basis: The same by guarantee, with what could not show; empty in verdicts of before it was
            told, and of histories.
        words: Of each check in `checked`, and of each anomaly.
        reach: How far it reaches, in sentences: what cannot be seen of the system, or could not be
            read of its settings; empty where all could.
        ranked: The anomalies' names in the order in which a reader should see them. Verdicts of
            before words and order were carried have neither: there names stand for words.
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
        """Return the words of an anomaly; of one that has none here, its name."""
        return self.words.get(name) or Words(
            one=f"{name} anomaly", many=f"{name} anomalies", means=""
        )


def as_sentence(text: str) -> str:
    """Return a checker's sentence with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
