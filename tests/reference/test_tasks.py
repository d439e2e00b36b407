"""Blocking code in virtual time: the same as in threads, and the same each time."""

import gc
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty

import pytest

from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.tasks import TaskError, Tasks, VirtualTask, Waiters
from results.record.clock import NS_PER_S, WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.runtime import (
    Runtime,
    Threads,
    all_of,
    new_event,
    new_lock,
    new_queue,
    runtime,
    start,
)

Run = Callable[[Callable[[], object]], object]


@pytest.fixture(params=["threads", "virtual"])
def run(request: pytest.FixtureRequest) -> Run:
    return Tasks(Agenda()).run if request.param == "virtual" else lambda work: work()


def test_a_task_returns_or_raises(run: Run) -> None:
    def work() -> None:
        assert start(lambda: 7, "seven", awaited=True).result() == 7
        with pytest.raises(ZeroDivisionError):
            start(lambda: 1 // 0, "zero", awaited=True).result()
        assert all_of([partial(pow, 2, each) for each in range(3)], "powers") == [1, 2, 4]
        with pytest.raises(ZeroDivisionError):
            all_of([lambda: 1, lambda: 1 // 0], "one fails")

    run(work)


def test_an_event_wakes_whoever_waits_and_a_wait_has_a_limit(run: Run) -> None:
    def work() -> None:
        event = new_event()
        waiting = [start(event.wait, "waits") for _ in range(2)]
        assert not event.wait(0.01)
        assert not any(each.is_over() for each in waiting)
        event.set()
        assert [each.result() for each in waiting] == [True, True]
        assert event.wait(0)
        event.clear()
        assert not event.wait(0)
        assert not start(event.wait, "late").join(0.01)
        event.set()

    run(work)


def test_a_lock_is_held_by_one(run: Run) -> None:
    inside, most = 0, 0

    def work() -> None:
        lock = new_lock()

        def hold() -> None:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
                pause_until(stopwatch_s() + 0.002)
                inside -= 1

        all_of([hold] * 5, "holders")

    run(work)
    assert (inside, most) == (0, 1)


def test_a_lock_is_waited_for_as_long_as_one_likes(run: Run) -> None:
    def work() -> None:
        lock, over = new_lock(), new_event()

        def hold() -> None:
            with lock:
                over.wait()

        holder = start(hold, "holder")
        assert not holder.join(0.01)
        assert not lock.acquire(blocking=False)
        assert not lock.acquire(timeout=0.01)
        start(over.set, "end")
        assert lock.acquire(timeout=10)
        lock.release()
        with lock:
            assert holder.join(10)

    run(work)


def test_a_queue_gives_each_thing_once_in_its_order_and_waits_for_it(run: Run) -> None:
    def work() -> None:
        queue = new_queue()
        with pytest.raises(Empty):
            queue.get(block=False)
        with pytest.raises(Empty):
            queue.get(timeout=0.01)
        takers = [start(queue.get, "taker") for _ in range(2)]
        assert not takers[0].join(0.01)
        for number in range(4):
            queue.put(number)
        assert sorted(each.result() for each in takers) == [0, 1]
        assert [queue.get(timeout=1), queue.get()] == [2, 3]

    run(work)


def test_waits_of_the_clock_pass_in_what_the_code_runs_in(run: Run) -> None:
    def work() -> None:
        stop = new_event()
        begun_s = stopwatch_s()
        assert not pause_until(begun_s + 0.01, stop)
        assert stopwatch_s() >= begun_s + 0.01
        with pytest.raises(WaitTimeoutError, match=r"waited 0.01 s for a miracle"):
            wait_until(lambda: None, timeout_s=0.01, what="a miracle", interval_s=0.001)
        start(stop.set, "stop")
        with pytest.raises(WaitTimeoutError, match="was stopped while waiting for a miracle"):
            wait_until(lambda: None, timeout_s=60, what="a miracle", stop=stop)
        assert pause_until(stopwatch_s() + 60, stop)

    run(work)


def test_who_waits_again_until_a_moment_is_there_gets_there() -> None:
    def work() -> None:
        deadline_s = stopwatch_s() + 0.4e-9  # Less than the half of the least step.
        while stopwatch_s() < deadline_s:
            pause_until(deadline_s)

    Tasks(Agenda()).run(work)


def test_an_hour_of_many_takes_no_time_and_has_one_order() -> None:
    def order() -> list[tuple[float, int]]:
        seen: list[tuple[float, int]] = []

        def ticks(number: int) -> None:
            for _ in range(60):
                pause_until(stopwatch_s() + 60)
                seen.append((stopwatch_s(), number))

        Tasks(Agenda()).run(lambda: all_of([partial(ticks, each) for each in range(5)], "ticks"))
        return seen

    assert order() == order()
    assert order()[-1] == (3600.0, 4)
    assert [number for _, number in order()[:5]] == [0, 1, 2, 3, 4]


def test_each_task_has_its_runtime_and_the_rest_has_the_machines() -> None:
    tasks, seen = Tasks(Agenda()), list[Runtime]()
    tasks.run(lambda: start(lambda: seen.append(runtime()), "inner").join())
    assert seen == [tasks]
    assert isinstance(runtime(), Threads)


def test_what_a_task_raises_that_nobody_waits_for_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ZeroDivisionError):
        Tasks(Agenda()).run(lambda: [start(lambda: 1 // 0, "zero"), new_event().wait(1)])
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    start(lambda: 1 // 0, "zero").join()
    assert [each.exc_type for each in reported] == [ZeroDivisionError]


@pytest.mark.parametrize("failing", [True, False], ids=["what-fails", "what-lasts"])
def test_whoever_waits_meanwhile_fails_too_and_undoes_what_it_did(*, failing: bool) -> None:
    agenda, undone = Agenda(), list[float]()

    def work() -> None:
        try:
            new_event().wait(100)
        finally:
            new_event().wait(2)
            undone.append(agenda.now / NS_PER_S)

    def fail() -> None:
        raise ZeroDivisionError

    if failing:
        agenda.at(3 * NS_PER_S, fail)
    error = ZeroDivisionError if failing else TaskError
    with pytest.raises(error):
        Tasks(agenda).run(work, limit_ns=3 * NS_PER_S)
    assert undone == [5]


def test_what_fails_meanwhile_is_not_lost_on_work_that_expects_such_failures() -> None:
    def fails() -> None:
        raise ConnectionError("nobody expects this one")

    def work() -> str:
        start(fails, "fails")
        with suppress(ConnectionError):
            new_event().wait(1)
        return "went on"

    with pytest.raises(ConnectionError, match="nobody expects"):
        Tasks(Agenda()).run(work)


def test_what_waits_for_ever_ends_with_its_simulation_and_keeps_nothing() -> None:
    class Held:
        """What only tasks refer to."""

    def forgotten(tasks: Tasks, held: Held, ended: list[Held]) -> None:
        def waits() -> None:
            try:
                new_event().wait()
            finally:
                ended.append(held)

        tasks.run(lambda: [start(waits, "waits") for _ in range(2)] and pause_until(1))
        tasks.start(waits, "is not begun", awaited=False)

    tasks, held, ended = Tasks(Agenda()), Held(), list[Held]()
    kept = weakref.ref(held)
    forgotten(tasks, held, ended)
    tasks.end()
    assert ended == [held, held]
    del tasks, held, ended
    gc.collect()
    assert kept() is None


def test_who_waited_in_vain_leaves_nothing_behind() -> None:
    agenda = Agenda()
    waiters = Waiters(agenda)

    def work() -> None:
        for _ in range(3):
            assert not waiters.wait(0.1)
        waiting = [start(partial(waiters.wait, limit_s), "waits") for limit_s in (1, 2, 1)]
        assert not waiting[1].join(1.5)
        assert [each.is_over() for each in waiting] == [True, False, True]
        assert len(waiters._waiting) == 1
        waiters.wake()
        assert waiting[1].result()

    Tasks(agenda).run(work)
    assert not waiters._waiting


@pytest.mark.parametrize("after_s", [0, 1])
def test_a_task_that_is_killed_ends_wherever_it_waits(after_s: float) -> None:
    tasks, undone = Tasks(Agenda()), list[str]()

    def wait_for_ever() -> None:
        try:
            new_event().wait()
        finally:
            undone.append("undone")

    def work() -> None:
        task = start(wait_for_ever, "waits")
        assert isinstance(task, VirtualTask)
        if after_s:
            assert not task.join(after_s)
        task.kill()
        assert task.join(1)
        assert list(tasks.under_way) == []

    tasks.run(work)
    assert undone == ["undone"]


def test_the_least_wait_lets_time_pass() -> None:
    agenda = Agenda()
    Tasks(agenda).run(lambda: new_event().wait(1e-16))
    assert agenda.now == 1


def test_what_nobody_will_ever_end_is_an_error() -> None:
    with pytest.raises(TaskError, match="main waits, but no further event is scheduled"):
        Tasks(Agenda()).run(lambda: new_event().wait())
    with pytest.raises(TaskError, match="only a task can wait in virtual time"):
        Tasks(Agenda()).event().wait(1)
