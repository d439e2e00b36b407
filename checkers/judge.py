"""Weighs what the checkers found: allowed or not, trusted or not, and so the verdict.

Everything is reported, whoever judges; a judge only decides what counts. `contract` allows what the
plan asked for (see `record-and-verdict`'s table), `strict` only what is always allowed, `jepsen`
knows Jepsen's kinds only, and allows what Jepsen does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from checkers.facts import RunFacts
from checkers.guarantees import guarantees
from checkers.protocol import DISK_EXCUSES, Checker, Excuse, Premise
from checkers.registry import CHECKERS, JEPSENS, checkers_of
from checkers.runner import CheckResult
from results.record.terms import AnomalyClass, Judge, Validity
from results.record.verdict import MAX_EXAMPLES, Anomaly, AnomalySummary, Example, Verdict

Place = tuple[str, str, int]
"""(topic, topic_id, partition); empty and -1 for a whole run."""

_AFTER_A_LOSS = frozenset({
    "lost-write", "unseen", "offset-order", "nonmonotonic-send", "int-nonmonotonic-send",
    "ack-mismatch", "inconsistent-offsets",
})  # fmt: skip
"""What clients see where a committed message was lost and another stands in its place."""
_OF_A_LEADER_THAT_LACKED = frozenset({
    "uncommitted-read", "incomplete-leader", "committed-truncation", "high-watermark-regression",
    "duplicate",
})  # fmt: skip
"""What is seen besides where such a loss went through a leader: what was read may be taken back
and, if its writer had no answer yet, be written again."""
_OF_ITS_READERS = frozenset({
    "poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll",
})  # fmt: skip
"""What happens to those who had read on to where the log of such a leader does not reach."""
_CONTRACT: Mapping[str, frozenset[str]] = {
    Excuse.ALWAYS: frozenset({"int-send-skip", "G0", "G0-process", "G0-realtime"}),
    Excuse.ACKS: _AFTER_A_LOSS,
    Excuse.UNCLEAN: _AFTER_A_LOSS | _OF_A_LEADER_THAT_LACKED | _OF_ITS_READERS | {
        "log-divergence",
    },
    Excuse.RETRIES: frozenset({"duplicate", "int-nonmonotonic-send"}),
    Excuse.NEW_EPOCH: frozenset({"duplicate"}),
    **dict.fromkeys(
        DISK_EXCUSES,
        _AFTER_A_LOSS | _OF_A_LEADER_THAT_LACKED | _OF_ITS_READERS,
    ),
    Excuse.REBALANCE: frozenset({"poll-skip", "nonmonotonic-poll"}),
}  # fmt: skip
"""What each row of the contract's table allows; a checker notes the rows that fit the case."""
_ALWAYS_BY_CASE = frozenset({"G1c", "G1c-process", "G1c-realtime"})
"""Always allowed where the checker says so: in a cycle that needs a write-write edge."""

_JEPSENS = frozenset({
    "duplicate", "inconsistent-offsets", "lost-write", "unseen", "G1a", "poll-skip",
    "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "nonmonotonic-send",
    "int-send-skip", "int-nonmonotonic-send", "precommitted-read", "G0", "G0-process",
    "G0-realtime", "G1c", "G1c-process", "G1c-realtime",
})  # fmt: skip

_JEPSEN_ALLOWS: Mapping[str, frozenset[str]] = {
    "with write-write dependencies": frozenset({"G1c", "G1c-process", "G1c-realtime"}),
    "with subscribe": frozenset({"poll-skip", "nonmonotonic-poll"}),
}
"""What Jepsen allows beside what is always allowed, and in which of its modes."""

_PREMISE_SENTENCES = {
    Premise.WELL_FORMED.value: "the history is malformed",
    Premise.WHOLE_RECORD.value: "a stream of the record is cut, so that rows may be missing",
    Premise.READABLE_LOGS.value: "a replica's files could not be read to their end",
    Premise.KNOWN_PLAN.value: "the run's plan could not be read, so nobody knows what was promised",
    Premise.WHOLE_STORY.value: (
        "the story's run did not come to its end, and its judge is for the whole of it"
    ),
    Premise.KNOWN_MOVES.value: (
        "the tables are of an early ingest, which did not tell what assignments leave out, and not"
        " all is there to make them again"
    ),
    Premise.AWAKE.value: (
        "for a part of that time neither clients nor observers recorded anything, as on a machine"
        " that stands still"
    ),
    Premise.RECOVERED.value: "not every partition had a leader and a full ISR again",
}


_SHOWN = 3


@dataclass(slots=True)
class _Tally:
    anomaly_class: AnomalyClass
    count: int = 0
    allowed: int = 0
    trusted: int = 0
    weighty: int = 0
    broken: set[str] = field(default_factory=set)
    examples: list[Example] = field(default_factory=list)


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
        results: What the checkers said, by place.
        judge: Who judges (also whom `facts` name).
        engine: Which engine ran the checkers.
        stats: Figures for people, as they are.
    """
    malformed = any(
        each.name == "malformed-history" and each.anomalies
        for group in results.values()
        for each in group
    )
    broken = frozenset(
        premise
        for premise, fails in (
            (Premise.WELL_FORMED, malformed),
            (Premise.KNOWN_PLAN, not facts.plan_known),
            (Premise.WHOLE_STORY, not facts.whole_story),
        )
        if fails
    )
    tallies = _tallies(
        results, partial(allowed, judge=judge, facts=facts), broken, checkers=_by_name(facts)
    )
    checked = _checked(facts, results)
    of_run = (_shortfalls(facts), _unchecked(facts, results, checked), _gaps(results))
    doubts = (
        *facts.problems,
        *_crashes(results),
        *chain.from_iterable([_limits(facts, checked)] if facts.history else of_run),
        *_harness_doubts(tallies),
        *_untrusted(tallies),
    )
    return Verdict(
        run_id=facts.run_id,
        valid=_validity(tallies, doubts),
        judge=judge.value,
        engine=engine,
        anomalies={name: _summary(tallies[name]) for name in sorted(tallies)},
        unknown_because=tuple(dict.fromkeys(doubts)),
        guarantees=guarantees(facts),
        checked=checked,
        stats=dict(stats),
    )


def allowed(
    name: str, excuses: Iterable[str], judge: Judge, *, facts: RunFacts | None = None
) -> str | None:
    """Return why a judge allows an anomaly, None if it does not.

    Args:
        name: Of the anomaly.
        excuses: Rows of the contract's table that fit it.
        judge: Who judges.
        facts: Of the run, for what depends on it.
    """
    by_case = name in _ALWAYS_BY_CASE and Excuse.ALWAYS in excuses
    if name in _CONTRACT[Excuse.ALWAYS] or by_case:
        return Excuse.ALWAYS.value
    match judge:
        case Judge.STRICT:
            return None
        case Judge.JEPSEN:
            if name not in _JEPSENS:
                return "not one of Jepsen's kinds"
            modes = _jepsens_modes(facts) if facts is not None else ()
            return next((mode for mode in modes if name in _JEPSEN_ALLOWS[mode]), None)
        case Judge.CONTRACT:
            fitting = (row for row in excuses if name in _CONTRACT.get(row, frozenset()))
            return next(fitting, None)


def _jepsens_modes(facts: RunFacts) -> list[str]:
    """Return the rows of `_JEPSEN_ALLOWS` that fit a run."""
    fits = (facts.ww_deps, facts.plan.workload == "groups")
    return [mode for mode, fit in zip(_JEPSEN_ALLOWS, fits, strict=True) if fit]


def _limits(facts: RunFacts, checked: Mapping[str, int | None]) -> list[str]:
    """Why a history cannot be called valid: it has nothing in it, or more was promised than shown.

    Jepsen's judge is content with what clients saw.
    """
    if not any(checked.values()):
        return ["there is not one send or poll in the history"]
    if facts.judge is Judge.JEPSEN:
        return []
    unseen = "lost-write, unseen and what happened on the brokers cannot be judged"
    why = "a history has no final reads and no replicas' logs, so that"
    return [f"{why} {unseen} (--judge jepsen judges by what clients saw)"]


def _tallies(
    results: Mapping[Place, Sequence[CheckResult]],
    permits: Callable[[str, Iterable[str]], str | None],
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
                _add(tally, result, permits, tuple(sorted(each.value for each in broken & needed)))
    for tally in tallies.values():
        tally.examples.sort(key=_rank)
    return tallies


def _rank(example: Example) -> tuple[bool, str, int, int]:
    """What decides the verdict is shown first; otherwise by place."""
    light = example.allowed or not example.trusted
    return light, example.topic, example.partition, example.offset


def _add(
    tally: _Tally,
    result: CheckResult,
    permits: Callable[[str, Iterable[str]], str | None],
    failed: tuple[str, ...],
) -> None:
    harness = tally.anomaly_class is AnomalyClass.HARNESS
    for anomaly in result.anomalies:
        broken = (*anomaly.broken_premises, *failed)
        why = None if harness else permits(result.name, anomaly.excuses)
        _count(tally, 1, broken, is_allowed=why is not None)
        tally.examples.append(_example(anomaly, why, broken))
    for (excuses, noted), count in result.beyond:
        why = None if harness else permits(result.name, excuses)
        _count(tally, count, (*noted, *failed), is_allowed=why is not None)


def _count(tally: _Tally, count: int, broken: tuple[str, ...], *, is_allowed: bool) -> None:
    tally.count += count
    tally.allowed += count * is_allowed
    tally.trusted += count * (not broken)
    if not is_allowed:
        tally.weighty += count * (not broken)
        tally.broken |= set(broken)


def _example(anomaly: Anomaly, why: str | None, broken: tuple[str, ...]) -> Example:
    doubt = "; ".join(_PREMISE_SENTENCES[premise] for premise in broken)
    return Example(
        sentence=anomaly.sentence,
        evidence=anomaly.evidence,
        topic=anomaly.topic,
        topic_id=anomaly.topic_id,
        partition=anomaly.partition,
        offset=anomaly.offset,
        allowed=why is not None,
        trusted=not broken,
        why="; ".join(part for part in (why and f"allowed: {why}", doubt) if part),
    )


def _summary(tally: _Tally) -> AnomalySummary:
    return AnomalySummary(
        anomaly_class=tally.anomaly_class,
        count=tally.count,
        allowed=tally.allowed,
        trusted=tally.trusted,
        examples=tuple(tally.examples[:MAX_EXAMPLES]),
    )


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
    applied = {checker.name for checker in checkers if checker.applies(facts)}
    return {name: rows[name] if name in applied else None for name in names}


def _unchecked(
    facts: RunFacts,
    results: Mapping[Place, Sequence[CheckResult]],
    checked: Mapping[str, int | None],
) -> list[str]:
    """Checks that the plan promised and that had nothing to look at, as a whole or somewhere."""
    seen = {(topic, partition) for topic, _, partition in results}
    sentences = [
        f"nothing was recorded of {topic}-{partition}"
        for topic, partition in facts.plan.topic_partitions
        if (topic, partition) not in seen
    ]
    sentences += [
        f"there was nothing to check for {name}" for name, rows in checked.items() if rows == 0
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
    """What checks would have needed, the first few of each."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for place in sorted(results):
        for result in results[place]:
            by_name[result.name] += result.gaps
    return [
        f"{name} could not be checked as it should: {_first(list(dict.fromkeys(gaps)))}"
        for name, gaps in sorted(by_name.items())
        if gaps
    ]


def _first(sentences: Sequence[str]) -> str:
    """Return the first few of some sentences, and how many more there are."""
    more = len(sentences) - _SHOWN
    return "; ".join(sentences[:_SHOWN]) + (f" (and {more} more)" if more > 0 else "")


def _gap(group: Sequence[CheckResult], name: str) -> bool:
    """Tell if a partition that was written to gave a check nothing to look at."""
    rows = {each.name: each.rows for each in group}
    return bool(rows.get("malformed-history")) and rows.get(name) == 0


def _shortfalls(facts: RunFacts) -> list[str]:
    """What the run did not get to, by its milestones."""
    sentences = []
    if facts.milestone("stopped") is None:
        last = facts.played[-1].name if facts.played else "none"
        sentences.append(
            "the run ended before its brokers were stopped, so that there is no final log"
            f" (its last milestone: {last})"
        )
    sentences += [
        f"the run failed: {stone.detail.get('sentence', 'nobody knows why')}"
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
            shown = [example.sentence for example in tally.examples[:3]]
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


def _by_name(facts: RunFacts) -> dict[str, Checker]:
    """Return the checkers by the anomaly that they find, those of the run's judge before others."""
    known = (*checkers_of(facts), *CHECKERS, *JEPSENS)
    return {checker.name: checker for checker in reversed(known)}
