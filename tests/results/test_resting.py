"""What a verdict rests on, as pages and terminals say it."""

from dataclasses import replace

import pytest

from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Basis, Compared, Verdict
from results.wording.headline import headline
from results.wording.resting import Line, resting
from tests.results.told import told

S = 1_000_000_000
STORED = Basis(
    promise="acknowledged messages stay",
    compared=(
        Compared(check="G1a", rows=0, what="failed sends"),
        Compared(check="unseen", rows=7, what="sends", from_ns=S, to_ns=12 * S // 10 * 2),
        Compared(check="lost-write", rows=1_200, what="sends", from_ns=9 * S, to_ns=9 * S),
    ),
    unshown=("no send failed, so an aborted read could not be detected",),
)
BARE = Basis(promise="nothing twice", compared=(Compared(check="duplicate", rows=0, what="it"),))
GIVEN_UP = Basis(promise="acks=0: all may be lost", given_up=True)


def verdict(*basis: Basis, **changes: object) -> Verdict:
    made = Verdict(
        run_id="a/1", valid=Validity.VALID, judge="contract", engine="local", anomalies={},
        basis=basis,
    )  # fmt: skip
    return told(replace(made, **changes))  # type: ignore[arg-type]  # A verdict's fields.


def test_a_promise_is_told_with_what_was_compared_most_first() -> None:
    (told,) = resting(verdict(STORED))
    assert told.summary == "1,207 comparisons by 2 checks"
    assert told.lines == (
        Line(rows=1_200, what="sends", when="at 9.0 s", check="lost-write"),
        Line(rows=7, what="sends", when="1.0 s to 2.4 s", check="unseen"),
    )
    assert told.unshown == STORED.unshown


@pytest.mark.parametrize(
    ("times", "when"),
    [((-1, -1), ""), ((-1, S), "to 1.0 s"), ((S, -1), "from 1.0 s"), ((0, S), "0.0 s to 1.0 s")],
)
def test_times_are_told_as_far_as_they_are_known(times: tuple[int, int], when: str) -> None:
    one = Compared(check="x", rows=1, what="y", from_ns=times[0], to_ns=times[1])
    (told,) = resting(verdict(Basis(promise="p", compared=(one,))))
    assert told.lines[0].when == when
    assert told.summary == "1 comparison by one check"


def test_what_was_not_looked_at_or_is_not_promised_is_said() -> None:
    bare, given_up = resting(verdict(BARE, GIVEN_UP))
    assert bare.summary == "No comparison of this run could have shown a violation."
    assert given_up.summary == "There is no promise for this plan, so nothing was compared."
    assert (bare.lines, given_up.lines) == ((), ())


def test_only_where_each_promise_was_looked_at_each_was_kept() -> None:
    kept = "Valid: every promise was kept."
    assert headline(verdict(STORED)).sentence == kept
    assert headline(verdict(STORED, GIVEN_UP)).sentence == kept
    half = headline(verdict(STORED, BARE, GIVEN_UP))
    assert half.sentence == (
        "Valid, as far as this run goes: it could not have shown a violation of 1 of 2 promises."
    )
    assert half.more == ("Not tested: nothing twice.",)
    assert half.tone == "valid"


def test_a_verdict_of_before_it_was_told_says_what_it_said() -> None:
    old = verdict()
    assert resting(old) == ()
    assert headline(old).sentence == "Valid: every promise was kept."


def test_what_is_allowed_hides_no_promise_that_was_not_looked_at() -> None:
    allowed = AnomalySummary(anomaly_class=AnomalyClass.SAFETY, count=2, allowed=2, trusted=2)
    head = headline(verdict(STORED, BARE, anomalies={"duplicate": allowed}))
    assert head.sentence.startswith("Valid, by contract: 2 values are in the log twice")
    assert head.more == ("Not tested: nothing twice.",)
