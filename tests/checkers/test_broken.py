"""The corpus of broken records: its own rules, and what the judge says of each change."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.run import judge_runs
from results.record.verdict import Verdict
from results.verdict_json import verdict_text
from tests.broken import catalogue
from tests.broken.__main__ import wrong
from tests.broken.corpus import CALM, INNOCENT, QUIET, Change

LEAST_BROKEN = 150
LEAST_INNOCENT = 150
INNOCENT_OF_BASE = 3
LEAST_OF_ROW, MOST_OF_ANOMALY = 3, 6
CHANGES = catalogue()
BROKEN = [each for each in CHANGES if each.row != INNOCENT]


def first_of_each_row() -> list[Change]:
    return list({each.row: each for each in reversed(CHANGES)}.values())


def test_every_change_has_a_name_of_its_own() -> None:
    assert Counter(each.name for each in CHANGES).most_common(1)[0][1] == 1


def test_there_are_enough_changes_of_either_kind() -> None:
    assert len(BROKEN) >= LEAST_BROKEN
    assert len(CHANGES) - len(BROKEN) >= LEAST_INNOCENT


def test_every_row_has_several_changes_and_no_anomaly_too_many() -> None:
    rows = Counter(each.row for each in BROKEN)
    kinds = Counter((each.row, each.finds) for each in BROKEN)
    assert {row: count for row, count in rows.items() if count < LEAST_OF_ROW} == {}
    assert {kind: count for kind, count in kinds.items() if count > MOST_OF_ANOMALY} == {}


def test_half_of_the_broken_changes_are_made_while_a_fault_is_in_force() -> None:
    disturbed = sum(each.moment not in {CALM, QUIET} for each in BROKEN)
    assert 2 * disturbed >= len(BROKEN)


def test_innocent_changes_say_why_a_correct_kafka_may_cause_them() -> None:
    assert [each.name for each in CHANGES if each.row == INNOCENT and not each.make.__doc__] == []


@pytest.mark.parametrize("change", first_of_each_row(), ids=lambda change: change.name)
def test_a_change_of_each_row_comes_out_as_it_must(change: Change, tmp_path: Path) -> None:
    (verdict,) = judge_runs([change.save(tmp_path)], engine="local")
    assert wrong(change, verdict) == ""


def some_of_each_module(*, innocent: bool) -> list[Change]:
    """Return a change of each file; of innocent ones among broken ones, a change of each function.

    Those are about what is new, and few.
    """
    mixed = {each.make.__module__ for each in BROKEN}
    chosen: dict[object, Change] = {}
    for each in CHANGES:
        if (each.row == INNOCENT) is innocent:
            module = each.make.__module__
            chosen[each.make if innocent and module in mixed else module] = each
    return list(chosen.values())


@pytest.mark.parametrize("innocent", [True, False])
def test_a_change_of_each_file_comes_out_as_it_must(tmp_path: Path, *, innocent: bool) -> None:
    """In one go. Innocent ones beside broken ones are judged by no other test of the day."""
    changes = some_of_each_module(innocent=innocent)
    assert len(changes) > 10
    verdicts = judge_runs([each.save(tmp_path) for each in changes], engine="local")
    said = [(each.name, wrong(each, told)) for each, told in zip(changes, verdicts, strict=True)]
    assert [each for each in said if each[1]] == []


def some_of_each_row() -> list[Change]:
    """Return the last change of each row, and innocent ones of each base: moments take turns."""
    rows = {each.row: each for each in BROKEN}
    innocent: dict[str, list[Change]] = {}
    for each in CHANGES:
        if each.row == INNOCENT:
            innocent.setdefault(each.base, []).append(each)
    turns = [
        some[8 * turn % len(some)]
        for some in innocent.values()
        for turn in range(min(INNOCENT_OF_BASE, len(some)))
    ]
    return list({each.name: each for each in (*rows.values(), *turns)}.values())


@pytest.mark.night
@pytest.mark.spark
@pytest.mark.timeout(1800)  # A busy machine takes ten times as long.
def test_changes_of_each_row_come_out_as_they_must_by_both_engines(tmp_path: Path) -> None:
    """In one job of Spark; a verdict is the same bytes but for the engine's name."""
    assert _wrong_ones(some_of_each_row(), tmp_path) == []


@pytest.mark.spark
@pytest.mark.night
@pytest.mark.timeout(3600)
def test_every_change_comes_out_as_it_must_by_both_engines(tmp_path: Path) -> None:
    assert _wrong_ones(CHANGES, tmp_path) == []


def _wrong_ones(changes: list[Change], folder: Path) -> list[tuple[str, str]]:
    roots = [each.save(folder) for each in changes]
    local, spark = (judge_runs(roots, engine=engine) for engine in ("local", "spark"))
    said = [(each.name, wrong(each, verdict)) for each, verdict in zip(changes, local, strict=True)]
    differ = [
        (each.name, "the engines differ")
        for each, one, other in zip(changes, local, spark, strict=True)
        if _bytes(one) != _bytes(other)
    ]
    return [each for each in said if each[1]] + differ


def _bytes(verdict: Verdict) -> str:
    return verdict_text(replace(verdict, engine=""))
