"""Whether a failure was seen before: the page of a run asks the index of its store."""

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from results.index import Index
from results.nights import write_night
from results.page import investigation
from results.page.bundles import bundle_link
from results.page.investigation import investigate
from results.page.recurrence import INDEX_FILE, Recurrence, index_beside
from results.record.atomic import StoreError
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.terms import Validity
from results.repeats import RANGE
from results.report import render_report
from results.samples import find_sample
from results.store import LATEST, Store
from results.tables import RunTables
from tests.results.conftest import MakeRun, fill_run, verdict_of


def a_run(store: Path, name: str, *, seed: int = 7, valid: Validity = Validity.INVALID) -> RunPaths:
    paths = RunPaths(store / "log" / name)
    verdict = verdict_of(paths.run_id, valid)
    if valid is Validity.VALID:
        verdict = dataclasses.replace(verdict, anomalies={})
    fill_run(paths, verdict=verdict, statistics=False, topic="log-0")
    plan = plan_from({"partitions": 2, "acks": "1", "judge": "strict", "seed": seed})
    paths.plan.write_text(dump_plan(plan), encoding="utf-8")
    return paths


def a_store(root: Path) -> Path:
    store = root / "runs"
    store.mkdir()
    (store / LATEST).symlink_to("log")
    return store


def asked(paths: RunPaths) -> Recurrence:
    return investigate(paths, RunTables(paths)).recurrence


def test_a_first_failure_was_never_seen(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    found = asked(a_run(store, "20261121T104500Z-7"))
    assert found.sightings() == [
        "When this page was written, no other run of this store had this failure."
    ]
    assert found.rates() == []
    assert not found.before


def test_an_index_that_breaks_in_a_store_that_may_not_be_read_costs_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path)
    paths = a_run(store, "20261121T104500Z-7")

    @contextmanager
    def breaking(paths: RunPaths) -> Iterator[Index | None]:
        with index_beside(paths) as index:
            with closing(sqlite3.connect(store / INDEX_FILE)) as other, other:
                other.execute("DROP TABLE runs")
            monkeypatch.setattr(Store, "runs", unreadable)
            yield index

    def unreadable(store: Store) -> list[RunPaths]:
        raise StoreError(f"{store.root} may not be read")

    monkeypatch.setattr(investigation, "index_beside", breaking)
    found = asked(paths)
    assert not found.known
    assert found.signature is not None


def test_nights_first_and_last_are_told_and_how_often_it_came_back(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    runs = [a_run(store, f"2026112{day}T010000Z-7") for day in (1, 2, 3)]
    a_run(store, "20261124T010000Z-7", valid=Validity.VALID)
    a_run(store, "20261125T010000Z-8", seed=8)
    for day, paths in zip((1, 2, 3), runs, strict=True):
        why, repeats = (Why.SAME_SEED, runs[0].run_id) if day > 1 else (Why.PLANNED, "")
        write_night(
            paths.night,
            Night(suite="nightly", night=f"2026112{day}T010000Z", entry="e", why=why,
                  repeats=repeats),
        )  # fmt: skip
    found = asked(runs[0])
    told = f"This failure was seen in 4 runs: first in {runs[0].run_id} (night 20261121T010000Z)"
    assert found.sightings() == [
        f"{told}, last in log/20261125T010000Z-8.",
        "First night: 20261121T010000Z; last night: 20261123T010000Z.",
    ]
    sentences = found.rates()
    among = "reruns included"
    three, settings = (
        "3 of 4 (30 % to 95 %)",
        "kafka:4.3.1, auto, log, faults kill+partition+pause, acks=1, judge=strict, partitions=2",
    )
    assert sentences == [
        "Reruns with this failure: same seed: 2 of 2 (34 % to 100 %); new seeds: not repeated.",
        (
            f"Other runs with the same settings ({settings}), {among}: {three} had this failure."
            f" {RANGE}"
        ),
    ]
    page = render_report(runs[0])
    assert "last night: 20261123T010000Z" in page
    assert "nightly, entry e" in page


def test_the_first_of_several_was_not_seen_before(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    first, later = (a_run(store, f"2026112{day}T010000Z-7") for day in (1, 2))
    assert [asked(each).before for each in (first, later)] == [False, True]


def test_an_index_that_lacks_most_runs_is_not_believed(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    paths = a_run(store, "20261121T104500Z-7")
    assert asked(paths).known
    for number in range(150):
        (store / "log" / f"20261120T104500Z-{number}").mkdir()
    assert "no index of all runs" in asked(paths).sightings()[0]


def test_a_large_store_without_an_index_is_not_read(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    paths = a_run(store, "20261121T104500Z-7")
    for number in range(150):
        (store / "log" / f"20261120T104500Z-{number}").mkdir()
    assert "has no index" in asked(paths).sightings()[0]
    assert not (store / INDEX_FILE).exists()


def test_a_run_that_was_copied_out_of_its_store_leaves_no_index_behind(make_run: MakeRun) -> None:
    paths = make_run()
    assert "has no index" in asked(paths).sightings()[0]
    assert not (paths.root.parent.parent / INDEX_FILE).exists()


def test_a_sample_lies_in_no_store_that_an_index_would_help() -> None:
    (told,) = asked(RunPaths(find_sample("loss-acks-1"))).sightings()
    assert told.startswith("This is a sample")


def test_a_valid_run_has_nothing_to_be_seen_before(tmp_path: Path) -> None:
    found = asked(a_run(a_store(tmp_path), "20261121T104500Z-7", valid=Validity.VALID))
    assert found.signature is None
    assert found.sightings() == found.rates() == []


def test_a_bundle_is_linked_if_it_is_there_and_else_how_to_make_it_is_told(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    before = bundle_link(paths, "runs/log/x", base=paths.root)
    assert before.href is None
    assert before.write == "logquake export runs/log/x --as bundle"
    (paths.root / before.name).write_bytes(b"packed")
    there = bundle_link(paths, "runs/log/x", base=paths.root.absolute())
    assert (there.href, there.size_bytes) == (f"./{before.name}", 6)
    assert bundle_link(paths, "runs/log/x", base=paths.root.parent).href is None
    assert f'href="./{before.name}"' in render_report(paths)
