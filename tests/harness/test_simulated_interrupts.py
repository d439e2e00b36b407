"""Signals that reach simulated runs: heard at once, ended in order, judged, as on all hosts."""

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness.cli import exit_code
from harness.exit_codes import UNKNOWN, VALID
from harness.interrupt import JUDGING, ONCE, TWICE
from results.index.reading import read_run
from results.record.clock import NS_PER_S, wait_until
from results.record.milestones import Milestone, load_milestones
from results.record.verdict import Verdict
from results.store import is_alive
from results.verdict_json import read_verdict
from results.wording.headline import headline
from tests.harness.commands import HERE, LOGQUAKE, RUN_LIMIT_S, newest, running

LONG = ("run", "--system", "reference", "--hosts", "simulated", "--seed", "1", "--rate", "50",
        "--warmup", "600", "--time-limit", "3000", "--nemesis", "pause", *HERE)  # fmt: skip
"""An hour of virtual time, which takes a minute or more: nothing of it ends by itself."""
SHORT = (*LONG, "--warmup", "2", "--time-limit", "15")
pytestmark = pytest.mark.timeout(RUN_LIMIT_S)


def interrupted(
    store: Path, *after: str, words: tuple[str, ...] = LONG, number: int = signal.SIGINT
) -> tuple[int, str]:
    """Play a run; return its exit code and its words.

    Args:
        store: The folder of runs.
        after: Where it says these, one after the other, it is sent a signal.
        words: What is typed.
        number: Of the signal.
    """
    said, due = list[str](), list(after)
    command = subprocess.Popen(
        [LOGQUAKE, *words, "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with command:
        assert command.stdout is not None
        for line in command.stdout:
            said.append(line)
            if due and due[0] in line:
                command.send_signal(number)
                del due[0]
    assert not due, "".join(said)
    return command.returncode, "".join(said)


def reached(store: Path) -> dict[str, Milestone]:
    return {each.name: each for each in load_milestones(newest(store).milestones)}


def judged(store: Path) -> Verdict:
    verdict = read_verdict(newest(store).verdict)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        pytest.param("warm-up without faults", signal.SIGTERM, marks=pytest.mark.night),
        ("main phase", signal.SIGINT),
    ],
)
def test_a_simulated_run_ends_early_in_order_and_is_judged(
    tmp_path: Path, phase: str, number: int
) -> None:
    words = (*LONG, "--warmup", "2") if phase == "main phase" else LONG
    code, said = interrupted(tmp_path, phase, words=words, number=number)
    assert code == UNKNOWN
    assert said.count(ONCE) == 1
    there = reached(tmp_path)
    assert {"interrupted", "main-ended", "healed", "final-reads", "collected"} <= there.keys()
    assert there["main-ended"].at_ns < 600 * NS_PER_S
    assert there["audited"].detail == {}
    at_s = round(there["interrupted"].at_ns / NS_PER_S, 1)
    assert headline(judged(tmp_path)).sentence.startswith(f"Interrupted at {at_s} s. Unknown: ")
    assert f"Interrupted at {at_s} s. " in said
    row = read_run(newest(tmp_path))
    assert (row.signature, row.lasts_s) == ("", None), "neither a failure nor a measurement"


@pytest.mark.night
def test_a_second_signal_leaves_out_what_is_not_healing(tmp_path: Path) -> None:
    words = (*LONG, "--warmup", "2")
    code, said = interrupted(tmp_path, "main phase", ONCE, words=words)
    assert code == UNKNOWN
    assert TWICE in said
    assert {"main-ended", "healed", "collected", "audited"} <= reached(tmp_path).keys()


def test_a_signal_in_the_judgement_leaves_a_whole_record(tmp_path: Path) -> None:
    code, said = interrupted(tmp_path, "judging (local)", words=SHORT)
    assert code == UNKNOWN
    assert JUDGING in said
    assert re.search(r"not judged; type: logquake check \S+", said)
    paths = newest(tmp_path)
    assert "interrupted" not in reached(tmp_path)
    assert exit_code(["check", paths.run_id, *HERE, "--store", str(tmp_path)]) == VALID
    assert headline(judged(tmp_path)).sentence.startswith("Valid")


def test_kill_9_ends_all_of_it_and_heal_says_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*LONG, "--warmup", "2")
    code, _ = interrupted(tmp_path, "main phase", words=words, number=signal.SIGKILL)
    assert code == -signal.SIGKILL
    paths = newest(tmp_path)
    wait_until(lambda: not running(paths.root), timeout_s=10, what="the end of its stage")
    assert not is_alive(paths)
    assert exit_code(["heal", "--store", str(tmp_path)]) == VALID
    healed = capsys.readouterr().out  # The milestone comes just after the words.
    assert re.search(
        rf"{paths.run_id}: the run's command ended in its (warm-up|main phase)", healed
    )
    assert exit_code(["check", paths.run_id, *HERE, "--store", str(tmp_path)]) == UNKNOWN


@pytest.mark.night
def test_a_simulated_story_ends_at_its_step(tmp_path: Path) -> None:
    story = ("scenario", "run", "leader-epoch-1", "--rule", "high-watermark", "--system",
             "reference", "--hosts", "simulated", *HERE)  # fmt: skip
    code, said = interrupted(tmp_path, "step 1 of", words=story)
    assert code == UNKNOWN
    assert {"interrupted", "collected"} <= reached(tmp_path).keys()
    assert "the scenario was ended by Ctrl-C" in headline(judged(tmp_path)).sentence
    assert "the story did not reach its end" in said


@pytest.mark.night
def test_repro_answers_ctrl_c_and_tells_what_it_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = [*HERE, "--store", str(tmp_path)]
    assert exit_code([*SHORT, "--store", str(tmp_path)]) == VALID
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
    capfd.readouterr()
    assert exit_code(["repro", first.run_id, "--times", "3", *here]) == UNKNOWN
    typist.join()
    said = capfd.readouterr().out.splitlines()
    assert said[0] == ONCE
    assert said[1].startswith("1 of 3: ")
    assert said[1].endswith("(it was interrupted)")
    assert said[2:] == ["no run reached its end"]
