"""What is judged while a run goes on is what is judged at its end, however looks cut the record."""

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.columns import ints
from checkers.live.history import thinned
from checkers.live.kernels import kernels
from checkers.protocol import Checker
from checkers.registry import CHECKERS
from results.record.clock import NS_PER_S
from results.record.tables import LIVE
from results.record.terms import AnomalyClass, Judge
from tests.checkers.cut_records import CutRecord

_SAMPLES, _BASES = Path("results/samples"), Path("tests/broken/bases")
VALID = (_BASES / "log", _BASES / "txn", _BASES / "groups", _BASES / "disks", _SAMPLES / "valid")
LOSSES = (_SAMPLES / "loss-acks-1", _SAMPLES / "loss-unclean")


@cache
def record(root: Path, judge: Judge) -> CutRecord:
    return CutRecord(root, judge)


def steps(of: CutRecord, seconds: float) -> list[int]:
    return list(range(0, of.end_ns, round(seconds * NS_PER_S)))


@pytest.mark.parametrize("root", VALID, ids=lambda root: root.name)
def test_a_run_that_is_valid_is_not_stopped(root: Path) -> None:
    run = record(root, Judge.CONTRACT)
    assert run.looked_at(steps(run, 6)) is None


@pytest.mark.parametrize("root", LOSSES, ids=lambda root: root.name)
def test_a_loss_stops_the_run_and_the_whole_record_shows_it(root: Path) -> None:
    run = record(root, Judge.STRICT)
    found = run.looked_at(steps(run, 6))
    assert found is not None
    at = found.example
    assert (found.name, at.topic, at.partition, at.offset) in run.found_by_all


@pytest.mark.parametrize("root", LOSSES, ids=lambda root: root.name)
def test_what_the_contract_allows_stops_nothing(root: Path) -> None:
    run = record(root, Judge.CONTRACT)
    assert run.looked_at(steps(run, 6)) is None


@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.floats(0, 1), min_size=1, max_size=5), data=st.data())
def test_however_the_looks_cut_a_record_the_judge_at_the_end_agrees(
    cuts: list[float], data: st.DataObject
) -> None:
    run = record(_BASES / data.draw(st.sampled_from(["disks", "log"])), Judge.STRICT)
    times = sorted({round(cut * run.end_ns) for cut in cuts} | {run.end_ns, run.end_ns + 1})
    found = run.looked_at(times)
    wanted = run.found_by_all
    if found is None:
        assert not wanted
    else:
        at = found.example
        assert (found.name, at.topic, at.partition, at.offset) in wanted


def test_what_it_keeps_does_not_grow_with_the_run() -> None:
    run, rows = record(_SAMPLES / "valid", Judge.CONTRACT), list[int]()
    assert run.looked_at(steps(run, 6), rows=rows) is None
    # Faults keep replicas away, and rows with them; behind them the window is as small as before.
    assert max(rows) < run.rows / 4
    assert min(rows[-3:]) < 1.5 * max(rows[len(rows) // 3 : 2 * len(rows) // 3])


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda each: each.name)
def test_every_check_looks_meanwhile_or_says_why_it_waits(checker: Checker) -> None:
    if checker.anomaly_class is AnomalyClass.HARNESS:
        assert (checker.meanwhile, checker.waits) == (None, "")
    else:
        assert (checker.meanwhile is None) == bool(checker.waits)


def test_of_the_harnesss_own_checks_one_looks_meanwhile() -> None:
    harness = {each.name for each in kernels() if each.anomaly_class is AnomalyClass.HARNESS}
    assert harness == {"broker-hit-from-outside"}


def told(*rows: tuple[int, int, list[int]]) -> pa.Table:
    """Answers of one observer: time in seconds, leader epoch, ISR."""
    return pa.Table.from_pylist(
        [
            {"topic": "log-0", "partition": 0, "source": "metadata", "observer": "n1",
             "incarnation": 1, "leader": 1, "leader_epoch": epoch, "isr": isr,
             "observed_ns": at_s * NS_PER_S}
            for at_s, epoch, isr in rows
        ],
        schema=LIVE["leadership"],
    )  # fmt: skip


def test_of_old_answers_those_stay_that_say_something_new() -> None:
    rows = told((1, 1, [1, 2]), (2, 1, [1, 2]), (3, 1, [1, 2]), (4, 1, [1]), (5, 2, [1]),
                (6, 2, [1]), (7, 2, [1]), (8, 2, [1]))  # fmt: skip
    kept = thinned("leadership", rows, fresh_ns=8 * NS_PER_S, old_ns=0)
    # The first of the series; around each change the answer before it and the one that tells it.
    assert (ints(kept, "observed_ns") // NS_PER_S).tolist() == [1, 3, 4, 5, 8]


def test_of_very_old_answers_the_first_stays() -> None:
    rows = told((1, 1, [1]), (2, 2, [1]), (3, 3, [1]), (400, 4, [1]))
    kept = thinned("leadership", rows, fresh_ns=390 * NS_PER_S, old_ns=100 * NS_PER_S)
    assert ints(kept, "leader_epoch").tolist() == [1, 4]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([[1], [1, 2]])), max_size=30))
def test_thinning_twice_changes_nothing_more(said: list[tuple[int, list[int]]]) -> None:
    rows = told(*((at, epoch, isr) for at, (epoch, isr) in enumerate(said)))
    once = thinned("leadership", rows, fresh_ns=25 * NS_PER_S, old_ns=5 * NS_PER_S)
    twice = thinned("leadership", once, fresh_ns=25 * NS_PER_S, old_ns=5 * NS_PER_S)
    assert once.num_rows <= rows.num_rows
    assert np.array_equal(ints(once, "observed_ns"), ints(twice, "observed_ns"))
