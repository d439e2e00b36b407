"""Nobody can see who leads while nobody asks: reads of that time are not called uncommitted."""

import pytest

from checkers import uncommitted_read
from checkers.uncommitted_read import SEEN_WITHIN_NS
from tests.checkers.faithful_clients import Row
from tests.checkers.hand import B, S, found, group, leads, read

CHECKER = uncommitted_read.CHECKER
AWAKE = S + 2 * SEEN_WITHIN_NS
"""The observers' first question since the poll."""


def announced(broker: int, epoch: int, mark: int, *, at: int) -> Row:
    return {**leads(broker, epoch, at=at), "high_watermark": mark}


POLL: Row = {**read(B, 1, phase="main"), "complete_ns": S}
CUT_OFF = announced(1, 0, 1, at=AWAKE + 1)


@pytest.mark.parametrize("seen", [AWAKE + S, AWAKE + SEEN_WITHIN_NS])
def test_a_newer_epoch_is_seen_only_when_the_observers_are_awake_again(seen: int) -> None:
    """n2 had led, and served the reader, for long when n1, which is cut off, answered first."""
    newer = announced(2, 1, 2, at=seen)
    result = found(CHECKER, group(polls=[POLL], leadership=[CUT_OFF, newer]))
    assert (result.rows, result.anomalies) == (1, ())


def test_what_even_the_newer_leader_has_not_committed_was_read_too_early() -> None:
    newer = announced(2, 1, 1, at=AWAKE + S)
    (anomaly,) = found(CHECKER, group(polls=[POLL], leadership=[CUT_OFF, newer])).anomalies
    assert anomaly.evidence["announced_by"] == 2


def test_an_epoch_that_begins_much_later_cannot_have_served_it() -> None:
    later = announced(2, 1, 2, at=AWAKE + SEEN_WITHIN_NS + 1)
    (anomaly,) = found(CHECKER, group(polls=[POLL], leadership=[CUT_OFF, later])).anomalies
    assert anomaly.evidence["announced_by"] == 1
