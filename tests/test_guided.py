"""Guided hunts and blind hunts: the comparison resumes, and its page agrees with its lines."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pydantic import TypeAdapter

from benchmarks.guided import BLIND, GUIDED, Line, Step, main, play, steps_of, table, write_page
from benchmarks.night_results import append, load_lines
from cluster.reference.bugs import Bug
from harness.suites.journal import Ended, Journal, Judged, load_journal
from harness.suites.nights import NightFolder, nights_of, suite_folder
from harness.suites.suite import Suite, suite_from
from results.plots.growth import growth_plot
from results.record.clock import wait_until
from results.record.terms import Validity
from tests.suites.made_hunts import NIGHT, Run, lines, run_of

LINES = TypeAdapter(Line)
BAND = "FillBetweenPolyCollection"


def line(way: str, growth: tuple[tuple[float, int, int], ...], **more: object) -> Line:
    values: dict[str, object] = {
        "series": "simulated", "pair": 1, "way": way, "commit": "a" * 40, "catalogue": "0" * 12,
        "begun_at": NIGHT, "took_s": 60, "load": (0, 0), "runs": len(growth), "growth": growth,
        "outcomes": {"valid": len(growth)},
    }  # fmt: skip
    return Line.model_validate(values | more)


def bug(way: str, found: float | None, pair: int = 1) -> Line:
    told = {"series": "bugs", "bug": "vote-not-persisted", "found": found, "budget": 120}
    return line(way, (), pair=pair, **told)


def test_each_hunt_is_a_suite_and_has_a_name_of_its_own() -> None:
    steps = list(steps_of())
    assert len({step.name for step in steps}) == len(steps) == 2 * (10 + 4 + 5 * 5)
    suites = [suite_from(step.suite, step.name) for step in steps]
    assert len({suite.name for suite in suites}) == len(suites)
    ends = {step.bug: _ends(suite) for step, suite in zip(steps, suites, strict=True)}
    assert ends == {"": False, **{bug.value: bug.anomaly for bug in Bug}}


def _ends(suite: Suite) -> bool | str:
    assert suite.hunt is not None
    return suite.hunt.until_failure


def test_a_miss_counts_as_the_whole_budget_and_half_a_pair_as_nothing() -> None:
    told = table([
        bug(GUIDED, 10), bug(BLIND, 30), bug(GUIDED, None, 2), bug(BLIND, None, 2),
        bug(GUIDED, None, 3), bug(BLIND, 20, 3), bug(GUIDED, 1, 4),
    ])  # fmt: skip
    assert "| vote-not-persisted | guided | 1 of 3 | 120 (10 to 120) |" in told
    assert "| vote-not-persisted | blind | 2 of 3 | 30 (20 to 120) |" in told
    assert "| vote-not-persisted | +0 | 1 of 3 | 1 |" in told


def test_pairs_are_compared_by_their_differences() -> None:
    told = table([
        line(way, ((1.0, 10 + ahead, 20),), pair=pair)
        for pair in range(1, 7) for way, ahead in ((GUIDED, pair), (BLIND, 0))
    ])  # fmt: skip
    assert "| simulated | guided | 6 | 13.5 (11 to 16) | 20 (20 to 20) | 6 valid, 0 unknown" in told
    assert "| simulated | transitions | +3.5 | 6 of 6 | 0.031 |" in told
    assert "| simulated | pairs | +0 | 0 of 6 | none |" in told


def test_a_median_of_one_half_is_not_rounded_away() -> None:
    told = table([
        line(way, ((1.0, 126 + ahead, 20 - ahead),), pair=pair)
        for pair in (1, 2) for way, ahead in ((GUIDED, pair - 1), (BLIND, 0))
    ])  # fmt: skip
    assert "| simulated | guided | 2 | 126.5 (126 to 127) | 19.5 (19 to 20) |" in told
    assert "| simulated | transitions | +0.5 | 1 of 2 | 1 |" in told
    assert "| simulated | pairs | -0.5 | 0 of 2 | 1 |" in told


def test_a_plot_of_several_hunts_has_their_median_and_a_band() -> None:
    one, two = [(1.0, 2, 3)], [(1.0, 4, 9), (2.0, 5, 10)]
    assert BAND not in growth_plot({GUIDED: [one], BLIND: [two]})
    assert growth_plot({GUIDED: [one, two]}).count(f'id="growth-{BAND}') == 2
    assert growth_plot({GUIDED: [[]], BLIND: []}) == ""


def test_the_page_has_the_table_and_a_plot_of_what_was_played(tmp_path: Path) -> None:
    results = tmp_path / "guided.jsonl"
    for way in (GUIDED, BLIND):
        append(results, line(way, ((1.0, 2, 3), (2.0, 4, 9))))
    (tmp_path / "guided.md").write_text("# Guided against blind\n")
    write_page(results)
    text = (tmp_path / "guided.md").read_text()
    assert "| simulated | guided | 1 | 4 (4 to 4) | 9 (9 to 9) |" in text
    assert "(guided-simulated-pairs.svg)" in text
    assert "guided-kafka" not in text
    assert (tmp_path / "guided-simulated-transitions.svg").read_text().startswith("<svg")


def test_of_a_hunt_that_is_over_only_the_line_is_missing(tmp_path: Path) -> None:
    store, results = tmp_path / "store", tmp_path / "guided.jsonl"
    bug = Bug.VOTE_NOT_PERSISTED.value
    step = Step(series="bugs", pair=1, way=BLIND, bug=bug, suite={"name": "x", "hunt": {}})
    folder = NightFolder(root=suite_folder(store, "x") / NIGHT)
    invalid = Validity.INVALID
    runs = [
        Run(transitions=("a",)), Run(valid=invalid, broken=("lost-write",)),
        Run(valid=invalid, broken=("double-vote", "lost-write")),
    ]  # fmt: skip
    for item in (1, 2, 3):
        (store / run_of(item)).mkdir(parents=True)
    (store / "x.commit").write_text("of its begin")
    Journal(folder.journal).write(*lines(runs), Ended(at=2_000))
    before = folder.journal.read_bytes()
    appended = play(step, store, results)
    assert folder.journal.read_bytes() == before
    assert appended is not None
    assert load_lines(results, LINES) == [appended]
    assert (appended.runs, appended.found, appended.took_s) == (3, 3, 1000)
    assert appended.outcomes == {"valid": 1, "invalid": 2, "unknown": 0}
    assert appended.commit == "of its begin"
    assert [*appended.growth] == [(1, 1, 0), (2, 1, 0), (3, 1, 0)]
    assert [(store / run_of(item)).exists() for item in (1, 2, 3)] == [False, True, True]
    assert not (store / "x.toml").exists()


def first_verdict(store: Path) -> Path | None:
    """Return the journal of the first hunt once the journal has a verdict."""
    for folder in nights_of(store, "simulated-1-guided"):
        if any(isinstance(each, Judged) for each in load_journal(folder.journal)):
            return folder.journal
    return None


@pytest.mark.night
@pytest.mark.timeout(900)
def test_a_pair_that_was_killed_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--small", "--only", "simulated", "--store", str(tmp_path)]
    store = tmp_path / "small"
    begun = subprocess.Popen([sys.executable, "-m", "benchmarks.guided", *words])
    children: list[psutil.Process] = []
    try:
        wait_until(lambda: first_verdict(store), timeout_s=200, what="a verdict")
    finally:
        children = psutil.Process(begun.pid).children(recursive=True)
        begun.send_signal(signal.SIGKILL)
        begun.wait()
    assert not psutil.wait_procs(children, timeout=60)[1]
    assert main(words) == 0
    played = load_lines(store / "guided.jsonl", LINES)
    assert [each.way for each in played] == [GUIDED, BLIND]
    assert [len(nights_of(store, f"simulated-1-{way}")) for way in (GUIDED, BLIND)] == [1, 1]
    assert all(each.growth[-1][0] >= 1 for each in played), "the whole minute was played"
    assert (store / "guided-simulated-pairs.svg").exists()
    capsys.readouterr()
    assert main([*words, "--list"]) == 0
    assert capsys.readouterr().out.count("done ") == 2
