"""The engine of a run's judgement, made ready while the run still goes on.

Spark takes as long to start as the last reads and the stop of the brokers. So a thread of the run's
command watches the milestones. When all is recovered, it starts Spark, and then imports what draws:
until then the run has the machine for itself. The local engine, and Spark on a cluster, are started
when the judgement begins.

What the thread raises is raised where the judgement begins, as if Spark had been started there.
"""

import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from harness.interrupt import SIGNALS, postponed
from harness.judgement import Engine, entered
from harness.scratch import can_hold, kill_scratched, scratch_in
from results.record.milestones import STOPPING, load_milestones
from results.record.paths import RunPaths

if TYPE_CHECKING:
    from checkers.engine import Engine as Worker

LOOK_S = 0.2
_CALM = frozenset({"recovered", STOPPING, "final-reads", "noted", "stopped", "collected"})
"""From the first of these milestones on, all faults are healed, as far as they will be."""


class Ahead:
    """Makes the engine of one run ready, in a thread, and gives it to the judgement.

    Args:
        choice: Who judges.
    """

    def __init__(self, choice: Engine) -> None:
        self.choice = choice
        self._due, self._ready = threading.Event(), threading.Event()
        self._gone = threading.Event()
        self._gone.set()
        self._given_up = False
        self._opened = ExitStack()
        self._worker: Worker | None = None
        self._failed: BaseException | None = None

    @contextmanager
    def watching(self, paths: RunPaths) -> Iterator[None]:
        """Watch a run that begins, and make its engine ready in time; end what is left of it.

        Args:
            paths: The run, which this process has locked.
        """
        if not self._is_worth_it(paths):
            yield
            return
        thread = threading.Thread(target=self._make, args=(paths,), name="engine", daemon=True)
        try:
            with postponed():  # The thread takes no signal that is meant for a stage which starts.
                thread.start()
            yield
        finally:
            if thread.ident is not None:
                self._end(paths)

    @contextmanager
    def worker(self, paths: RunPaths) -> Iterator["Worker"]:
        """Return the engine, ready; its temporary files lie in the run's folder.

        Raises:
            EngineError: It cannot work here.
        """
        if not self._is_worth_it(paths):
            with scratch_in(paths), entered(self.choice) as worker:
                yield worker
            return
        self._due.set()
        self._ready.wait()
        if self._worker is None:
            raise self._failed or AssertionError("neither an engine nor a reason")
        with ExitStack() as failing:
            failing.push(self._opened)
            yield self._worker
            failing.pop_all()
        with postponed():
            self._gone.clear()
            threading.Thread(target=self._leave, name="engine", daemon=True).start()

    def wait_gone(self) -> None:
        """Wait until the engine has ended, which it does beside what follows the judgement."""
        self._gone.wait()
        if self._failed is not None:
            raise self._failed

    def _leave(self) -> None:
        try:
            self._opened.close()
        except BaseException as failed:  # noqa: BLE001 - raised where its end is waited for
            self._failed = failed
        finally:
            self._gone.set()

    def _is_worth_it(self, paths: RunPaths) -> bool:
        choice = self.choice
        return choice.name == "spark" and not choice.spark_master and can_hold(paths)

    def _make(self, paths: RunPaths) -> None:
        try:
            self._await(paths, _CALM)
            if self._given_up:
                return
            # The stage listens by now; and what is started here must end by signals.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            with ExitStack() as opened:
                opened.enter_context(scratch_in(paths))
                self._worker = opened.enter_context(entered(self.choice, warm=True))
                self._opened = opened.pop_all()
        except BaseException as failed:  # noqa: BLE001 - raised where the judgement begins
            self._failed = failed
        finally:
            self._ready.set()
        if not self._due.is_set():
            _load()

    def _await(self, paths: RunPaths, names: Collection[str]) -> None:
        """Wait for one of some milestones, or until the engine is due whatever was reached."""
        while not self._due.wait(LOOK_S):
            if any(each.name in names for each in load_milestones(paths.milestones)):
                return

    def _end(self, paths: RunPaths) -> None:
        """End the engine, if nobody has; one that is still on its way is killed."""
        self._given_up = True
        self._due.set()
        while not self._ready.wait(LOOK_S):
            kill_scratched(paths)
        self._gone.wait()
        self._opened.close()


def _load() -> None:
    """Import what draws, which a run can do without until then."""
    import results.show  # noqa: PLC0415, F401 - that is what it is for
    from results.report import load  # noqa: PLC0415 - as above

    load()
