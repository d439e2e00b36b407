"""What a fault does beside itself, in tasks of its own: how it fails is how the fault fails.

A task notes which of `FAILURES` came last, for others may follow that do better; if no effect can
be measured in the end, the fault's `confirm` raises it. Anything else is a bug of ours, and ends
the task. It is raised where the fault is confirmed, or its heal, and so is one of the run; where
the run is being healed as a whole, the sweep tells of it. Nobody would hear of it in a thread.
"""

from collections.abc import Callable

from cluster.protocol import ClusterError
from results.record.clock import stopwatch_s
from results.record.runtime import Task, start


class Background:
    """The tasks of one fault."""

    def __init__(self) -> None:
        self._tasks: list[Task[None]] = []
        self._failed: Exception | None = None

    def start(self, work: Callable[[], None], name: str) -> None:
        """Start a task."""
        self._tasks.append(start(work, name, awaited=True))

    def note(self, failed: Exception, what: str = "") -> None:
        """Note one of `FAILURES`, after which a task goes on, or ends.

        Args:
            failed: As it was raised.
            what: What was not done, as the beginning of `n1 could not be started again: ...`.
        """
        self._failed = ClusterError(f"{what}: {failed}") if what else failed

    def is_busy(self) -> bool:
        """Tell whether one of them goes on."""
        return not all(task.is_over() for task in self._tasks)

    def join(self, limit_s: float | None = None) -> None:
        """Wait until all of them have ended, or for so many seconds."""
        begun_s = stopwatch_s()
        for task in self._tasks:
            task.join(None if limit_s is None else max(0.0, begun_s + limit_s - stopwatch_s()))

    def raise_bugs(self) -> None:
        """Raise what one of them raised, and did not note; once, so that the heal is confirmed."""
        for task in [each for each in self._tasks if each.is_over()]:
            self._tasks.remove(task)
            task.result()

    def raise_failure(self) -> None:
        """Raise what was noted last, or a bug: no effect could be measured."""
        self.raise_bugs()
        if self._failed is not None:
            raise self._failed
