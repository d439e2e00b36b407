"""Nobody is blamed who did not do it, in runs whose truth is known.

Who acknowledged is always among those that are named; and each clause of why a record is gone
holds.
"""

import re
from collections import Counter

import pytest

from checkers.acknowledger import Acked, Acknowledger, acknowledgers
from checkers.causes import cause_of_loss
from tests.checkers.acknowledged_model import AcknowledgedRun

RUNS = 40
ELECTED = re.compile(
    r"(?:n(\d), which [^,]*,|n(\d)|(led again)) (?:was elected )?in epoch (\d+) without it"
)


@pytest.mark.parametrize("part", range(5))
def test_the_true_one_is_always_named_and_mostly_alone(part: int) -> None:
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
    assert counts[False, True] > 0.8 * counts[False, False]
    assert counts[False, False] > 20
    assert counts[False, True] > 20


@pytest.mark.parametrize("part", range(5))
def test_each_clause_of_why_a_record_is_gone_is_true(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(part * RUNS, (part + 1) * RUNS):
        run = AcknowledgedRun(seed)
        on, kept = run.judged(), run.kept
        for row in run.sends:
            value = row["value"]
            broker, epoch, offset = run.truth[value]
            if kept[value]:
                continue
            record = Acked(
                value=value, offset=offset, sent_ns=row["invoke_ns"],
                acked_ns=row["complete_ns"], weak=True,
            )  # fmt: skip
            by = acknowledgers(on, record)
            cause = cause_of_loss(on, record, by)
            if len({each.broker for each in by}) > 1:
                assert cause.endswith("the record does not tell, and so not why it is gone")
                counts["doubtful"] += 1
                continue
            if cause.startswith("only "):
                counts["only"] += 1
                assert cause.startswith(f"only n{broker} had it: ")
                assert run.held[value] == {broker}, (seed, cause)
            assert f"n{broker} led" in cause
            if told := ELECTED.search(cause):
                counts["elected"] += 1
                who, values = run.begun[int(told[4])]
                assert who == int(told[1] or told[2] or broker), (seed, cause)
                assert int(told[4]) > epoch
                assert value not in values, (seed, cause)
            for word, kind in (("killed", "kill"), ("cut off", "isolate")):
                if word in cause:
                    counts[word] += 1
                    hits = [each for each in run.disturbances if each.kind == kind]
                    assert any(f"n{broker}" in each.nodes and each.ended_ns >= record.acked_ns
                               for each in hits)  # fmt: skip
    assert all(counts[each] > 10 for each in ("only", "elected", "killed", "cut off")), counts
