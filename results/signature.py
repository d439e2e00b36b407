"""The signature of a failure. The same failure has the same signature in all runs.

A signature consists of anomaly names, place and fault families. It contains nothing random: no
offset, value, time, id, partition or topic. It also leaves out an anomaly that is a symptom of
another anomaly. For example, a lost write leaves a gap in the offsets, but only chance decides
whether a reader notices the gap. The faults are the families that the plan requested, not the
faults chosen from the seed. So an entry of a suite has the same faults with every seed.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from results.record.plan import NEMESIS_KINDS, Plan
from results.record.terms import QUORUM_TOPIC, AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Verdict, Words, as_sentence
from results.wording.headline import counting, decides, ranked_anomalies
from results.wording.inert import inert
from results.wording.reasons import heaviest_reason

KEY_DIGITS = 12
OTHERWISE = "otherwise"
"""Signature of a scripted run that kept every promise, but did not end as its scenario expects."""
CLUSTER, TOPICS, QUORUM = "cluster", "topics", "quorum"
"""Places in a failure's signature: the whole run, any topic's partition, the controllers' log. The
place of a scripted run is its scenario."""

USUAL_KINDS = frozenset(NEMESIS_KINDS) - {"keeper", "keeper-links"}
"""The fault families that also work without ZooKeeper. If a plan has all of them, texts say "all
kinds"."""
_REASON_CHARACTERS = 90

_CHANCE = re.compile(r"\S*\d\S*")
"""A word with a digit in it: a number, a node, a partition, an id, a time, a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a failure; equal signatures mean the same failure.

    Attributes:
        anomalies: Sorted names of the anomalies that do not follow from other anomalies. For an
            unknown verdict: the kind of the main reason why it is unknown.
        place: `topics`, `quorum`, `cluster`, or the name of the scenario.
        faults: Sorted fault families that the plan requested. For handwritten faults: their kinds.
        terms: Settings that weaken the promises: `acks=1`, `unclean election`. So a loss with these
            settings, and a loss without them, have different signatures.
        words: Descriptions of the anomalies, by name. `sentence` uses these descriptions, but `key`
            does not.
    """

    anomalies: tuple[str, ...]
    place: str
    faults: tuple[str, ...]
    terms: tuple[str, ...] = ()
    words: Mapping[str, Words] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """Twelve hex digits that are equal for the same failure in any run."""
        text = json.dumps([self.anomalies, self.place, self.faults, self.terms])
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:KEY_DIGITS]

    @property
    def sentence(self) -> str:
        """The failure as a sentence: `Acknowledged writes were lost in a topic, under isolate.`."""
        what = "; ".join(_told(each, self.words.get(each)) for each in self.anomalies)
        where = _PLACES.get(self.place, f"in the story {self.place}")
        terms = f"with {_enumerated(self.terms)}" if self.terms else ""
        when = f"under {_enumerated(self.faults)}" if self.faults else "without faults"
        told = " ".join(filter(None, (what, where)))
        return as_sentence(", ".join(filter(None, (told, terms, when))))


_PLACES = {TOPICS: "", QUORUM: "in the quorum's log", CLUSTER: ""}
_OTHER_END = "another result than the one that the story describes"


def signature_of(
    verdict: Verdict, plan: Plan | None, faults: Iterable[str], *, as_told: bool | None = None
) -> Signature | None:
    """Return the signature of a run's failure, or None if the run did not fail.

    An anomaly that a scenario intends to show is not a failure. The absence of such an anomaly is a
    failure. An interrupted run without enough activity is not a failure.

    Args:
        verdict: Verdict of the run.
        plan: Plan of the run; None if it cannot be read.
        faults: Fault kinds that took effect. They are used only if the run is scripted or
            has no readable plan.
        as_told: Whether a scripted run ended as expected; None for an ordinary run, or if this is
            unknown.
    """
    if as_told:
        return None
    anomalies: tuple[str, ...]
    match verdict.valid:
        case Validity.VALID if as_told is None:
            return None
        case Validity.VALID:
            anomalies, place = (OTHERWISE,), CLUSTER
        case Validity.UNKNOWN if "interrupted_at_s" in verdict.stats:
            return None  # The user ended the run and knows why.
        case Validity.UNKNOWN:
            anomalies, place = _reasons(verdict), CLUSTER
        case Validity.INVALID:
            broken = _broken_promises(verdict)
            anomalies, place = tuple(sorted(broken)), _place(broken.values())
    scenario = plan.scenario if plan else None
    return Signature(
        anomalies=anomalies,
        place=scenario.name if scenario else place,
        faults=_faults(plan, faults),
        terms=_terms(plan) if plan else (),
        words={name: verdict.words[name] for name in anomalies if name in verdict.words},
    )


def class_of(verdict: Verdict, *, as_told: bool | None = None) -> str:
    """Return the verdict's class: safety, liveness, harness or unknown; "" if it is valid.

    A valid scripted run that did not end as expected has the class unknown.
    """
    match verdict.valid:
        case Validity.VALID:
            return "" if as_told is not False else Validity.UNKNOWN.value
        case Validity.UNKNOWN:
            harness = any(each.anomaly_class is AnomalyClass.HARNESS for each in _found(verdict))
            return AnomalyClass.HARNESS.value if harness else Validity.UNKNOWN.value
        case Validity.INVALID:
            classes = {each.anomaly_class for each in _broken_promises(verdict).values()}
            worst = AnomalyClass.SAFETY if AnomalyClass.SAFETY in classes else AnomalyClass.LIVENESS
            return worst.value


def _found(verdict: Verdict) -> list[AnomalySummary]:
    return [each for each in verdict.anomalies.values() if each.count]


def deciding_anomalies(verdict: Verdict) -> dict[str, AnomalySummary]:
    """Return the anomalies that decide a verdict, the most serious first."""
    judged = {
        name: each
        for name, each in ranked_anomalies(verdict)
        if each.anomaly_class is not AnomalyClass.HARNESS and counting(each) and each.trusted
    }
    # If an anomaly has very many examples, the deciding ones may not be stored.
    return {name: each for name, each in judged.items() if decides(each)} or judged


def _broken_promises(verdict: Verdict) -> dict[str, AnomalySummary]:
    """Return the anomalies that decide a verdict, without symptoms of other anomalies."""
    decisive = deciding_anomalies(verdict)
    safety = {
        name: each for name, each in decisive.items() if each.anomaly_class is AnomalyClass.SAFETY
    }
    # A cluster that breaks a safety promise may also recover slowly, but this is random.
    return _without_symptoms(safety or decisive, verdict)


def _without_symptoms(
    anomalies: dict[str, AnomalySummary], verdict: Verdict
) -> dict[str, AnomalySummary]:
    """Remove each anomaly that a more serious anomaly explains.

    But an anomaly in the controllers' log never explains an anomaly in a topic's log, and vice
    versa.
    """
    kept: dict[str, AnomalySummary] = {}
    places: dict[str, list[str]] = {}
    for name, summary in anomalies.items():
        here = _place([summary])
        if reason_for(name, places.get(here, ()), verdict.words) is None:
            kept[name] = summary
            places.setdefault(here, []).append(name)
    return kept


def reason_for(
    symptom: str, roots: Iterable[str], words: Mapping[str, Words]
) -> tuple[str, str] | None:
    """Return (root, reason): the first root that explains a symptom; None if there is none."""
    return next(
        (
            (root, words[root].explains[symptom])
            for root in roots
            if root in words and symptom in words[root].explains
        ),
        None,
    )


def _place(broken: Iterable[AnomalySummary]) -> str:
    topics = {example.topic for each in broken for example in each.examples}
    if topics - {"", QUORUM_TOPIC}:
        return TOPICS
    return QUORUM if QUORUM_TOPIC in topics else CLUSTER


def _reasons(verdict: Verdict) -> tuple[str, ...]:
    """Return the kind of the main reason for an unknown verdict."""
    return (_reason_kind(heaviest_reason(verdict)),)


def _reason_kind(sentence: str) -> str:
    head, *rest = sentence.split(": ")
    # After "failed", the text behind the colon names the kind. Otherwise the text before it does.
    told = ": ".join([head, *rest[:2]]) if head.endswith("failed") else head
    clause = re.split(r'[;("\n]|, so that', told, maxsplit=1)[0]
    kind = inert(_CHANCE.sub("…", clause).strip(" ,:"))
    if len(kind) > _REASON_CHARACTERS:
        kind = kind[:_REASON_CHARACTERS].rpartition(" ")[0] or kind[:_REASON_CHARACTERS]
    return kind or "no reason given"


def _terms(plan: Plan) -> tuple[str, ...]:
    terms = []
    if plan.acks != "all":
        terms.append(f"acks={plan.acks}")
    if plan.unclean_elections:
        terms.append("unclean elections")
    return tuple(terms)


def _faults(plan: Plan | None, seen: Iterable[str]) -> tuple[str, ...]:
    if plan is None or plan.scenario is not None:
        return tuple(sorted(set(seen)))
    if plan.faults is not None:
        return tuple(sorted({fault.kind for fault in plan.faults}))
    return tuple(sorted(set(plan.nemesis)))


def _told(name: str, words: Words | None) -> str:
    if words is None:
        return _OTHER_END if name == OTHERWISE else name
    return words.uncounted or words.many


def _enumerated(names: tuple[str, ...]) -> str:
    if set(names) >= USUAL_KINDS:
        return "faults of all kinds"
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
