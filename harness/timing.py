"""Measure how long the steps of a run's command take. The run's own process records milestones."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

import psutil

from results.record.atomic import StoreError
from results.record.clock import NS_PER_S, RunClock, stopwatch_s, unix_s
from results.record.paths import RunPaths
from results.record.timings import Timings, write_timings


def process_began_s() -> float:
    """Return when this process started, in seconds of `stopwatch_s`. Imports then count, too."""
    return stopwatch_s() - (unix_s() - psutil.Process().create_time())


@dataclass(slots=True)
class Timer:
    """A timer that records when the steps of a run's command begin and end.

    Attributes:
        began_s: When the command started, in seconds of `stopwatch_s`. None if the command also
            plays other runs.
    """

    began_s: float | None = None
    _timings: Timings = field(default_factory=Timings)
    _clock: RunClock | None = None

    def starts(self, clock: RunClock) -> None:
        """Use the start of a run's clock as time zero. The clock must be one of this machine."""
        self._clock = clock
        if self.began_s is not None:
            began_ns = round(self.began_s * NS_PER_S) - clock.start_ns
            self._timings = replace(self._timings, began_ns=began_ns)

    def judging(self) -> None:
        """Record that the judgement begins now."""
        self._timings = replace(self._timings, judging_ns=self._now_ns())

    def judged(self, paths: RunPaths) -> None:
        """Record that the verdict was just written."""
        self._timings = replace(self._timings, judged_ns=self._now_ns())
        self._write(paths)

    def drawn(self, paths: RunPaths) -> None:
        """Record that the page was just written."""
        self._timings = replace(self._timings, drawn_ns=self._now_ns())
        self._write(paths)

    def _now_ns(self) -> int | None:
        return None if self._clock is None else self._clock.now_ns()

    def _write(self, paths: RunPaths) -> None:
        if self._clock is not None:
            with suppress(StoreError):  # A full disk must not cost the verdict that was written.
                write_timings(paths.timings, self._timings)
