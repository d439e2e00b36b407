"""Every anomaly has words for people, and the pages use them."""

import pytest

from checkers.registry import CHECKERS, HEADLINES, WORDS
from results.record.terms import Validity
from results.record.verdict import Verdict

NAMES = sorted({each.name for each in CHECKERS})


@pytest.mark.parametrize("name", NAMES)
def test_every_anomaly_has_words(name: str) -> None:
    words = WORDS[name]
    assert words.means.endswith(".")
    assert words.counted(1) == f"1 {words.one}"
    assert words.counted(2_000) == f"2,000 {words.many}"


def test_no_words_of_what_is_not_checked() -> None:
    assert set(WORDS) == set(NAMES)
    assert set(HEADLINES) <= set(NAMES)
    assert {name for words in WORDS.values() for name in words.explains} <= set(NAMES)


def test_words_of_cycles_differ() -> None:
    assert WORDS["G0"].counted(2) == "2 cycles of transactions by writes"
    assert WORDS["G1c-realtime"].one == "cycle of transactions by reads and writes and the clock"


def test_a_verdict_without_words_tells_names() -> None:
    old = Verdict(run_id="r/1", valid=Validity.VALID, judge="strict", engine="local", anomalies={})
    assert old.words_of("no-such").counted(1) == "1 no-such anomaly"
