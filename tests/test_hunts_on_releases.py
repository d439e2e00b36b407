"""The series of hunts on releases with known bugs: its steps, its evidence, its table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.hunts import MECHANISMS, STEPS, Line, Step, shows, table
from harness.suites.journal import Journal
from results.record.night import Why
from results.record.plan import plan_from
from results.record.terms import Validity
from tests.suites.made_hunts import Run, lines, run_of

STEP = next(each for each in STEPS if each.system == "kafka:3.6.1")
TICKET = STEP.ticket
NIGHT = "20261128T010000Z"
BROKEN = Run(valid=Validity.INVALID, broken=("isr-not-restored",))


def again(why: Why, *, broken: bool) -> Run:
    return replace(BROKEN if broken else Run(), why=why, repeats=run_of(1), seed=2)


def control() -> Run:
    return replace(again(Why.CONTROL, broken=False), plan={"system": "kafka:3.7.1"})


def told(folder: Path, runs: list[Run], shown: Mapping[str, tuple[str, ...]] | None = None) -> str:
    Journal(folder / "part.jsonl").write(*lines(runs, NIGHT))
    line = Line(
        name=STEP.name, journal="part.jsonl", commit="c", took_s=1, load=(1, 1), shown=shown or {}
    )
    return table([line], folder)


@pytest.mark.parametrize(
    "step", [each for each in STEPS if each.control], ids=lambda step: str(step.name)
)
def test_a_control_keeps_its_metadata_in_the_same_way(step: Step) -> None:
    one, other = (plan_from({"system": each}).mode for each in (step.system, step.control))
    assert one is other


def test_a_find_has_its_ticket_only_if_a_run_shows_the_mechanism(tmp_path: Path) -> None:
    runs = [BROKEN, again(Why.SAME_SEED, broken=True), again(Why.FRESH_SEED, broken=False),
            control()]  # fmt: skip
    text = told(tmp_path, runs, shown={TICKET: (run_of(1), run_of(2))})
    assert f"| [{TICKET}](" in text
    assert (
        f"| kafka:3.6.1 | 1 of 2 | kafka:3.7.1: 0 of 1 | `isr-not-restored` | `{STEP.command}`"
        in text
    )
    assert "| none known | kafka:3.6.1 | 1 of 2 |" in told(tmp_path / "other", runs)


def test_a_failure_without_the_mechanism_is_not_counted_as_the_ticket(tmp_path: Path) -> None:
    runs = [BROKEN, again(Why.SAME_SEED, broken=True), again(Why.FRESH_SEED, broken=False)]
    text = told(tmp_path, runs, shown={TICKET: (run_of(1),)})
    assert "| kafka:3.6.1 | 0 of 2 (1 failed without it) |" in text


def test_another_ticket_than_the_expected_one_counts_and_that_one_was_in_vain(
    tmp_path: Path,
) -> None:
    text = told(tmp_path, [BROKEN], shown={"KAFKA-14704": (run_of(1),)})
    found, _, vain = text.partition("in vain")
    assert "| [KAFKA-14704](" in found
    assert f"| [{TICKET}](" not in found
    assert f"| [{TICKET}](" in vain


def test_what_was_not_found_is_told_with_how_long_it_was_tried(tmp_path: Path) -> None:
    _, _, vain = told(tmp_path, [Run(), Run()]).partition("in vain")
    assert f"| {STEP.system} | 2 min | 2 | `{STEP.command}` |" in vain


def test_a_mechanism_is_searched_for_in_its_files(tmp_path: Path) -> None:
    logs = tmp_path / "nodes" / "n1" / "logs"
    logs.mkdir(parents=True)
    (logs / "server.log").write_text("INFO Found nothing")
    (tmp_path / "verdict.json").write_text(
        "Found stray log dir; answered with the older position of op p1#2"
    )
    assert not shows(MECHANISMS[TICKET], BROKEN.broken, tmp_path)
    assert shows(MECHANISMS["KAFKA-5600"], ["commit-lost"], tmp_path)
    (logs / "server.log").write_text("WARN Found stray log dir Log(dir=...)")
    assert shows(MECHANISMS[TICKET], BROKEN.broken, tmp_path)
    assert not shows(MECHANISMS[TICKET], ["lost-write"], tmp_path)


def test_every_expected_ticket_has_a_mechanism() -> None:
    assert {each.ticket for each in STEPS if each.ticket} <= set(MECHANISMS)


def test_a_hunt_without_a_known_bug_names_each_of_its_systems() -> None:
    (step,) = (each for each in STEPS if not each.ticket)
    assert step.options.count("--system") == len(step.system.split()) > 1
    assert "--control" not in step.options
