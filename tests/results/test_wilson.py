"""Wilson's interval, against figures of other tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.wilson import wilson_interval


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        # As scipy.stats.binomtest(...).proportion_ci(method="wilson") has them.
        (20, 20, 0.8388749, 1.0),
        (0, 10, 0.0, 0.2775328),
        (5, 10, 0.2365931, 0.7634069),
        (1, 20, 0.0088814, 0.2361312),
        (15, 16, 0.7167126, 0.9888807),
    ],
)
def test_figures_of_others(count: int, of: int, low: float, high: float) -> None:
    assert wilson_interval(count, of) == pytest.approx((low, high), abs=1e-6)


def test_nothing_tried_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@given(st.integers(1, 500), st.data())
def test_what_was_seen_lies_within_and_both_ends_mirror_each_other(
    of: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, of))
    low, high = wilson_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1
    assert wilson_interval(of - count, of) == pytest.approx((1 - high, 1 - low))
