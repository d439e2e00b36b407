"""Every anomaly has words for people, and the pages use them."""

import pytest

from checkers.registry import CHECKERS
from results.page.words import ANOMALIES, FIRST, words_of

NAMES = sorted({each.name for each in CHECKERS})


@pytest.mark.parametrize("name", NAMES)
def test_every_anomaly_has_words(name: str) -> None:
    words = ANOMALIES[name]
    assert words.means.endswith(".")
    assert words.counted(1) == f"1 {words.one}"
    assert words.counted(2_000) == f"2,000 {words.many}"


def test_no_words_of_what_is_not_checked() -> None:
    assert set(ANOMALIES) == set(NAMES)
    assert set(FIRST) <= set(NAMES)


def test_words_of_cycles_differ() -> None:
    assert words_of("G0").counted(2) == "2 cycles of transactions by writes"
    assert words_of("G1c-realtime").one == (
        "cycle of transactions by reads and writes and the clock"
    )
    assert words_of("no-such").counted(1) == "1 no-such anomaly"
