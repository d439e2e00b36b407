"""The signature of a failure: what makes two runs' failures the same one, over many nights.

Anomaly kinds, place and fault kinds, and nothing that varies by chance: no offset, value, time, id,
no particular partition or topic. Nor which symptoms of one cause happened to be seen: where a write
was lost, the gap in the offsets is its consequence, and whether some reader stood there is luck.
Nor which faults the seed dealt: the families that the plan asked for are in it, so that the same
entry of a suite has the same faults with every seed.
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
"""What is filed of a story in which every promise was kept, and that did not end as it is told."""
CLUSTER, TOPICS, QUORUM = "cluster", "topics", "quorum"
"""Places: of the whole run, of some partition, of the controllers' log. A scripted run's place is
its story."""

USUAL_KINDS = frozenset(NEMESIS_KINDS) - {"keeper", "keeper-links"}
"""Those that need no ZooKeeper: a plan that has them has them all, for people."""
_REASON_CHARACTERS = 90

_CHANCE = re.compile(r"\S*\d\S*")
"""A word with a digit in it: a number, a node, a partition, an id, a time, a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a failure is filed under.

    Attributes:
        anomalies: The promises that were broken, without their symptoms; of an unknown verdict the
            kinds of its reasons. Sorted.
        place: `topics`, `quorum`, `cluster`, or the name of the story.
        faults: Families that the plan asked for; kinds where they were written by hand. Sorted.
        terms: What was asked of the system that weakens its promises: `acks=1`, `unclean election`.
            A loss under such terms must never pass for one that was seen before under full ones.
        words: Of the anomalies, by name; the sentence is made of them, the key is not.
    """

    anomalies: tuple[str, ...]
    place: str
    faults: tuple[str, ...]
    terms: tuple[str, ...] = ()
    words: Mapping[str, Words] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """Twelve hex digits, the same wherever and whenever the same failure is seen."""
        text = json.dumps([self.anomalies, self.place, self.faults, self.terms])
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:KEY_DIGITS]

    @property
    def sentence(self) -> str:
        """For people: `Acknowledged writes were lost in a topic, with acks=1, under isolate.`."""
        what = "; ".join(_told(each, self.words.get(each)) for each in self.anomalies)
        where = _PLACES.get(self.place, f"in the story {self.place}")
        terms = f"with {_enumerated(self.terms)}" if self.terms else ""
        when = f"under {_enumerated(self.faults)}" if self.faults else "without faults"
        told = " ".join(filter(None, (what, where)))
        return as_sentence(", ".join(filter(None, (told, terms, when))))


_PLACES = {TOPICS: "", QUORUM: "in the quorum's log", CLUSTER: ""}
_OTHER_END = "another end than the one that is told"


def signature_of(
    verdict: Verdict, plan: Plan | None, faults: Iterable[str], *, as_told: bool | None = None
) -> Signature | None:
    """Return what a run's failure is filed under; None if it did not fail.

    What a story sets out to show is no failure; that it does not show it is one. That a run which
    was interrupted shows too little is none.

    Args:
        verdict: Of the run.
        plan: Of the run; None if it cannot be read.
        faults: The kinds of faults that took effect, by the record: these are the signature's in a
            scripted run, and where there is no plan.
        as_told: Whether a story ended as it is told; None: there is none, or nobody compared.
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
            return None  # Who ended it knows why.
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
    """Return the verdict's class: safety, liveness, harness, unknown; empty if it is valid.

    A story that did not end as it is told is unknown at best.
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
    """Return the anomalies that decide a verdict, those that weigh most first."""
    judged = {
        name: each
        for name, each in ranked_anomalies(verdict)
        if each.anomaly_class is not AnomalyClass.HARNESS and counting(each) and each.trusted
    }
    # Of very many of one name, those that decide may be among the ones that are not described.
    return {name: each for name, each in judged.items() if decides(each)} or judged


def _broken_promises(verdict: Verdict) -> dict[str, AnomalySummary]:
    """Return the anomalies that decide a verdict, without the symptoms of others of them."""
    decisive = deciding_anomalies(verdict)
    safety = {
        name: each for name, each in decisive.items() if each.anomaly_class is AnomalyClass.SAFETY
    }
    # A cluster that breaks a promise may be slow to recover, or not: that is luck, too.
    return _without_symptoms(safety or decisive, verdict)


def _without_symptoms(
    anomalies: dict[str, AnomalySummary], verdict: Verdict
) -> dict[str, AnomalySummary]:
    """Go from what weighs most to what weighs least; what explains another keeps it out.

    What is wrong in the controllers' log explains nothing in a topic's, nor the other way round.
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
    """Return (root, why) of the first root that explains a symptom; None: it has its own cause."""
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
    """Return the kind of what keeps a run from a verdict."""
    return (_reason_kind(heaviest_reason(verdict)),)


def _reason_kind(sentence: str) -> str:
    head, *rest = sentence.split(": ")
    # What failed is told behind the colon; of other sentences the head tells the kind.
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
