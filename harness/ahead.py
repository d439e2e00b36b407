"""Start the judging engine of a run while the run is still in progress.

The start of Spark takes about as long as the final reads and the stop of the brokers together. So a
thread of the command watches the run's milestones. When the cluster has recovered, the thread
starts Spark, and then imports the modules that draw plots. Until then, only the run uses the
machine. The local engine, and Spark on a cluster, start only when the judgement begins. If the
thread fails, the judgement raises the thread's error.
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
"""Each of these milestones means that all faults are healed, as far as possible. Spark may start
then."""


class Ahead:
    """A thread that starts the engine of one run early, and gives the engine to the judgement.

    Args:
        choice: The engine that the user chose.
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
        """Start the engine after the run has recovered; on exit, end the engine if it still runs.

        Args:
            paths: The run, which this process has locked.
        """
        if not self._is_worth_it(paths):
            yield
            return
        thread = threading.Thread(target=self._make, args=(paths,), name="engine", daemon=True)
        try:
            with postponed():  # The thread must not get a stage's signals.
                thread.start()
            yield
        finally:
            if thread.ident is not None:
                self._end(paths)

    @contextmanager
    def worker(self, paths: RunPaths) -> Iterator["Worker"]:
        """Return the started engine; its temporary files are in the run's folder.

        Raises:
            EngineError: The engine cannot work on this machine.
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
        """Wait until the engine has ended.

        A background thread ends the engine while the command continues.
        """
        self._gone.wait()
        if self._failed is not None:
            raise self._failed

    def _leave(self) -> None:
        try:
            self._opened.close()
        except BaseException as failed:  # noqa: BLE001 - raised by `wait_gone`
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
            # The stage handles signals by now. Signals must also end the engine's processes.
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
        """Wait for one of the named milestones, or until the judgement needs the engine."""
        while not self._due.wait(LOOK_S):
            if any(each.name in names for each in load_milestones(paths.milestones)):
                return

    def _end(self, paths: RunPaths) -> None:
        """End the engine if it runs. If the engine is still starting, kill it."""
        self._given_up = True
        self._due.set()
        while not self._ready.wait(LOOK_S):
            kill_scratched(paths)
        self._gone.wait()
        self._opened.close()


def _load() -> None:
    """Import the modules that draw plots, which the run itself does not need."""
    import results.show  # noqa: PLC0415, F401 - that is what it is for
    from results.report import load  # noqa: PLC0415 - as above

    load()
