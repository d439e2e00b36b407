"""Clocks, waits, locks and tasks, either of this machine or of a simulation.

Code that must also run in virtual time uses the clock in `results.record.clock`, and the events,
locks and tasks of this module. Such code need not know whether its time is virtual. Tasks of a
simulation use the simulation's runtime (`cluster.reference.simulator.tasks`). All other code uses
this machine's runtime, with threads.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Event(Protocol):
    """An event like `threading.Event`."""

    def set(self) -> None:
        """Set the event, and wake all tasks that wait for it."""

    def clear(self) -> None:
        """Reset the event."""

    def is_set(self) -> bool:
        """Return whether the event is set."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set or the timeout ends, and return whether it is set."""


class Lock(Protocol):
    """A lock like `threading.Lock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as threading has it
        """Wait for the lock until the timeout, and return whether it is acquired."""

    def release(self) -> None:
        """Release the lock."""

    def __enter__(self) -> object:
        """Acquire the lock."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Release the lock."""


class Queue(Protocol[T]):
    """A queue like `queue.SimpleQueue`: `put` never blocks, `get` waits for an item."""

    def put(self, item: T) -> None:
        """Add an item at the end."""

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002 - as queue has it
        """Remove and return the first item; wait for an item, at most until the timeout.

        Raises:
            queue.Empty: The queue is empty, or no item came in time.
        """


class Task(Protocol[T_co]):
    """Work that runs concurrently with the code that started it."""

    def is_over(self) -> bool:
        """Return whether the task has ended."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the task ends or the timeout ends, and return whether the task has ended."""

    def result(self) -> T_co:
        """Wait until the task ends, then return its result or raise its exception."""


class Runtime(Protocol):
    """The environment of blocking code: a clock, events, locks and tasks.

    Attributes:
        repeats: Whether the seed is enough to repeat the whole run. If the process of such a run
            dies, the files of the run may be incomplete.
    """

    repeats: bool

    def monotonic_ns(self) -> int:
        """Return nanoseconds on a monotonic clock."""

    def unix_s(self) -> float:
        """Return seconds since 1970."""

    def event(self) -> Event:
        """Return a new event that is not set."""

    def lock(self) -> Lock:
        """Return a new lock that is free."""

    def queue(self) -> Queue[Any]:
        """Return a new empty queue."""

    def start(self, work: Callable[[], T], name: str, *, awaited: bool) -> Task[T]:
        """Start a task.

        Args:
            work: The function to run.
            name: Name of the task, for people.
            awaited: Whether a caller will take the result. If not, an exception is a bug of
                Logquake and is reported at once.
        """


class _ThreadTask:
    """A task in a daemon thread, which does not keep the process alive."""

    def __init__(self, work: Callable[[], Any], name: str, *, awaited: bool) -> None:
        self._work, self._awaited = work, awaited
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:
            self._error = error
            if not self._awaited:
                raise

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self, timeout: float | None = None) -> bool:
        self._thread.join(timeout)
        return self.is_over()

    def result(self) -> Any:  # noqa: ANN401 - whatever the work returns
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value


class Threads:
    """The runtime of this machine, with threads."""

    repeats = False

    def monotonic_ns(self) -> int:
        """Return nanoseconds on a monotonic clock."""
        return time.monotonic_ns()  # noqa: TID251 - the clock itself

    def unix_s(self) -> float:
        """Return seconds since 1970."""
        return time.time()  # noqa: TID251 - the clock itself

    def event(self) -> Event:
        """Return a new event that is not set."""
        return threading.Event()

    def lock(self) -> Lock:
        """Return a new lock that is free."""
        return threading.Lock()

    def queue(self) -> Queue[Any]:
        """Return a new empty queue."""
        return queue.SimpleQueue()

    def start(self, work: Callable[[], T], name: str, *, awaited: bool) -> Task[T]:
        """Start a thread."""
        return _ThreadTask(work, name, awaited=awaited)


_RUNTIME: ContextVar[Runtime] = ContextVar("runtime", default=Threads())  # noqa: B039 - no state


def runtime() -> Runtime:
    """Return the current runtime; in a new thread, this is this machine's runtime."""
    return _RUNTIME.get()


@contextmanager
def within(entered: Runtime) -> Iterator[None]:
    """Run the code of a `with` block in the given runtime."""
    token = _RUNTIME.set(entered)
    try:
        yield
    finally:
        _RUNTIME.reset(token)


def new_event() -> Event:
    """Return a new event of the current runtime."""
    return runtime().event()


def new_lock() -> Lock:
    """Return a new lock of the current runtime."""
    return runtime().lock()


def new_queue() -> Queue[Any]:
    """Return a new queue of the current runtime."""
    return runtime().queue()


def start(work: Callable[[], T], name: str, *, awaited: bool = False) -> Task[T]:
    """Start a task in the current runtime.

    Args:
        work: The function to run.
        name: Name of the task, for people.
        awaited: Whether a caller will take the result. If not, an exception is a bug of Logquake
            and is reported at once.
    """
    return runtime().start(work, name, awaited=awaited)


def all_of(works: Sequence[Callable[[], T]], name: str) -> list[T]:
    """Run all functions concurrently, wait until each has ended, and return their results in order.

    Raises:
        Exception: A function raised it. If several functions failed, the first in the list counts.
    """
    tasks = [start(work, name, awaited=True) for work in works]
    for each in tasks:
        each.join()
    return [each.result() for each in tasks]
