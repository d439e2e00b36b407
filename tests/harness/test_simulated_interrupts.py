"""Ctrl-C in runs that the command plays itself: answered at once, ended in order, judged."""

import io
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from cluster.reference.simulator.agenda import Agenda
from harness.cli import exit_code
from harness.exit_codes import UNKNOWN, VALID
from harness.interrupt import SIGNALS, SIMULATED
from harness.scenarios.choices import scenario_named, story_values
from harness.simulated.errands import Errand, Steps
from harness.simulated.session import SimulatedSession
from results.index.reading import read_run
from results.page.headline import headline
from results.record.clock import NS_PER_S, wait_until
from results.record.milestones import Milestone, load_milestones
from results.record.plan import Plan, plan_from
from results.store import is_alive
from results.verdict_json import read_verdict
from tests.harness.commands import HERE, newest

PLAN = {"system": "reference", "hosts": "simulated", "seed": 1, "rate": 100, "warmup_s": 2,
        "time_limit_s": 40, "nemesis": ["pause"], "nodes": 3}  # fmt: skip


@pytest.fixture(autouse=True)
def restore_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Typist(io.StringIO):
    """A console's file; where a text is printed, Ctrl-C is pressed so many times."""

    def __init__(self, text: str, times: int = 1) -> None:
        super().__init__()
        self._text, self._left = text, times

    def write(self, text: str) -> int:
        written = super().write(text)
        while self._left and self._text in self.getvalue():
            self._left -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return written


def play(store: Path, typist: Typist, plan: Plan | None = None) -> list[str]:
    """Play a run; return what Ctrl-C was answered."""
    answers: list[str] = []
    console = Console(file=typist, width=500)
    session = SimulatedSession(plan or plan_from(PLAN), store, console, answers.append)
    session.run(engine="local")
    return answers


def reached(store: Path) -> dict[str, Milestone]:
    return {each.name: each for each in load_milestones(newest(store).milestones)}


def test_a_wait_that_is_ended_early_is_not_ended_twice() -> None:
    agenda, told = Agenda(), list[tuple[str, int]]()

    def steps() -> Steps:
        yield 60.0
        told.append(("first", agenda.now // NS_PER_S))
        yield 90.0
        told.append(("second", agenda.now // NS_PER_S))

    errand = Errand(agenda, steps())
    agenda.run_until(10 * NS_PER_S)
    errand.hasten()
    agenda.run_until(70 * NS_PER_S)
    assert told == [("first", 10)], "the end of the first wait does not end the second"
    agenda.run_until(200 * NS_PER_S)
    assert told == [("first", 10), ("second", 100)]
    assert errand.over


@pytest.mark.parametrize("phase", ["warm-up without faults", "main phase"])
def test_a_simulated_run_ends_early_in_order_and_is_judged(tmp_path: Path, phase: str) -> None:
    typist = Typist(phase)
    assert play(tmp_path, typist) == [SIMULATED]
    there = reached(tmp_path)
    assert {"interrupted", "main-ended", "healed", "final-reads", "collected"} <= there.keys()
    main_ns = there["main-ended"].at_ns - there["main"].at_ns
    assert main_ns < 5 * NS_PER_S, "of the 40 s that were planned"
    verdict = read_verdict(newest(tmp_path).verdict)
    assert verdict is not None
    at_s = round(there["interrupted"].at_ns / NS_PER_S, 1)
    assert headline(verdict).sentence.startswith(f"Interrupted at {at_s} s. Unknown: ")
    assert f"Interrupted at {at_s} s. " in typist.getvalue()
    row = read_run(newest(tmp_path))
    assert (row.signature, row.lasts_s) == ("", None), "neither a failure nor a measurement"


def test_a_second_ctrl_c_ends_a_simulated_run_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"not judged; logquake check \S+ judges it"):
        play(tmp_path, Typist("main phase", times=2))
    paths = newest(tmp_path)
    assert not is_alive(paths)
    assert not paths.verdict.exists()
    assert exit_code(["check", paths.run_id, *HERE, "--store", str(tmp_path)]) == UNKNOWN
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    assert any("there is no final log" in each for each in verdict.unknown_because)


def test_ctrl_c_in_the_judgement_leaves_a_whole_record(tmp_path: Path) -> None:
    """A verdict of a whole record does not begin with the interruption of something else."""
    with pytest.raises(KeyboardInterrupt, match=r"not judged; logquake check \S+ does it"):
        play(tmp_path, Typist("judging"))
    paths = newest(tmp_path)
    assert "interrupted" not in reached(tmp_path)
    assert exit_code(["check", paths.run_id, *HERE, "--store", str(tmp_path)]) == VALID
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    assert headline(verdict).sentence.startswith("Valid")


def test_a_simulated_story_ends_at_its_step(tmp_path: Path) -> None:
    scenario = scenario_named("leader-epoch-1")
    values = story_values(scenario, {"rule": "high-watermark"}, system="reference")
    typist = Typist("step 2 of")
    assert play(tmp_path, typist, plan_from({**values, "hosts": "simulated"})) == [SIMULATED]
    assert {"interrupted", "collected"} <= reached(tmp_path).keys()
    verdict = read_verdict(newest(tmp_path).verdict)
    assert verdict is not None
    assert "it was ended by Ctrl-C" in headline(verdict).sentence
    assert "the story was not told to its end" in typist.getvalue()


def test_repro_answers_ctrl_c_and_tells_what_it_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path, Typist("never"))
    first = newest(tmp_path)

    def press() -> None:
        wait_until(
            lambda: newest(tmp_path) != first and "warmup" in reached(tmp_path),
            timeout_s=60,
            what="another run",
            interval_s=0.02,
        )
        os.kill(os.getpid(), signal.SIGINT)

    typist = threading.Thread(target=press)
    typist.start()
    words = ["repro", first.run_id, "--times", "3", *HERE, "--store", str(tmp_path)]
    assert exit_code(words) == UNKNOWN
    typist.join()
    said = capfd.readouterr().out.splitlines()
    assert said[0] == SIMULATED
    assert said[1].startswith("1 of 3: ")
    assert said[1].endswith("(it was interrupted)")
    assert said[2:] == ["no run was played to its end"]
