"""Run blocking code in virtual time: one task at a time, switched by the agenda.

A task is a greenlet. When it waits, it schedules its continuation on the agenda and lets the agenda
run. So the agenda alone determines the order of all events, and the seed determines the agenda. A
switch costs about a microsecond.
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
"""The time for the cleanup of failed work, in virtual nanoseconds."""


class TaskError(RuntimeError):
    """Virtual time cannot continue, for example because all tasks wait forever."""


class Waiters:
    """The tasks that wait for the same thing. The task that waits longest wakes first.

    Args:
        agenda: Virtual time.
    """

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._waiting: deque[_Wait] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Let the calling task wait until it is woken; return False after the timeout."""
        here = _Wait(_task())
        self._waiting.append(here)
        if timeout is not None:
            # Rounded up, so that a task that waits until a time reaches that time.
            self._agenda.after(max(0, ceil(timeout * _NS_PER_S)), here.give_up)
        try:
            here.sleep()
        finally:
            if not here.woken:  # Otherwise the waking task has removed it.
                self._waiting.remove(here)
        return here.woken

    def wake(self, most: int | None = None) -> None:
        """Let the first `most` waiting tasks (None: all) continue after the present event."""
        count = 0
        while self._waiting and (most is None or count < most):
            count += self._waiting.popleft().wake(self._agenda)


class _Wait:
    """One task that waits once, until it is woken or gives up."""

    __slots__ = ("over", "sleeps", "task", "woken")

    def __init__(self, task: greenlet) -> None:
        self.task, self.over, self.woken, self.sleeps = task, False, False, True

    def sleep(self) -> None:
        parent = self.task.parent
        assert parent is not None, "a task has the agenda's greenlet as its parent"
        try:
            parent.switch()
        finally:  # An exception may have been thrown into it.
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
    """Like `threading.Event`; code outside of tasks may set it, too."""

    def __init__(self, agenda: Agenda) -> None:
        self._set = False
        self._waiters = Waiters(agenda)

    def set(self) -> None:
        """Set the event, and wake the waiting tasks."""
        self._set = True
        self._waiters.wake()

    def clear(self) -> None:
        """Clear the event."""
        self._set = False

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event, for at most some virtual seconds; return whether it is set."""
        return self._set or self._waiters.wait(timeout) or self._set


class VirtualLock:
    """Like `threading.Lock`."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._held = False
        self._waiters = Waiters(agenda)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as threading has it
        """Wait for the lock, for at most some virtual seconds; return whether it was acquired."""
        end_ns = self._agenda.now + round(timeout * _NS_PER_S)
        while self._held:
            if not blocking or (timeout >= 0 and self._agenda.now >= end_ns):
                return False
            left_s = (end_ns - self._agenda.now) / _NS_PER_S
            self._waiters.wait(left_s if timeout >= 0 else None)
        self._held = True
        return True

    def release(self) -> None:
        """Release the lock."""
        self._held = False
        self._waiters.wake(1)

    def __enter__(self) -> None:
        """Acquire the lock."""
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Release the lock."""
        self.release()


class VirtualQueue:
    """Like `queue.SimpleQueue`."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._items: deque[Any] = deque()
        self._waiters = Waiters(agenda)

    def put(self, item: object) -> None:
        """Add an item at the end, and wake one waiting task."""
        self._items.append(item)
        self._waiters.wake(1)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ANN401, FBT001, FBT002 - whatever was put; as queue has it
        """Remove and return the first item; wait for an item for at most some virtual seconds.

        Raises:
            queue.Empty: There is no item, or none came in time.
        """
        end_ns = self._agenda.now + round((timeout or 0) * _NS_PER_S)
        while not self._items:
            left_s = (end_ns - self._agenda.now) / _NS_PER_S
            if not block or (timeout is not None and left_s <= 0):
                raise Empty
            self._waiters.wait(None if timeout is None else left_s)
        return self._items.popleft()


class VirtualTask:
    """A task that runs work in virtual time."""

    def __init__(
        self, tasks: "Tasks", work: Callable[[], Any], name: str, *, awaited: bool
    ) -> None:
        self.name = name
        self._work, self._tasks, self._awaited = work, tasks, awaited
        self._over = VirtualEvent(tasks.agenda)
        self._value: Any = None
        self._error: BaseException | None = None
        self._greenlet = greenlet(self._run, parent=tasks.hub)
        # The work sees the context variables of the task that starts it.
        self._greenlet.gr_context = copy_context()
        tasks.agenda.after(0, self._begin)

    def _begin(self) -> None:
        if not self._greenlet.dead:
            self._greenlet.switch()

    def _run(self) -> None:
        with within(self._tasks):
            try:
                self._value = self._work()
            except BaseException as error:  # noqa: BLE001 - `result` raises it
                self._error = error
        self._tasks.under_way.pop(self, None)
        self._over.set()
        if self._error is not None and not self._awaited:
            raise self._error  # The error goes to the hub, and so to the code that lets time pass.

    def fail(self, error: Exception) -> None:
        """Raise an error in the task at the place where it waits.

        The code that lets time pass calls this.
        """
        if not self._over.is_set():
            self._greenlet.throw(error)

    def end(self) -> None:
        """End the task at once at the place where it waits; ignore its errors."""
        with suppress(Exception):  # Virtual time has ended, so the task's further work must fail.
            self._greenlet.throw()

    def kill(self) -> None:
        """End the task after the present event, wherever the task waits.

        Another task calls this.
        """
        self._tasks.agenda.after(0, self.end)

    def is_over(self) -> bool:
        """Return whether the task has ended."""
        return self._over.is_set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the task's end, for at most some virtual seconds; return whether it ended."""
        return self._over.wait(timeout)

    def result(self) -> Any:  # noqa: ANN401 - whatever the work returns
        """Wait until the task has ended; return its result or raise its error."""
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Tasks:
    """The runtime of a simulation.

    Args:
        agenda: The simulation's virtual time. The greenlet that creates this object also drives the
            agenda.

    Attributes:
        agenda: The virtual time.
        hub: The greenlet that drives the agenda.
        under_way: The tasks that have not ended, in order of their start.
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
        """Return a new event in virtual time."""
        return VirtualEvent(self.agenda)

    def lock(self) -> Lock:
        """Return a new lock in virtual time."""
        return VirtualLock(self.agenda)

    def queue(self) -> Queue[Any]:
        """Return a new queue in virtual time."""
        return VirtualQueue(self.agenda)

    def start(self, work: Callable[[], T], name: str, *, awaited: bool) -> Task[T]:
        """Start a task, after the present event."""
        task = VirtualTask(self, work, name, awaited=awaited)
        self.under_way[task] = None
        return cast("Task[T]", task)

    def end(self) -> None:
        """End all tasks; called when no more time will pass.

        The garbage collector does not look into waiting greenlets. Without this call, the whole
        simulation would stay in memory until the process ends, because a task refers to it.
        """
        for task in list(self.under_way):
            task.end()
        self.under_way.clear()

    def run(self, work: Callable[[], T], name: str = "main", *, limit_ns: int | None = None) -> T:
        """Run work in a task while virtual time passes; return its result.

        If an event fails meanwhile, the event's error is raised in the work, at the place where the
        work waits. The work then has time for its cleanup. The run counts as failed, even if the
        work continues after the error.

        Args:
            work: The function to run.
            name: The task's name, for people.
            limit_ns: The virtual time after which the run fails.

        Raises:
            TaskError: All tasks wait forever, or the work takes too long.
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
            # Raises the work's own error. If the work handled the error, this raises nothing.
            task.result()
            raise

    def _pass(self, name: str, limit_ns: int | None) -> NoReturn:
        """Let time pass until an exception is raised; if none is raised, raise `TaskError`."""
        self.agenda.run_until(self.agenda.now + (limit_ns or _FOR_EVER_NS))
        if limit_ns is None or self.agenda.next_ns() is None:
            raise TaskError(f"{name} waits, but no further event is scheduled")
        raise TaskError(f"{name} did not end within {limit_ns / _NS_PER_S:g} s of virtual time")


class _Over(Exception):  # noqa: N818 - it ends a loop from within
    """Raised when the main task has ended, to stop the passing of time."""

    def happen(self) -> None:
        raise self


def _task() -> greenlet:
    task = getcurrent()
    if task.parent is None:
        raise TaskError("only a task can wait in virtual time: start one, or use `Tasks.run`")
    return task
