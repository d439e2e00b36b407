"""No broker is named for what it did not do, in runs whose truth is known.

Who acknowledged is always among those that are named, each clause of why a record is gone holds,
and each event of the story that page and terminal tell lies where it truly was.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers.acknowledger import Acked, Acknowledger, acknowledgers
from checkers.causes import cause_of_loss
from checkers.columns import NONE
from results.record.paths import RunPaths
from tests.checkers.acknowledged_model import AcknowledgedRun
from tests.checkers.cause_clauses import CLAUSES, clauses_of
from tests.checkers.known_truth import wrong_in_cause, wrong_story
from tests.checkers.modelled_record import Told, group_of_run

NIGHT, PARTS = 2000, 20
NAMED = 200
"""So many runs have the causes of all their losses held to the truth."""
SELDOM = {
    "no leader", "rivals", "sequence", "had held", "had truncated", "log fell", "outside", "gave",
    "elr", "not in sync", "lack", "unread", "none read", "in force",
}  # fmt: skip
"""Clauses that such a run gives no case for, or seldom one: it always has a leader, never two of an
epoch, no copy of a log but the last one, and no producer that goes on behind a gap. The last four
are said of a loss that only reads show, where no cause is looked for.
"""
TOLD = (*range(8), 36, 38, 215, 335, 711)
"""The seeds of the runs that are told by default: the last ones have rarer anomalies."""
STORIES = 3
"""So many of a run are told: each costs as much as the run."""
TORN = "torn-transaction"
CAUSED = {"lost-write", "inconsistent-offsets"}


def test_who_acknowledged_is_always_named_and_mostly_alone() -> None:
    counts: Counter[tuple[bool, bool]] = Counter()
    said: Counter[str] = Counter()
    for seed in range(NAMED):
        run = AcknowledgedRun(seed)
        on, kept, truth = group_of_run(run), run.kept, run.truth
        for row in run.sends:
            if not row["acked"]:
                continue
            value = row["value"]
            broker, epoch, offset = truth.acknowledged[value]
            record = Acked(
                value=value, offset=offset, sent_ns=row["invoke_ns"],
                acked_ns=row["complete_ns"], weak=row["acks"] == "1",
            )  # fmt: skip
            named = acknowledgers(on, record)
            either = {Acknowledger(broker=each, epoch=epoch) for each in (broker, NONE)}
            assert either & {*named}, (seed, row, named)
            counts[kept[value], len({each.broker for each in named}) == 1] += 1
            if not kept[value]:
                cause = cause_of_loss(on, record, named)
                assert not [*wrong_in_cause(cause, value, record.acked_ns, truth)], (seed, cause)
                said.update(clauses_of(cause))
    assert counts[False, True] > 0.5 * counts[False, False]
    assert {*CLAUSES} - {*said} <= SELDOM, said
    most = ("led", "only", "without", "while", "within", "in the ISR", "only after", "as well")
    assert all(said[each] > 20 for each in most), said


def told_of(seed: int, folder: Path, counts: Counter[str]) -> Iterator[str]:
    """Yield what the stories of a run say that is not so, and count what they say."""
    run = AcknowledgedRun(seed)
    told = Told(run, RunPaths(folder / f"{seed}"))
    found = list(told.examples())
    counts["runs"] += 1
    counts.update({name for name, _ in found})
    run.random.shuffle(found)
    found.sort(key=lambda each: each[0] not in {*CAUSED, TORN})
    for name, example in found[:STORIES]:
        for wrong in wrong_story(told.story_of(name, example), example, run.truth, counts):
            yield f"seed {seed}, {name} at {example.offset}: {wrong}"


def test_each_event_of_a_story_lies_where_it_was(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    wrong = [each for seed in TOLD for each in told_of(seed, tmp_path, counts)]
    assert not wrong, "\n".join(wrong[:10])
    for each in ("event cut", "event acknowledged", "event held", "event led", "event end",
                 "1 named", "2 named", "lines proving", "duplicate", "lost-write",
                 TORN, "log-divergence"):  # fmt: skip
        assert counts[each], (each, counts)


@pytest.mark.night
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_each_event_lies_where_it_was_in_two_thousand_runs(part: int, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    seeds = range(part * NIGHT // PARTS, (part + 1) * NIGHT // PARTS)
    wrong = [each for seed in seeds for each in told_of(seed, tmp_path, counts)]
    print(dict(sorted(counts.items())))  # noqa: T201 - the figures of the night
    assert not wrong, "\n".join(wrong[:10])
