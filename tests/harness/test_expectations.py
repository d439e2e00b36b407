"""Whether a scripted run ended as it should: every way in which it may not."""

from dataclasses import replace

import pytest

from harness.scenarios.expectations import End, differences, expectation, outcome_line
from harness.scenarios.protocol import Expected
from results.record.terms import Validity

LOSS = Expected(
    valid=Validity.INVALID,
    anomalies=frozenset({"lost-write"}),
    lost=("message2",),
    read=("message1", "message3"),
)
AS_TOLD = End(
    valid=Validity.INVALID,
    anomalies=frozenset({"lost-write"}),
    lost=("message2",),
    lost_count=1,
    read=("message1", "message3"),
)


def test_an_end_as_told_differs_in_nothing() -> None:
    assert differences(LOSS, AS_TOLD) == ()
    assert outcome_line(LOSS, ()) == (
        "as expected: invalid with lost-write, message2 is lost, readers get message1 and message3"
    )


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (replace(AS_TOLD, valid=Validity.VALID), "valid, not invalid"),
        (replace(AS_TOLD, anomalies=frozenset()), "no lost-write was found"),
        (
            replace(AS_TOLD, anomalies=frozenset({"lost-write", "log-divergence"})),
            "log-divergence was found",
        ),
        (replace(AS_TOLD, lost=("message3",)), "lost messages: message3, not message2"),
        (replace(AS_TOLD, lost=(), lost_count=0), "lost messages: none, not message2"),
        (
            replace(AS_TOLD, lost=("message2", "message3"), lost_count=2),
            "lost messages: message2 and message3, not message2",
        ),
        (replace(AS_TOLD, read=("message1",)), "readers get message1, not message1 and message3"),
        (replace(AS_TOLD, read=()), "readers get nothing, not message1 and message3"),
        (replace(AS_TOLD, read=(), failed=True), "the story did not reach its end"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_difference_is_a_sentence_of_its_own(end: End, said: str) -> None:
    assert differences(LOSS, end) == (said,)
    assert outcome_line(LOSS, (said,)).startswith(f"NOT as expected: {said} (expected: invalid")


def test_of_many_losses_ten_are_named_and_all_are_counted() -> None:
    names = tuple(f"message{number}" for number in range(1, 101))
    expected = Expected(valid=Validity.INVALID, lost=names)
    end = End(valid=Validity.INVALID, lost=names[:10], lost_count=100)
    assert differences(expected, end) == ()
    assert "message1 to message100 (100) are lost" in expectation(expected)
    few = replace(end, lost_count=99)
    assert differences(expected, few) == (
        "lost messages: message1 to message10 (10) (99 in all), not message1 to message100 (100)",
    )


def test_what_is_not_said_is_not_looked_at() -> None:
    assert differences(Expected(valid=Validity.VALID), End(valid=Validity.VALID, read=("x",))) == ()
