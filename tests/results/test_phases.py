"""Where the time of a run went: its milestones, and what its command noted beside them."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from results.phases import phases, whole_s
from results.record.clock import NS_PER_S
from results.record.milestones import Milestone, load_milestones
from results.record.paths import RunPaths
from results.record.timings import Timings, read_timings, write_timings
from results.show import show_run

MakeRun = Callable[..., RunPaths]
REACHED = {
    "looked": 0.5, "started": 1, "ready": 4, "warmup": 5, "main": 10, "main-ended": 70,
    "healed": 70.5, "recovered": 71, "stopping-clients": 74, "final-reads": 75, "noted": 76,
    "stopped": 79, "collected": 80, "audited": 81,
}  # fmt: skip
TIMINGS = Timings(
    began_ns=-2 * NS_PER_S,
    judging_ns=82 * NS_PER_S,
    judged_ns=86 * NS_PER_S,
    drawn_ns=88 * NS_PER_S,
)


def milestones(*without: str) -> list[Milestone]:
    return [
        Milestone(name=name, at_ns=round(second * NS_PER_S))
        for name, second in REACHED.items()
        if name not in without
    ]


def test_the_phases_of_a_whole_run_follow_each_other_without_a_gap() -> None:
    found = phases(milestones(), TIMINGS)
    assert [(each.name, each.seconds) for each in found] == [
        ("from the command to the run's start", 2),
        ("brokers started", 4),
        ("topics created, clients started", 1),
        ("warm-up", 5),
        ("main phase", 60),
        ("healed and recovered", 1),
        ("traffic after the recovery", 3),
        ("last sends and final reads", 2),
        ("brokers stopped", 3),
        ("files collected", 1),
        ("hosts looked at", 1),
        ("judge ready", 1),
        ("judged", 4),
        ("page drawn", 2),
    ]
    assert whole_s(TIMINGS) == 90 == sum(each.seconds for each in found)


def test_a_phase_whose_end_never_came_is_left_out() -> None:
    names = [each.name for each in phases(milestones("noted"), Timings(began_ns=-1))]
    assert "last sends and final reads" not in names
    assert "brokers stopped" not in names
    assert names[-1] == "hosts looked at"
    assert whole_s(Timings(began_ns=-1)) is None


def test_a_milestone_that_came_twice_counts_when_it_came_first() -> None:
    again = [*milestones(), Milestone(name="ready", at_ns=50 * NS_PER_S)]
    assert phases(again, TIMINGS) == phases(milestones(), TIMINGS)


def test_timings_are_read_back(tmp_path: Path) -> None:
    path = RunPaths(tmp_path).timings
    assert read_timings(path) == Timings()
    write_timings(path, TIMINGS)
    assert read_timings(path) == TIMINGS


@pytest.mark.parametrize(
    "text", ["", "[]", "7", '{"began_ns": "soon"}', '{"drawn_ns": true}', '{"judged_ns": 1e400}',
             '{"judged_ns": 99999999999999999999}', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_time_is_not_known(text: str, tmp_path: Path) -> None:
    path = RunPaths(tmp_path).timings
    path.write_text(text)
    assert read_timings(path) == Timings()


def test_show_prints_them_with_their_sum(make_run: MakeRun) -> None:
    paths = make_run()
    lasted_ns = {each.name: each.at_ns for each in load_milestones(paths.milestones)}
    main_s = (lasted_ns["main-ended"] - lasted_ns["main"]) / NS_PER_S
    write_timings(paths.timings, TIMINGS)
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    show_run(paths, console)
    assert isinstance(console.file, io.StringIO)
    words = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert "where the time went seconds" in words
    assert f"main phase {main_s:.1f}" in words
    assert "judged 4.0" in words
    assert "all 90.0" in words
