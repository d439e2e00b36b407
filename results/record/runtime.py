"""Time, waits, locks and tasks: of this machine, or of a simulation.

Code that is to run in virtual time as well takes its clock from `results.record.clock`, and its
events, locks and tasks from here, and so never asks which of the two it runs in. A task of a
simulation has the simulation's runtime (`cluster.reference.simulator.tasks`); all else has this
machine's, with threads.
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
    """As `threading.Event`."""

    def set(self) -> None:
        """Set it, and wake whoever waits."""

    def clear(self) -> None:
        """Take it back."""

    def is_set(self) -> bool:
        """Tell whether it is set."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many seconds; tell whether it is."""


class Lock(Protocol):
    """As `threading.Lock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as threading has it
        """Wait until nobody holds it, or for so many seconds; tell whether it is held now."""

    def release(self) -> None:
        """Let it go."""

    def __enter__(self) -> object:
        """Wait until nobody holds it, and hold it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Let it go."""


class Queue(Protocol[T]):
    """As `queue.SimpleQueue`: whoever puts never waits, whoever gets does."""

    def put(self, item: T) -> None:
        """Add something at the end."""

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002 - as queue has it
        """Take what is first, and wait for it, at most so many seconds.

        Raises:
            queue.Empty: There is nothing, or nothing came in time.
        """


class Task(Protocol[T_co]):
    """Work that goes on beside whoever started it."""

    def is_over(self) -> bool:
        """Tell whether it has ended."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, or for so many seconds; tell whether it has."""

    def result(self) -> T_co:
        """Wait until it has ended; return what it returned, or raise what it raised."""


class Runtime(Protocol):
    """What blocking code runs in.

    Attributes:
        repeats: Whether all of it can be had again from its seed. Then what is written need not
            survive this process at every moment.
    """

    repeats: bool

    def monotonic_ns(self) -> int:
        """Return nanoseconds on a clock that never goes back."""

    def unix_s(self) -> float:
        """Return seconds since 1970."""

    def event(self) -> Event:
        """Return an event that is not set."""

    def lock(self) -> Lock:
        """Return a lock that nobody holds."""

    def queue(self) -> Queue[Any]:
        """Return a queue with nothing in it."""

    def start(self, work: Callable[[], T], name: str, *, awaited: bool) -> Task[T]:
        """Start a task.

        Args:
            work: What it does.
            name: What it is called, for people.
            awaited: Whether somebody takes its result. What another one raises is a bug of ours,
                which is reported at once.
        """


class _ThreadTask:
    """A task in a thread, which does not keep the process from ending."""

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
    """This machine's runtime."""

    repeats = False

    def monotonic_ns(self) -> int:
        """Return nanoseconds on a clock that never goes back."""
        return time.monotonic_ns()  # noqa: TID251 - the clock itself

    def unix_s(self) -> float:
        """Return seconds since 1970."""
        return time.time()  # noqa: TID251 - the clock itself

    def event(self) -> Event:
        """Return an event that is not set."""
        return threading.Event()

    def lock(self) -> Lock:
        """Return a lock that nobody holds."""
        return threading.Lock()

    def queue(self) -> Queue[Any]:
        """Return a queue with nothing in it."""
        return queue.SimpleQueue()

    def start(self, work: Callable[[], T], name: str, *, awaited: bool) -> Task[T]:
        """Start a thread."""
        return _ThreadTask(work, name, awaited=awaited)


_RUNTIME: ContextVar[Runtime] = ContextVar("runtime", default=Threads())  # noqa: B039 - no state


def runtime() -> Runtime:
    """Return what this code runs in. A new thread runs in this machine's."""
    return _RUNTIME.get()


@contextmanager
def within(entered: Runtime) -> Iterator[None]:
    """Have the code of a block run in a runtime."""
    token = _RUNTIME.set(entered)
    try:
        yield
    finally:
        _RUNTIME.reset(token)


def new_event() -> Event:
    """Return an event of what this code runs in."""
    return runtime().event()


def new_lock() -> Lock:
    """Return a lock of what this code runs in."""
    return runtime().lock()


def new_queue() -> Queue[Any]:
    """Return a queue of what this code runs in."""
    return runtime().queue()


def start(work: Callable[[], T], name: str, *, awaited: bool = False) -> Task[T]:
    """Start a task beside this code, in what it runs in.

    Args:
        work: What it does.
        name: What it is called, for people.
        awaited: Whether somebody takes its result. What another one raises is a bug of ours, which
            is reported at once.
    """
    return runtime().start(work, name, awaited=awaited)


def all_of(works: Sequence[Callable[[], T]], name: str) -> list[T]:
    """Do all side by side, wait until each is over, and return what they returned, in order.

    Raises:
        Exception: What the first of them raised that raised something.
    """
    tasks = [start(work, name, awaited=True) for work in works]
    for each in tasks:
        each.join()
    return [each.result() for each in tasks]
