"""The basis of a verdict: what was compared for each promise, and what could not be checked.

Each check counts the comparisons that could have failed. If a check compared nothing, it reports
the data that the run lacked (`Findings.unshown`). This module collects these sentences from all
partitions for the verdict.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from checkers.facts import RunFacts
from checkers.guarantees import given_up, promises
from checkers.layout import Place
from checkers.protocol import Checker, During, Promise
from checkers.registry import checkers_of
from checkers.replica_reasons import listed
from checkers.runner import CheckResult
from results.record.declared import Sight, in_words
from results.record.terms import QUORUM_TOPIC
from results.record.verdict import Basis, Compared

_PLACES = 3
"""A sentence about some of the partitions names at most this many of them."""
_BEGINNINGS = ("warmup", "main")
_STOPPED = "final-reads"


def bases(
    facts: RunFacts,
    results: Mapping[Place, Sequence[CheckResult]],
    checked: Mapping[str, int | None],
) -> tuple[Basis, ...]:
    """Return the comparisons behind each guarantee of a run.

    For an imported history, which Logquake did not record, the result is empty.

    Args:
        facts: The run's context.
        results: The checkers' results, by place.
        checked: The number of comparisons that could have failed, by check. None: the check does
            not apply.
    """
    if facts.history:
        return ()
    unshown = _unshown(results)
    checkers = {each.name: each for each in reversed(checkers_of(facts))}
    return tuple(
        Basis(
            promise=sentence,
            given_up=promise in given_up(facts),
            compared=tuple(
                _compared(facts, checkers[name], rows)
                for name, rows in sorted(checked.items())
                if checkers[name].promise is promise and rows is not None
            ),
            unshown=(
                *_not_looked_for(facts, promise),
                *(
                    told
                    for name, rows in sorted(checked.items())
                    if checkers[name].promise is promise and rows is not None
                    for told in unshown.get(name, ())
                ),
            ),
        )
        for promise, sentence in promises(facts).items()
    )


def unseen_by(facts: RunFacts, *, promise: Promise | None = None) -> frozenset[Sight]:
    """Return the kinds of observation that checks need, but that the system does not provide.

    Args:
        facts: The run's context.
        promise: Consider only checks of this promise. None means all checks.
    """
    lacking = (each.sees for each in _blind(facts) if promise in {None, each.promise})
    return frozenset[Sight]().union(*lacking) - facts.declared.sees


def _blind(facts: RunFacts) -> list[Checker]:
    """Return the checks that apply to a plan, but need an observation that the system lacks."""
    return [each for each in checkers_of(facts) if each.applies(facts) and not each.fits(facts)]


def _not_looked_for(facts: RunFacts, promise: Promise) -> Iterator[str]:
    names = sorted({each.name for each in _blind(facts) if each.promise is promise})
    if names:
        what = unseen_by(facts, promise=promise)
        yield f"{listed(names)} could not be detected: the system does not show {in_words(what)}"


def says_why(results: Mapping[Place, Sequence[CheckResult]], name: str) -> bool:
    """Return whether a check gives a reason for each partition in which it could compare nothing.

    Partitions without sends need no reason. The reason is a sentence in `unshown`, or a gap. A gap
    has its own sentence in the verdict.
    """
    told = [
        bool(each.unshown or each.gaps)
        for group in results.values()
        for each in group
        if each.name == name and (each.unshown or each.gaps or was_written(group))
    ]
    return bool(told) and all(told)


def was_written(group: Sequence[CheckResult]) -> bool:
    """Return whether clients sent anything to a partition."""
    return any(each.name == "malformed-history" and each.rows for each in group)


def _compared(facts: RunFacts, checker: Checker, rows: int) -> Compared:
    from_ns, to_ns = _during(facts, checker.during)
    return Compared(
        check=checker.name, rows=rows, what=checker.compares, from_ns=from_ns, to_ns=to_ns
    )


def _during(facts: RunFacts, during: During) -> tuple[int, int]:
    begun = next((at for name in _BEGINNINGS if (at := _at(facts, name)) >= 0), -1)
    stopped, calm_ns = _at(facts, _STOPPED), facts.calm_from_ns
    match during:
        case During.RUN:
            return begun, stopped
        case During.AFTER_HEAL:
            return (-1 if calm_ns is None else calm_ns), stopped
        case During.AT_END:
            return (_at(facts, "stopped"),) * 2


def _at(facts: RunFacts, name: str) -> int:
    reached = facts.milestone(name)
    return -1 if reached is None else reached.at_ns


def _unshown(results: Mapping[Place, Sequence[CheckResult]]) -> dict[str, tuple[str, ...]]:
    """Return, for each check, sentences that say what it could not show, and where."""
    by_check: defaultdict[str, list[tuple[str, Place]]] = defaultdict(list)
    places: defaultdict[str, set[Place]] = defaultdict(set)
    for place in sorted(results):
        for result in results[place]:
            if result.rows or result.unshown:
                places[result.name].add(place)
            by_check[result.name] += [(sentence, place) for sentence in result.unshown]
    return {
        name: tuple(_told(sorted(told), places[name])) for name, told in sorted(by_check.items())
    }


def _told(sentences: Sequence[tuple[str, Place]], everywhere: set[Place]) -> Iterator[str]:
    for sentence, group in groupby(sentences, key=lambda each: each[0]):
        here = [place for _, place in group]
        of_quorum = here[0][0] == QUORUM_TOPIC
        if len(here) == sum((place[0] == QUORUM_TOPIC) is of_quorum for place in everywhere):
            yield sentence
            continue
        more = f" and {len(here) - _PLACES} more" if len(here) > _PLACES else ""
        named = ", ".join(f"{topic}-{partition}" for topic, _, partition in here[:_PLACES])
        yield f"{named}{more}: {sentence}"
