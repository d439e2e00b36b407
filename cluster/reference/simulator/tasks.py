"""Blocking code in virtual time: one task at a time, switched by the agenda.

A task is a greenlet. Where it waits, it notes on the agenda when it wants to go on, and lets the
agenda go on meanwhile; so what happens in which order hangs on the agenda alone, and with it on the
seed. A switch costs about a microsecond.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from math import ceil
from queue import Empty
from types import TracebackType
from typing import Any, NoReturn, TypeVar, cast

from greenlet import getcurrent, greenlet

from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.clock import WALL_CLOCK_S
from results.record.runtime import Event, Lock, Queue, Task, within

T = TypeVar("T")
_NS_PER_S = 1_000_000_000
_FOR_EVER_NS = 1 << 62
UNDOING_NS = 300 * _NS_PER_S
"""So much virtual time has work that failed for what it has to undo."""


class TaskError(RuntimeError):
    """Virtual time was used in a way in which it cannot pass."""


class Waiters:
    """Tasks that wait for one thing, in the order in which they came.

    Args:
        agenda: Virtual time.
    """

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._waiting: deque[_Wait] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Have the task that calls wait until it is woken; tell whether it was, in time."""
        here = _Wait(_task())
        self._waiting.append(here)
        if timeout is not None:
            # Rounded up: whoever waits again until a moment is there must get there.
            self._agenda.after(max(0, ceil(timeout * _NS_PER_S)), here.give_up)
        try:
            here.sleep()
        finally:
            if not here.woken:  # Else whoever woke it has taken it out.
                self._waiting.remove(here)
        return here.woken

    def wake(self, most: int | None = None) -> None:
        """Have the first `most` of them go on, or all, after what happens now."""
        count = 0
        while self._waiting and (most is None or count < most):
            count += self._waiting.popleft().wake(self._agenda)


class _Wait:
    """A task that waits, once."""

    __slots__ = ("over", "sleeps", "task", "woken")

    def __init__(self, task: greenlet) -> None:
        self.task, self.over, self.woken, self.sleeps = task, False, False, True

    def sleep(self) -> None:
        parent = self.task.parent
        assert parent is not None, "a task has the agenda's greenlet as its parent"
        try:
            parent.switch()
        finally:  # Something may have been thrown into it.
            self.over, self.sleeps = True, False

    def wake(self, agenda: Agenda) -> bool:
        if self.over:
            return False
        self.over = self.woken = True
        agenda.after(0, self._go_on)
        return True

    def _go_on(self) -> None:
        if self.sleeps:
            self.task.switch()

    def give_up(self) -> None:
        if not self.over:
            self.over = True
            self.task.switch()


class VirtualEvent:
    """As `threading.Event`; it may be set by what is no task, too."""

    def __init__(self, agenda: Agenda) -> None:
        self._set = False
        self._waiters = Waiters(agenda)

    def set(self) -> None:
        """Set it, and wake whoever waits."""
        self._set = True
        self._waiters.wake()

    def clear(self) -> None:
        """Take it back."""
        self._set = False

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many virtual seconds; tell whether it is."""
        return self._set or self._waiters.wait(timeout) or self._set


class VirtualLock:
    """As `threading.Lock`."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._held = False
        self._waiters = Waiters(agenda)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as threading has it
        """Wait until nobody holds it, or for so many virtual seconds; tell whether it is held."""
        end_ns = self._agenda.now + round(timeout * _NS_PER_S)
        while self._held:
            if not blocking or (timeout >= 0 and self._agenda.now >= end_ns):
                return False
            left_s = (end_ns - self._agenda.now) / _NS_PER_S
            self._waiters.wait(left_s if timeout >= 0 else None)
        self._held = True
        return True

    def release(self) -> None:
        """Let it go."""
        self._held = False
        self._waiters.wake(1)

    def __enter__(self) -> None:
        """Wait until nobody holds it, and hold it."""
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Let it go."""
        self.release()


class VirtualQueue:
    """As `queue.SimpleQueue`."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._items: deque[Any] = deque()
        self._waiters = Waiters(agenda)

    def put(self, item: object) -> None:
        """Add something at the end, and wake who waits for it."""
        self._items.append(item)
        self._waiters.wake(1)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ANN401, FBT001, FBT002 - whatever was put; as queue has it
        """Take what is first, and wait for it, at most so many virtual seconds.

        Raises:
            queue.Empty: There is nothing, or nothing came in time.
        """
        end_ns = self._agenda.now + round((timeout or 0) * _NS_PER_S)
        while not self._items:
            left_s = (end_ns - self._agenda.now) / _NS_PER_S
            if not block or (timeout is not None and left_s <= 0):
                raise Empty
            self._waiters.wait(None if timeout is None else left_s)
        return self._items.popleft()


class VirtualTask:
    """Work in virtual time."""

    def __init__(
        self, tasks: "Tasks", work: Callable[[], Any], name: str, *, awaited: bool
    ) -> None:
        self.name = name
        self._work, self._tasks, self._awaited = work, tasks, awaited
        self._over = VirtualEvent(tasks.agenda)
        self._value: Any = None
        self._error: BaseException | None = None
        self._greenlet = greenlet(self._run, parent=tasks.hub)
        # Whatever is set for whoever starts it holds for it, too.
        self._greenlet.gr_context = copy_context()
        tasks.agenda.after(0, self._begin)

    def _begin(self) -> None:
        if not self._greenlet.dead:
            self._greenlet.switch()

    def _run(self) -> None:
        with within(self._tasks):
            try:
                self._value = self._work()
            except BaseException as error:  # noqa: BLE001 - whoever wants the result gets it
                self._error = error
        self._tasks.under_way.pop(self, None)
        self._over.set()
        if self._error is not None and not self._awaited:
            raise self._error  # In the hub, and so in whoever lets time pass.

    def fail(self, error: Exception) -> None:
        """Have what it waits for raise an error; called by whoever lets time pass."""
        if not self._over.is_set():
            self._greenlet.throw(error)

    def end(self) -> None:
        """Have it wait for nothing any more: it ends here and now, and nobody hears of it."""
        with suppress(Exception):  # Time has ended: whatever it has still to do must fail.
            self._greenlet.throw()

    def kill(self) -> None:
        """Have it end after what happens now, wherever it waits; called by another task."""
        self._tasks.agenda.after(0, self.end)

    def is_over(self) -> bool:
        """Tell whether it has ended."""
        return self._over.is_set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, or for so many virtual seconds; tell whether it has."""
        return self._over.wait(timeout)

    def result(self) -> Any:  # noqa: ANN401 - whatever the work returns
        """Wait until it has ended; return what it returned, or raise what it raised."""
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Tasks:
    """The runtime of a simulation.

    Args:
        agenda: Its virtual time. Whoever makes this drives it, in this greenlet.

    Attributes:
        agenda: As given.
        hub: The greenlet that drives the agenda.
        under_way: The tasks that have not ended, in the order in which they were started.
    """

    repeats = True

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.hub = getcurrent()
        self.under_way: dict[VirtualTask, None] = {}

    def monotonic_ns(self) -> int:
        """Return virtual nanoseconds since the simulation's start."""
        return self.agenda.now

    def unix_s(self) -> float:
        """Return virtual seconds since 1970."""
        return WALL_CLOCK_S + self.agenda.now / _NS_PER_S

    def event(self) -> Event:
        """Return an event that is not set."""
        return VirtualEvent(self.agenda)

    def lock(self) -> Lock:
        """Return a lock that nobody holds."""
        return VirtualLock(self.agenda)

    def queue(self) -> Queue[Any]:
        """Return a queue with nothing in it."""
        return VirtualQueue(self.agenda)

    def start(self, work: Callable[[], T], name: str, *, awaited: bool) -> Task[T]:
        """Start a task, after what happens now."""
        task = VirtualTask(self, work, name, awaited=awaited)
        self.under_way[task] = None
        return cast("Task[T]", task)

    def end(self) -> None:
        """End all tasks that are under way; called when no more time will pass.

        Greenlets that wait are not looked into by the search for what goes in circles: what such a
        task refers to, and that is the simulation, would be kept as long as the process lives.
        """
        for task in list(self.under_way):
            task.end()
        self.under_way.clear()

    def run(self, work: Callable[[], T], name: str = "main", *, limit_ns: int | None = None) -> T:
        """Let time pass until work is done in a task; return what it returned.

        Args:
            work: What is done.
            name: What it is called, for people.
            limit_ns: After so much virtual time it is given up.

        What happens meanwhile may fail; so does the work then, where it waits. What it has to undo
        on its way out may take its time. That it went on all the same does not make it a success.

        Raises:
            TaskError: Everything waits for something that nobody will do, or it takes too long.
        """
        over = _Over()

        def whole() -> T:
            try:
                return work()
            finally:
                self.agenda.after(0, over.happen)

        task = VirtualTask(self, whole, name, awaited=True)
        try:
            self._pass(name, limit_ns)
        except _Over:
            return cast("T", task.result())
        except Exception as failed:
            task.fail(failed)
            with suppress(_Over):
                self._pass(name, UNDOING_NS)
            task.result()  # What it made of it; if it took it for a failure that it knows, nothing.
            raise

    def _pass(self, name: str, limit_ns: int | None) -> NoReturn:
        """Let time pass until something is raised; that nothing is, is an error, too."""
        self.agenda.run_until(self.agenda.now + (limit_ns or _FOR_EVER_NS))
        if limit_ns is None or self.agenda.next_ns() is None:
            raise TaskError(f"{name} waits, and nothing is to come")
        raise TaskError(f"{name} did not end within {limit_ns / _NS_PER_S:g} s of virtual time")


class _Over(Exception):  # noqa: N818 - it ends a loop from within
    """The main task has ended, and with it the passing of time."""

    def happen(self) -> None:
        raise self


def _task() -> greenlet:
    task = getcurrent()
    if task.parent is None:
        raise TaskError("only a task can wait in virtual time: start one, or use `Tasks.run`")
    return task
