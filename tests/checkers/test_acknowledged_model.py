"""Nobody is blamed who did not acknowledge: the true one is always among those that are named."""

from collections import Counter

import pytest

from checkers.acknowledger import Acked, Acknowledger, acknowledgers
from tests.checkers.acknowledged_model import AcknowledgedRun

RUNS = 40


@pytest.mark.parametrize("part", range(5))
def test_the_true_one_is_always_named_and_nearly_always_alone(part: int) -> None:
    counts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(part * RUNS, (part + 1) * RUNS):
        run = AcknowledgedRun(seed)
        on, kept = run.judged(), run.kept
        for row in run.sends:
            broker, epoch, offset = run.truth[row["value"]]
            record = Acked(
                value=row["value"], offset=offset,
                sent_ns=row["invoke_ns"], acked_ns=row["complete_ns"],
            )  # fmt: skip
            named = acknowledgers(on, record)
            assert Acknowledger(broker=broker, epoch=epoch) in named, (seed, row, named)
            counts[kept[row["value"]], len({each.broker for each in named}) == 1] += 1
    assert counts[True, False] == 0
    assert counts[False, True] > 1.5 * counts[False, False]
    assert counts[False, True] > 20
