"""Who answers a signal when, and what is done then: the command's part, and the stage's."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.cli import exit_code, logquake
from harness.exit_codes import UNKNOWN
from harness.interrupt import (
    BEGINNING,
    DRAWING,
    HOSTS,
    INSIST_S,
    JUDGING,
    LISTENING,
    ONCE,
    SIGNALS,
    Answers,
    Cut,
    Interrupts,
    postponed,
)
from harness.signalled import SignalledEvent
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import start

LISTENER = """
import json, sys
from harness.interrupt import LISTENING, Interrupts
interrupts = Interrupts()
print("up", flush=True)
sys.stdin.readline()
interrupts.listen()
interrupts.tell(lambda: None, lambda: None)
print(end=LISTENING, flush=True)
interrupts.finish.wait(20)
print(interrupts.settle(), flush=True)
"""

ANYWHERE = """
import signal, sys, threading
from harness.interrupt import Interrupts

def interrupted(step):
    interrupts, steps = Interrupts(), 0

    def each_step(frame, what, _):
        nonlocal steps
        steps += what == "line"
        if steps == step and what == "line":
            signal.raise_signal(signal.SIGTERM)
        return each_step

    interrupts.listen()
    interrupts.tell(lambda: None, lambda: None)
    sys.settrace(each_step)
    try:
        interrupts.finish.wait(0.001)
        signal.raise_signal(signal.SIGINT)
        interrupts.finish.wait(0.001)
    finally:
        sys.settrace(None)
    assert interrupts.settle() == (2 if step <= steps else 1), step
    return steps

step = 1
while step <= interrupted(step):
    step += 1
print(step)
"""
"""A signal comes at each line that a wait, and the answer to another signal, are made of."""


@pytest.fixture(autouse=True)
def leave_handlers_as_they_were() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


@pytest.fixture(name="listener")
def start_listener() -> Iterator["subprocess.Popen[bytes]"]:
    with postponed():
        child = subprocess.Popen(
            [sys.executable, "-c", LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        yield child
        child.kill()


def listen(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    assert child.stdout.readline() == LISTENING.encode()


def heard(child: "subprocess.Popen[bytes]") -> int:
    assert child.stdout is not None
    return int(child.stdout.readline())


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def end_by_signals() -> None:
    with Answers("log/1", list[str]().append):
        interrupt()
        interrupt()


def test_before_a_stage_the_first_signal_is_answered_and_the_second_ends_the_command() -> None:
    said: list[str] = []
    with Answers("log/1", said.append) as answers:
        interrupt(signal.SIGTERM)
        assert said == [BEGINNING]
        assert answers.early
        with pytest.raises(KeyboardInterrupt, match=r"logquake check log/1 judges it"):
            interrupt()
    assert not answers.late


def test_a_signal_that_comes_while_a_stage_starts_waits_for_it(
    listener: "subprocess.Popen[bytes]",
) -> None:
    said: list[str] = []
    with Answers("log/1", said.append) as answers:
        answers.begins(listener)
        interrupt()
        assert said == [BEGINNING], "the stage does not listen yet"
        assert listener.poll() is None, "it would have died of the signal"
        listen(listener)
        assert heard(listener) == 1
        answers.stage_ended(1)
    assert (said, answers.late) == ([BEGINNING], False)


def test_a_stage_that_listens_answers_and_what_it_missed_is_answered_afterwards(
    listener: "subprocess.Popen[bytes]",
) -> None:
    said: list[str] = []
    with Answers("log/1", said.append) as answers:
        answers.begins(listener)
        listen(listener)
        answers.hand_on()
        interrupt()
        count = heard(listener)
        assert (said, count) == ([], 1)
        answers.stage_ended(0)
        assert said == [HOSTS]
        assert answers.late
        with pytest.raises(KeyboardInterrupt, match="log/1 was not judged; a command does it"):
            answers.cut(JUDGING, "log/1 was not judged; a command does it")


def interrupt_and_clean_up() -> None:
    """Take more signals while the first one's exception is on its way."""
    try:
        interrupt()
    finally:
        interrupt()
        interrupt(signal.SIGHUP)
        pause_until(stopwatch_s() + 3 * INSIST_S)


def test_what_is_cut_ends_at_the_first_signal_and_cleans_up_undisturbed() -> None:
    said: list[str] = []
    with Answers("log/1", said.append) as answers:
        answers.stage_ended(0)
        answers.cut(JUDGING, "how to judge it")
        with pytest.raises(KeyboardInterrupt, match="how to judge it") as held:
            interrupt_and_clean_up()
        answers.heeded()
        interrupt()
    assert said == [JUDGING]
    assert held.type is Cut, "held until here: a cut that is gone is made again"


def interrupt_in_vain() -> None:
    """Swallow two cuts, and wait for the next one."""
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            interrupt()
    pause_until(stopwatch_s() + 60)


def test_a_cut_that_a_library_swallows_is_made_again_until_the_work_ends() -> None:
    said: list[str] = []
    with Answers("log/1", said.append) as answers:
        answers.stage_ended(0)
        answers.cut(JUDGING, "how to judge it")
        with pytest.raises(KeyboardInterrupt, match="how to judge it") as held:
            interrupt_in_vain()
        with pytest.raises(KeyboardInterrupt, match="how to draw it") as held_too:
            answers.cut(DRAWING, "how to draw it")
        answers.heeded()
    assert said == [JUDGING]
    assert held.type is held_too.type is Cut


def test_a_cut_that_nobody_can_catch_is_made_again_without_a_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A signal may come in a finalizer, whose exceptions Python only reports."""

    class Finalized:
        def __del__(self) -> None:
            interrupt()

    def finalize() -> None:
        Finalized()
        pause_until(stopwatch_s() + 60)

    with Answers("log/1", lambda _: None) as answers:
        answers.stage_ended(0)
        answers.cut(JUDGING, "how to judge it")
        with pytest.raises(KeyboardInterrupt, match="how to judge it") as held:
            finalize()
        answers.heeded()
    assert held.type is Cut
    assert capsys.readouterr().err == ""


def test_the_last_words_of_a_command_that_a_signal_ended_are_not_cut() -> None:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with pytest.raises(KeyboardInterrupt):
            end_by_signals()
        interrupt(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_stage_that_nobody_hears_is_answered_for(listener: "subprocess.Popen[bytes]") -> None:
    said: list[str] = []
    with Answers("log/1", said.append, stage_is_heard=False) as answers:
        answers.begins(listener)
        listen(listener)
        answers.hand_on()
        interrupt()
        assert said == [ONCE]
        assert heard(listener) == 1
        answers.stage_ended(1)
    assert said == [ONCE]
    assert not answers.late


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Answers("log/1", pytest.fail):
            interrupt(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stage_that_settles_has_answered_all_that_it_took_and_takes_no_more() -> None:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    interrupts, said = Interrupts(), list[str]()
    interrupts.listen()
    try:
        interrupts.tell(lambda: said.append("first"), lambda: said.append("second"))
        interrupt()
        interrupt()
        assert interrupts.settle() == 2
        assert said == ["first", "second"]
        interrupt()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_may_come_at_any_step_of_a_wait_and_of_another_signals_answer() -> None:
    told = subprocess.run(
        [sys.executable, "-c", ANYWHERE], capture_output=True, text=True, timeout=20, check=True
    )
    assert int(told.stdout) > 10, "no step was interrupted"


def test_an_event_that_signals_set_is_like_any_other() -> None:
    event = SignalledEvent()
    before_s = stopwatch_s()
    assert not event.wait(0.05)
    assert stopwatch_s() >= before_s + 0.05
    waiting = [start(event.wait, "waits") for _ in range(2)]
    for _ in range(100_000):  # More than a pipe takes.
        event.set()
    assert [each.result() for each in waiting] == [True, True]
    assert event.is_set()
    assert event.wait(0)
    event.clear()
    assert not event.is_set()
    assert not event.wait(0.01)


def test_the_command_line_says_why_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt("log/1 was not judged")

    monkeypatch.setattr(logquake, "invoke", interrupted)
    assert exit_code(["runs"]) == UNKNOWN
    assert capsys.readouterr().err.strip() == "logquake: log/1 was not judged"
