"""The series of hunts on releases with known bugs: its steps, its evidence, and its table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.hunts import MECHANISMS, STEPS, Line, Step, shows, table
from harness.suites.journal import Journal
from results.record.night import Why
from results.record.paths import RunPaths
from results.record.plan import plan_from
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Example, Verdict
from results.verdict_json import write_verdict
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
    seen = {
        ticket: dict.fromkeys(runs, MECHANISMS[ticket].breaks[:1])
        for ticket, runs in (shown or {}).items()
    }
    line = Line(name=STEP.name, journal="part.jsonl", commit="c", took_s=1, load=(1, 1), shown=seen)
    return table([line], folder)


def broken_by(anomaly: str, folder: Path, *, cause: str) -> RunPaths:
    """Return a run whose verdict has an anomaly that is not allowed."""
    example = Example(
        sentence="it broke", evidence={}, topic="", topic_id="", partition=-1, offset=-1,
        allowed=False, trusted=True, why="", cause=cause,
    )  # fmt: skip
    summary = AnomalySummary(
        anomaly_class=AnomalyClass.SAFETY, count=1, allowed=0, trusted=1, examples=(example,)
    )
    run = RunPaths(folder)
    folder.mkdir()
    verdict = Verdict(
        run_id="log/1", valid=Validity.INVALID, judge="contract", engine="local",
        anomalies={anomaly: summary}, unknown_because=(),
    )  # fmt: skip
    write_verdict(run, verdict)
    return run


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
    found, _, vain = text.partition("did not find")
    assert "| [KAFKA-14704](" in found
    assert f"| [{TICKET}](" not in found
    assert f"| [{TICKET}](" in vain


def test_what_was_not_found_is_told_with_how_long_it_was_tried(tmp_path: Path) -> None:
    _, _, vain = told(tmp_path, [Run(), Run()]).partition("did not find")
    assert f"| {STEP.system} | 2 min | 2 | `{STEP.command}` |" in vain


def test_a_mechanism_is_searched_for_in_its_files(tmp_path: Path) -> None:
    run = broken_by("isr-not-restored", tmp_path / "one", cause="op p1#2 came from a stray log dir")
    log = run.root / "nodes" / "n1" / "logs" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("INFO Found nothing")
    assert not shows(MECHANISMS[TICKET], run)
    log.write_text("WARN Found stray log dir Log(dir=...)")
    assert shows(MECHANISMS[TICKET], run)


def test_a_mechanism_is_searched_for_in_the_verdict(tmp_path: Path) -> None:
    cause = "it answered with the older position of op p1#2"
    mechanism = MECHANISMS["KAFKA-5600"]
    assert shows(mechanism, broken_by("commit-lost", tmp_path / "one", cause=cause))
    assert not shows(mechanism, broken_by("lost-write", tmp_path / "other", cause=cause))
    assert not shows(mechanism, broken_by("commit-lost", tmp_path / "third", cause="unknown"))


def test_every_expected_ticket_has_a_mechanism() -> None:
    assert {each.ticket for each in STEPS if each.ticket} <= set(MECHANISMS)


def test_a_hunt_without_a_known_bug_names_each_of_its_systems() -> None:
    (step,) = (each for each in STEPS if not each.ticket)
    assert step.options.count("--system") == len(step.system.split()) > 1
    assert "--control" not in step.options
