"""Decide the verdict: which anomalies are allowed, and which can be trusted.

A judge reports every anomaly that its checkers find. The judge `jepsen` has its own checkers
(`registry.py`). The judge decides which anomalies count (`checkers.contract`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from checkers.basis import bases, says_why, unseen_by, was_written
from checkers.contract import REASONS, allowed, doubts
from checkers.facts import NOTED, RunFacts
from checkers.guarantees import guarantees
from checkers.protocol import Checker, During, Premise, Waits
from checkers.registry import CHECKERS, JEPSENS, checkers_of
from checkers.runner import CheckResult
from checkers.telling import ranked, with_causes, words_of
from checkers.weakest import unread_sentences
from results.record.declared import Sight, reach_without
from results.record.milestones import INTERRUPTED, STOPPED_ON
from results.record.terms import AnomalyClass, Judge, Validity
from results.record.verdict import (
    MAX_EXAMPLES,
    Anomaly,
    AnomalySummary,
    Example,
    Verdict,
    Words,
    as_sentence,
)

Place = tuple[str, str, int]
"""(topic, topic_id, partition); empty and -1 for a whole run."""

_PREMISE_SENTENCES = {
    Premise.WELL_FORMED.value: "the history is malformed",
    Premise.WHOLE_RECORD.value: "a stream of the run's record is cut off, so rows may be missing",
    Premise.READABLE_LOGS.value: "a replica's files could not be read to their end",
    Premise.KNOWN_PLAN.value: ("the run's plan could not be read, so its promises are unknown"),
    Premise.WHOLE_STORY.value: (
        "the scenario did not reach its end, but its judge needs the complete scenario"
    ),
    Premise.KNOWN_MOVES.value: (
        "the tables come from an early ingest, which did not record which partitions each"
        " assignment leaves out; a new ingest is not possible, because its input is incomplete"
    ),
    Premise.AWAKE.value: (
        "for a part of that time neither clients nor observers recorded anything, so the machine"
        " may have been suspended"
    ),
    Premise.KNOWN_LOSSES.value: (
        "a fault that removes records began on every replica but was not confirmed on all, so the"
        " removed records are unknown"
    ),
    Premise.KEPT_COPIES.value: (
        "a fault removed the data of every replica that was in sync in the last observation, so"
        " it may have removed the only copies"
    ),
    Premise.KNOWN_CAUSE.value: (
        "a client may resend a message after a missing answer, but no known event can have caused"
        " the missing answer"
    ),
    Premise.SHOWN_CAUSE.value: (
        "an allowed event may have caused the anomaly, but the system does not show whether it did"
    ),
    Premise.UNDISTURBED.value: "something outside of the run ended or stopped a broker",
    Premise.KNOWN_EVENTS.value: (
        "faults or answers of brokers could not be read, so an event that allows the anomaly may be"
        " missing"
    ),
    Premise.KNOWN_ENDS.value: (
        "the run's milestones end before brokers were asked for the last time, so something outside"
        " of the run may have ended one unnoticed"
    ),
    Premise.RECOVERED.value: "not every partition had a leader and a full ISR again",
}


_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """The judge's decision on the excuses of a run's anomalies."""

    judge: Judge
    facts: RunFacts

    def of(self, name: str, excuses: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
        """Return the reason that allows an anomaly; or None, with the broken premises."""
        why = allowed(name, excuses, self.judge, facts=self.facts)
        return why, doubts(name, excuses, self.judge) if why is None else ()

    def only_strict(self, name: str, excuses: Sequence[str]) -> str:
        """Return why the contract allows an anomaly that the strict judge does not allow; else "".

        The strict judge asks for more than Kafka promises. The report must not present the rule of
        this judge as a promise of Kafka.
        """
        if self.judge is not Judge.STRICT or allowed(name, excuses, self.judge) is not None:
            return ""
        row = allowed(name, excuses, Judge.CONTRACT)
        return (
            f"only the strict judge requires this; Kafka does not promise it here: {REASONS[row]}"
            if row
            else ""
        )


@dataclass(slots=True)
class _Tally:
    anomaly_class: AnomalyClass
    count: int = 0
    allowed: int = 0
    trusted: int = 0
    weighty: int = 0
    broken: set[str] = field(default_factory=set)
    examples: list[tuple[Example, str]] = field(default_factory=list)
    """The examples, each with the cause that the rows of its partition show."""


def weigh(
    facts: RunFacts,
    results: Mapping[Place, Sequence[CheckResult]],
    *,
    judge: Judge,
    engine: str,
    stats: Mapping[str, object],
) -> Verdict:
    """Return the verdict on a run.

    Args:
        facts: The run's context.
        results: The checkers' results, by place.
        judge: The judge, which `facts` also names.
        engine: The engine that ran the checkers.
        stats: The figures for reports. They are copied unchanged.
    """
    found = {each.name for group in results.values() for each in group if each.anomalies}
    broken = frozenset(
        premise
        for premise, fails in (
            (Premise.WELL_FORMED, "malformed-history" in found),
            (Premise.UNDISTURBED, "broker-hit-from-outside" in found),
            (Premise.KNOWN_PLAN, not facts.plan_known),
            (Premise.WHOLE_STORY, not facts.whole_story),
            (Premise.KNOWN_EVENTS, not facts.events_known),
            (Premise.KNOWN_ENDS, facts.shows(Sight.ENDS) and facts.milestone(NOTED) is None),
        )
        if fails
    )
    weights = _Weights(judge=judge, facts=facts)
    checkers = _by_name(facts)
    tallies = _tallies(results, weights, broken, checkers=checkers)
    checked = _checked(facts, results)
    of_run = (_shortfalls(facts), _unchecked(facts, results, checked), _gaps(results))
    doubts = (
        *facts.problems,
        *_crashes(results),
        *chain.from_iterable([_limits(facts, checked)] if facts.history else of_run),
        *_harness_doubts(tallies),
        *_untrusted(tallies),
        *_unconfirmed(facts, tallies, judge),
    )
    told = _told(tallies, checked, checkers)
    return Verdict(
        run_id=facts.run_id,
        valid=_validity(tallies, doubts),
        judge=judge.value,
        engine=engine,
        anomalies=told.anomalies,
        ranked=told.ranked,
        words=told.words,
        unknown_because=tuple(dict.fromkeys(doubts)),
        guarantees=guarantees(facts),
        checked=checked,
        basis=bases(facts, results, checked),
        stats=dict(stats),
        reach=_reach(facts),
    )


def _reach(facts: RunFacts) -> tuple[str, ...]:
    told = (*unread_sentences(facts.declared), *facts.declared.notes)
    return (*reach_without(unseen_by(facts)), *dict.fromkeys(map(as_sentence, told)))


def _limits(facts: RunFacts, checked: Mapping[str, int | None]) -> list[str]:
    """Return why a history cannot be valid.

    Either nothing was compared, or some promises cannot be checked. Jepsen's judge needs only the
    clients' observations.
    """
    if not any(checked.values()):
        return ["the history has nothing that could be compared"]
    if facts.judge is Judge.JEPSEN:
        return []
    unseen = "lost-write, unseen and events on the brokers cannot be judged"
    why = "a history has no final reads and no replicas' logs, so"
    return [f"{why} {unseen} (--judge jepsen needs only the clients' observations)"]


def _tallies(
    results: Mapping[Place, Sequence[CheckResult]],
    weights: "_Weights",
    broken: frozenset[Premise],
    *,
    checkers: Mapping[str, Checker],
) -> dict[str, _Tally]:
    tallies: dict[str, _Tally] = {}
    for place in sorted(results):
        for result in results[place]:
            if result.anomalies:
                checker = checkers[result.name]
                tally = tallies.setdefault(result.name, _Tally(checker.anomaly_class))
                needed = {*checker.premises, Premise.KNOWN_PLAN, Premise.WHOLE_STORY}
                if checker.anomaly_class is AnomalyClass.LIVENESS:
                    needed.add(Premise.UNDISTURBED)
                if checker.waits is Waits.BUDGET and checker.during is During.AFTER_HEAL:
                    needed.add(Premise.KNOWN_ENDS)
                if checker.excuses:
                    needed.add(Premise.KNOWN_EVENTS)
                failed = tuple(sorted(each.value for each in broken & needed))
                _add(tally, result, weights, failed)
    for tally in tallies.values():
        tally.examples.sort(key=lambda each: _rank(each[0]))
    return tallies


def _rank(example: Example) -> tuple[bool, str, int, int]:
    """Return a sort key. Examples that decide the verdict come first, then the place counts."""
    light = example.allowed or not example.trusted
    return light, example.topic, example.partition, example.offset


def _add(
    tally: _Tally,
    result: CheckResult,
    weights: "_Weights",
    failed: tuple[str, ...],
) -> None:
    harness = tally.anomaly_class is AnomalyClass.HARNESS
    for anomaly in result.anomalies:
        row, doubtful = (None, ()) if harness else weights.of(result.name, anomaly.excuses)
        broken = (*anomaly.broken_premises, *failed, *doubtful)
        _count(tally, 1, broken, is_allowed=row is not None)
        beyond = "" if harness else weights.only_strict(result.name, anomaly.excuses)
        tally.examples.append((_example(anomaly, row, broken, beyond=beyond), anomaly.reason))
    for (excuses, noted), count in result.beyond:
        row, doubtful = (None, ()) if harness else weights.of(result.name, excuses)
        _count(tally, count, (*noted, *failed, *doubtful), is_allowed=row is not None)


def _count(tally: _Tally, count: int, broken: tuple[str, ...], *, is_allowed: bool) -> None:
    tally.count += count
    tally.allowed += count * is_allowed
    tally.trusted += count * (not broken)
    if not is_allowed:
        tally.weighty += count * (not broken)
        tally.broken |= set(broken)


def _example(anomaly: Anomaly, why: str | None, broken: tuple[str, ...], *, beyond: str) -> Example:
    doubt = "; ".join(_PREMISE_SENTENCES[premise] for premise in broken)
    known = REASONS.get(why or "")
    reason = f"allowed ({why}): {known}" if known else f"allowed: {why}"
    return Example(
        sentence=anomaly.sentence,
        evidence=anomaly.evidence,
        topic=anomaly.topic,
        topic_id=anomaly.topic_id,
        partition=anomaly.partition,
        offset=anomaly.offset,
        allowed=why is not None,
        trusted=not broken,
        why="; ".join(part for part in (why and reason, beyond, doubt) if part),
        cause=anomaly.cause,
    )


def _summary(tally: _Tally) -> AnomalySummary:
    return AnomalySummary(
        anomaly_class=tally.anomaly_class,
        count=tally.count,
        allowed=tally.allowed,
        trusted=tally.trusted,
        examples=tuple(each for each, _ in tally.examples[:MAX_EXAMPLES]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    anomalies: dict[str, AnomalySummary]
    words: dict[str, Words]
    ranked: tuple[str, ...]


def _told(
    tallies: Mapping[str, _Tally],
    checked: Mapping[str, int | None],
    checkers: Mapping[str, Checker],
) -> _Told:
    """Return the anomalies with their report texts and causes, in order of importance."""
    summaries = {name: _summary(tallies[name]) for name in sorted(tallies)}
    described = {name: [each for each, _ in tally.examples] for name, tally in tallies.items()}
    told_as = {name: checkers[name].told_as(each) for name, each in described.items()}
    other = {name: words for name, words in told_as.items() if words is not None}
    words = words_of(checked, summaries, other)
    deciding = [name for name, tally in tallies.items() if tally.weighty]
    order = ranked(summaries, words, weighty=deciding, light=other)
    whys = {
        name: [why for _, why in tally.examples[:MAX_EXAMPLES]] for name, tally in tallies.items()
    }
    caused = with_causes(summaries, words, order=order, otherwise=whys, described=described)
    return _Told(anomalies=caused, words=words, ranked=order)


def _validity(tallies: Mapping[str, _Tally], doubts: Sequence[str]) -> Validity:
    judged = [each for each in tallies.values() if each.anomaly_class is not AnomalyClass.HARNESS]
    if any(tally.weighty for tally in judged):
        return Validity.INVALID
    return Validity.UNKNOWN if doubts else Validity.VALID


def _checked(
    facts: RunFacts, results: Mapping[Place, Sequence[CheckResult]]
) -> dict[str, int | None]:
    rows: defaultdict[str, int] = defaultdict(int)
    for group in results.values():
        for result in group:
            rows[result.name] += result.rows
    checkers = checkers_of(facts)
    names = sorted({checker.name for checker in checkers})
    applied = {checker.name for checker in checkers if checker.fits(facts)}
    return {name: rows[name] if name in applied else None for name in names}


def _unchecked(
    facts: RunFacts,
    results: Mapping[Place, Sequence[CheckResult]],
    checked: Mapping[str, int | None],
) -> list[str]:
    """Return sentences on missing rows and missing comparisons.

    There is a sentence for each partition without any row. There is also a sentence for each check
    that should apply, but compared nothing in the run or in some partitions with sends.

    A check that gives a reason is left out, because some runs cannot have such an anomaly. A check
    is also left out if it found an anomaly without a comparison, such as a missing final read.
    """
    if _cut_before_clients(facts):
        return []
    found = {each.name for group in results.values() for each in group if each.anomalies}
    seen = {(topic, partition) for topic, _, partition in results}
    sentences = [
        f"nothing was recorded of {topic}-{partition}"
        for topic, partition in facts.plan.topic_partitions
        if (topic, partition) not in seen
    ]
    sentences += [
        f"nothing was recorded of {each.topic}-{partition} (topic id {each.topic_id})"
        for each in facts.remade
        for partition in each.replicas
        if (each.topic, each.topic_id, partition) not in results
        and facts.shows(Sight.LEADER_EPOCHS)
    ]
    sentences += [
        f"there was nothing to check for {name}"
        for name, rows in checked.items()
        if rows == 0 and name not in found and not says_why(results, name)
    ]
    somewhere = [name for name, rows in checked.items() if rows]
    for name in somewhere:
        partitions = [place for place in sorted(results) if place[2] >= 0]
        gaps = [place for place in partitions if _gap(results[place], name)]
        if gaps:
            places = ", ".join(f"{topic}-{partition}" for topic, _, partition in gaps)
            sentences.append(f"there was nothing to check for {name} in {places}")
    return sentences


def _gaps(results: Mapping[Place, Sequence[CheckResult]]) -> list[str]:
    """Return, for each check with gaps, a sentence that names the first few gaps."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for place in sorted(results):
        for result in results[place]:
            by_name[result.name] += result.gaps
    return [
        f"{name} could not be checked completely: {_first(list(dict.fromkeys(gaps)))}"
        for name, gaps in sorted(by_name.items())
        if gaps
    ]


def _first(sentences: Sequence[str]) -> str:
    """Join the first few sentences, and say how many more there are."""
    more = len(sentences) - _SHOWN
    return "; ".join(sentences[:_SHOWN]) + (f" (and {more} more)" if more > 0 else "")


def _gap(group: Sequence[CheckResult], name: str) -> bool:
    """Return whether a check gave no reason why it compared nothing in a partition with sends."""
    mine = [each for each in group if each.name == name]
    told = any(each.rows or each.unshown or each.gaps or each.anomalies for each in mine)
    return was_written(group) and bool(mine) and not told


def _cut_before_clients(facts: RunFacts) -> bool:
    """Return whether a run was interrupted before its clients began."""
    return facts.milestone(INTERRUPTED) is not None and facts.milestone("warmup") is None


def _shortfalls(facts: RunFacts) -> list[str]:
    """Return a sentence for each stage that, by its milestones, the run did not complete."""
    sentences = []
    if _cut_before_clients(facts):
        sentences.append("the run ended before its clients began, so there is nothing to judge")
    if facts.milestone("stopped") is None:
        names = [each.name for each in facts.played if each.name not in {"failed", INTERRUPTED}]
        last = names[-1] if names else "none"
        sentences.append(
            "the run ended before its brokers were stopped, so there is no final log (its last"
            f" milestone: {last})"
        )
    sentences += [
        f"the run failed: {stone.detail.get('sentence', 'the reason is unknown')}"
        for stone in facts.milestones
        if stone.name == "failed"
        and (stone.detail.get("kind") != "interrupted" or facts.plan.scenario is not None)
    ]
    for name, what in (
        ("noted", "not everything was recorded"),
        ("healed", "not every fault was healed"),
        ("recovered", "not every partition got a leader and a full ISR back"),
    ):
        reached = facts.milestone(name)
        if reached is not None and "failed" in reached.detail:
            sentences.append(f"{what}: {reached.detail['failed']}")
    return sentences


def _crashes(results: Mapping[Place, Sequence[CheckResult]]) -> list[str]:
    return [
        f"the checker of {result.name} crashed: {result.error}"
        for place in sorted(results)
        for result in results[place]
        if result.error is not None
    ]


def _harness_doubts(tallies: Mapping[str, _Tally]) -> list[str]:
    sentences = []
    for name in sorted(tallies):
        tally = tallies[name]
        if tally.anomaly_class is AnomalyClass.HARNESS:
            shown = [example.sentence for example, _ in tally.examples[:3]]
            more = f" (and {tally.count - len(shown)} more)" if tally.count > len(shown) else ""
            sentences.append(f"{name}: {'; '.join(shown)}{more}")
    return sentences


def _untrusted(tallies: Mapping[str, _Tally]) -> list[str]:
    return [
        f"{name} cannot be trusted: {_PREMISE_SENTENCES[premise]}"
        for name in sorted(tallies)
        for premise in sorted(tallies[name].broken)
        if tallies[name].anomaly_class is not AnomalyClass.HARNESS
    ]


def _unconfirmed(facts: RunFacts, tallies: Mapping[str, _Tally], judge: Judge) -> list[str]:
    """Return a sentence if the full check does not confirm the violation that stopped the run."""
    stopped = facts.milestone(STOPPED_ON)
    if stopped is None or judge is not facts.plan.judge:
        return []
    name, place = (stopped.detail.get(key, "") for key in ("anomaly", "place"))
    if name in tallies and tallies[name].weighty:
        return []
    where = f" in {place}" if place else ""
    sentence = (
        f"the run was stopped for {name}{where}, but the check of the whole record does not confirm"
        " that anomaly: if the record is complete, this is a bug of Logquake; during the run it was"
        " reported as:"
        f" {stopped.detail.get('sentence', '')}"
    )
    return [sentence]


def _by_name(facts: RunFacts) -> dict[str, Checker]:
    """Return the checkers by anomaly name. The checkers of the run's judge take precedence."""
    known = (*checkers_of(facts), *CHECKERS, *JEPSENS)
    return {checker.name: checker for checker in reversed(known)}
