"""The series of hunts on releases with known bugs: its steps, its evidence, its table."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.hunts import STEPS, Line, Step, shows, table
from harness.suites.journal import Journal
from results.record.night import Why
from results.record.plan import plan_from
from results.record.terms import Validity
from tests.suites.made_hunts import Run, lines, run_of

STEP = next(each for each in STEPS if each.system == "kafka:3.6.1")
NIGHT = "20261128T010000Z"
BROKEN = Run(valid=Validity.INVALID, broken=("isr-not-restored",))


def again(why: Why, *, broken: bool) -> Run:
    return replace(BROKEN if broken else Run(), why=why, repeats=run_of(1), seed=2)


def control() -> Run:
    return replace(again(Why.CONTROL, broken=False), plan={"system": "kafka:3.7.1"})


def told(folder: Path, runs: list[Run], shown: tuple[str, ...] = ()) -> str:
    Journal(folder / "part.jsonl").write(*lines(runs, NIGHT))
    line = Line(
        name=STEP.name, journal="part.jsonl", commit="c", took_s=1, load=(1, 1), shown=shown
    )
    return table([line], folder)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step.name))
def test_a_control_keeps_its_metadata_in_the_same_way(step: Step) -> None:
    one, other = (plan_from({"system": each}).mode for each in (step.system, step.control))
    assert one is other


def test_a_find_has_its_ticket_only_if_a_run_shows_the_mechanism(tmp_path: Path) -> None:
    runs = [BROKEN, again(Why.SAME_SEED, broken=True), again(Why.FRESH_SEED, broken=False),
            control()]  # fmt: skip
    text = told(tmp_path, runs, shown=(run_of(1), run_of(2)))
    assert "[KAFKA-14616](" in text
    assert "| 1 of 2 " in text
    assert "kafka:3.7.1: 0 of 1" in text
    assert "2 of 2 failed runs" in text
    assert f"`{STEP.command}`" in text
    assert "| another |" in told(tmp_path / "other", runs)


def test_what_was_not_found_is_told_with_how_long_it_was_tried(tmp_path: Path) -> None:
    _, _, vain = told(tmp_path, [Run(), Run()]).partition("in vain")
    assert f"| {STEP.system} | 2 min | 2 | `{STEP.command}` |" in vain


def test_the_mechanism_is_looked_for_in_logs_and_verdict(tmp_path: Path) -> None:
    logs = tmp_path / "log" / "run" / "nodes" / "n1" / "logs"
    logs.mkdir(parents=True)
    log = logs / "server.log"
    log.write_text("INFO nothing of it")
    assert not shows(STEP, tmp_path, "log/run")
    log.write_text("WARN Found stray log dir Log(dir=...)")
    assert shows(STEP, tmp_path, "log/run")
    log.unlink()
    (tmp_path / "log" / "run" / "verdict.json").write_text("Found stray log dir")
    assert shows(STEP, tmp_path, "log/run")
