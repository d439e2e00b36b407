"""What a run's command notes of its own time."""

from pathlib import Path

from harness.timing import Timer, process_began_s
from results.record.clock import NS_PER_S, RunClock, stopwatch_s
from results.record.paths import RunPaths
from results.record.timings import Timings, read_timings


def test_a_command_begins_before_its_run(tmp_path: Path) -> None:
    paths, clock = RunPaths(tmp_path), RunClock.starting_now()
    timer = Timer(clock.start_ns / NS_PER_S - 2)
    timer.starts(clock)
    timer.judging()
    timer.judged(paths)
    timer.drawn(paths)
    noted = read_timings(paths.timings)
    assert noted.began_ns is not None
    assert abs(noted.began_ns + 2 * NS_PER_S) < NS_PER_S / 1000
    assert 0 <= (noted.judging_ns or -1) <= (noted.judged_ns or -1) <= (noted.drawn_ns or -1)


def test_of_a_run_that_no_clock_of_ours_measures_nothing_is_noted(tmp_path: Path) -> None:
    timer = Timer(stopwatch_s())
    timer.judging()
    timer.judged(RunPaths(tmp_path))
    assert not RunPaths(tmp_path).timings.exists()
    assert read_timings(RunPaths(tmp_path).timings) == Timings()


def test_this_process_began_before_now() -> None:
    assert process_began_s() < stopwatch_s()
