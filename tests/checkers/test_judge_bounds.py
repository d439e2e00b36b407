"""Twins for single conditions of the judge: what was not checked, and how much of it is told."""

from checkers.judge import Place, weigh
from checkers.protocol import Scope
from checkers.registry import CHECKERS
from checkers.runner import CheckResult
from results.record.terms import Judge, Validity
from results.record.verdict import Anomaly, Verdict
from tests.checkers.partition_rows import facts

RUN: Place = ("", "", -1)
PARTS: tuple[Place, ...] = (("log-0", "id-0", 0), ("log-0", "id-0", 1), ("log-0", "id-0", 2))
HARNESS = "malformed-history"


def verdict(*extra: tuple[Place, CheckResult]) -> Verdict:
    """Every check looked at something everywhere, and found nothing but what is given."""
    given = {(place, each.name): each for place, each in extra}
    results = {
        place: [
            given.get((place, name), CheckResult(name=name, rows=5))
            for name in sorted(
                {
                    each.name
                    for each in CHECKERS
                    if (each.scope is Scope.PARTITION) is (place != RUN)
                }
            )
        ]
        for place in (RUN, *PARTS)
    }
    about = facts(plan={"nemesis": "", "partitions": 3})
    return weigh(about, results, judge=Judge.CONTRACT, engine="local", stats={})


def empty(name: str) -> CheckResult:
    return CheckResult(name=name, rows=0)


def odd(name: str, *sentences: str, broken: tuple[str, ...] = ()) -> CheckResult:
    anomalies = tuple(
        Anomaly(name=name, sentence=sentence, evidence={}, topic="log-0", partition=0,
                excuses=(), broken_premises=broken)
        for sentence in sentences
    )  # fmt: skip
    return CheckResult(name=name, rows=5, anomalies=anomalies)


def test_all_partitions_that_gave_a_check_nothing_are_named() -> None:
    assert verdict().valid is Validity.VALID
    first, second, third = PARTS
    assert verdict((first, empty("phantom"))).unknown_because == (
        "there was nothing to check for phantom in log-0-0",
    )
    both = verdict((first, empty("phantom")), (third, empty("phantom")))
    assert both.unknown_because == ("there was nothing to check for phantom in log-0-0, log-0-2",)
    everywhere = verdict(*((place, empty("phantom")) for place in PARTS))
    assert everywhere.unknown_because == ("there was nothing to check for phantom",)
    unwritten = verdict((second, empty("phantom")), (second, empty(HARNESS)))
    assert unwritten.valid is Validity.VALID


def test_three_of_the_harnesss_own_anomalies_are_told_and_the_others_counted() -> None:
    (two,) = verdict((PARTS[0], odd(HARNESS, "a", "b"))).unknown_because
    assert two == f"{HARNESS}: a; b"
    (three,) = verdict((PARTS[0], odd(HARNESS, "a", "b", "c"))).unknown_because
    assert three == f"{HARNESS}: a; b; c"
    (more,) = verdict((PARTS[0], odd(HARNESS, *"abcde"))).unknown_because
    assert more == f"{HARNESS}: a; b; c (and 2 more)"


def test_the_harnesss_own_anomalies_are_not_called_untrusted_and_others_are() -> None:
    broken = ("whole-record",)
    assert verdict((PARTS[0], odd(HARNESS, "a", broken=broken))).unknown_because == (
        f"{HARNESS}: a",
    )
    (untrusted,) = verdict((PARTS[0], odd("phantom", "a", broken=broken))).unknown_because
    assert untrusted.startswith("phantom cannot be trusted: a stream of the run's record is cut")


def test_three_of_what_a_check_lacked_are_told_and_the_others_counted() -> None:
    for count, told in (
        (2, "g0; g1"), (3, "g0; g1; g2"), (4, "g0; g1; g2 (and 1 more)"),
    ):  # fmt: skip
        gaps = tuple(f"g{at}" for at in range(count))
        lacking = CheckResult(name="phantom", rows=5, gaps=gaps)
        assert verdict((PARTS[0], lacking)).unknown_because == (
            f"phantom could not be checked completely: {told}",
        )
