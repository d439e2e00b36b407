"""Background tasks of a fault. An error in a task counts as an error of the fault.

If a task gets one of the errors in `FAILURES`, it notes this error and may continue, because a
later attempt may succeed. If the tasks have no effect until the time limit, the fault's `confirm`
raises the last noted error. Any other error is a bug of Logquake, and ends the task. Logquake
raises this error when it confirms the fault or the heal, and the run fails. If the sweep of all
faults (`nemesis/sweep.py`) confirms the heal, the sweep reports the error. In a plain thread the
error would stay unnoticed.
"""

from collections.abc import Callable

from cluster.protocol import ClusterError
from results.record.clock import stopwatch_s
from results.record.runtime import Task, start


class Background:
    """The background tasks of one fault."""

    def __init__(self) -> None:
        self._tasks: list[Task[None]] = []
        self._failed: Exception | None = None

    def start(self, work: Callable[[], None], name: str) -> None:
        """Start a background task of the fault."""
        self._tasks.append(start(work, name, awaited=True))

    def note(self, failed: Exception, what: str = "") -> None:
        """Note an error of `FAILURES`. The task may then continue or end.

        Args:
            failed: The error.
            what: The failed action, such as `n1 could not be started again`. The message begins
                with this text.
        """
        self._failed = ClusterError(f"{what}: {failed}") if what else failed

    def is_busy(self) -> bool:
        """Return whether a task is still running."""
        return not all(task.is_over() for task in self._tasks)

    def join(self, limit_s: float | None = None) -> None:
        """Wait until all tasks have ended, or until the time limit in seconds."""
        begun_s = stopwatch_s()
        for task in self._tasks:
            task.join(None if limit_s is None else max(0.0, begun_s + limit_s - stopwatch_s()))

    def raise_bugs(self) -> None:
        """Raise the unexpected error of a task that has ended. Each error is raised only once.

        So the heal can be confirmed at a second attempt.
        """
        for task in [each for each in self._tasks if each.is_over()]:
            self._tasks.remove(task)
            task.result()

    def raise_failure(self) -> None:
        """Raise a task's unexpected error. If there is none, raise the last noted error, if any."""
        self.raise_bugs()
        if self._failed is not None:
            raise self._failed
