"""Show the progress of a run: phase, rates, current faults, leaders, time left.

A terminal shows a live panel. Any other output, e.g. a log file, gets one line for each milestone
and one line every few seconds, without control characters.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from results.record.clock import pause_until, stopwatch_s
from results.wording.amounts import duration
from results.wording.plural import many

LINE_INTERVAL_S = 10.0
REFRESH_INTERVAL_S = 0.25
_BAR_COLUMNS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The values that the progress display shows at one moment.

    Attributes:
        rates: How many operations ended in the last second, for each outcome.
        kinds: How many operations ended in the last second, for each kind (`send`, `poll`).
        total: The number of operations that have ended.
        missed: The number of operations that were due when no process was free.
        faults: A sentence for each fault in force.
        leaders: One line for each node that leads partitions: `n2: log-0-1 (epoch 3)`.
    """

    rates: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    total: int = 0
    missed: int = 0
    faults: tuple[str, ...] = ()
    leaders: tuple[str, ...] = ()


def redraws(console: Console) -> bool:
    """Return whether a console can overwrite its output; a console with TERM=dumb cannot."""
    return console.is_terminal and not console.is_dumb_terminal


class Progress:
    """The progress display of one run.

    Args:
        console: The console that shows the progress.
        look: The function that returns the current values. The display's thread calls it a few
            times a second.
        draws: Whether to show the progress, as a panel or as regular lines. If False, only messages
            are printed.
    """

    def __init__(
        self, console: Console, look: Callable[[], Snapshot], *, draws: bool = True
    ) -> None:
        self._console = console
        self._draws = draws
        self._look = look
        self._phase = "preparing"
        self._ends_s: float | None = None
        self._lasts_s: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)

    def __enter__(self) -> "Progress":
        """Start the display's thread."""
        if self._draws:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the display's thread."""
        self._stop.set()
        if self._draws:
            self._thread.join()

    def phase(self, name: str, *, lasts_s: float | None = None) -> None:
        """Print that a phase begins. If it is known how long the phase lasts, print this, too."""
        self._phase, self._lasts_s = name, lasts_s
        self._ends_s = None if lasts_s is None else stopwatch_s() + lasts_s
        limit = "" if lasts_s is None else f" ({duration(lasts_s)})"
        self.say(f"{name}{limit}")

    def say(self, sentence: str) -> None:
        """Print a line that stays visible."""
        self._console.print(Text(f"  {sentence}"), highlight=False)

    def _draw(self) -> None:
        if not redraws(self._console):
            self._print_lines()
            return
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while not pause_until(stopwatch_s() + REFRESH_INTERVAL_S, self._stop):
                live.update(self._panel(self._look()), refresh=True)

    def _print_lines(self) -> None:
        while not pause_until(stopwatch_s() + LINE_INTERVAL_S, self._stop):
            shown = self._look()
            if shown.total:
                left = f"{self._left()}, " if self._left() else ""
                self.say(f"  {left}{_rates(shown)}{_faults(shown)}")

    def _left_s(self) -> float | None:
        return None if self._ends_s is None else max(0.0, self._ends_s - stopwatch_s())

    def _left(self) -> str:
        left_s = self._left_s()
        return "" if left_s is None else f"{duration(left_s)} left"

    def _bar(self) -> ProgressBar:
        """Return the phase's progress bar. The bar pulses if the length of the phase is unknown."""
        left_s, lasts_s = self._left_s(), self._lasts_s
        if left_s is None or not lasts_s:
            return ProgressBar(width=_BAR_COLUMNS, pulse=True)
        return ProgressBar(total=lasts_s, completed=lasts_s - left_s, width=_BAR_COLUMNS)

    def _panel(self, shown: Snapshot) -> Table:
        bar = Table.grid(padding=(0, 2))
        bar.add_row(self._bar(), Text(self._left()))
        grid = Table.grid(padding=(0, 2))
        grid.add_row(Text("  clients", style="dim"), Text(_rates(shown)))  # Low terminals show it.
        grid.add_row(Text("  phase", style="dim"), Text(self._phase))
        grid.add_row("", bar)
        for sentence in shown.faults or ("none",):
            grid.add_row(Text("  fault", style="dim"), Text(sentence, style="yellow"))
        for leader in shown.leaders:
            grid.add_row(Text("  leads", style="dim"), Text(leader))
        return grid


def _rates(shown: Snapshot) -> str:
    parts = [
        ", ".join(f"{name} {count:,}" for name, count in sorted(each.items()))
        for each in (shown.kinds, shown.rates)
    ]
    counts = f"{many(shown.total, 'op')}, {shown.missed:,} missed"
    words = "; ".join(filter(None, parts))
    rate = f"{sum(shown.rates.values()):,} ops/s ({words})" if words else "idle"
    return f"{rate}; {counts}"


def _faults(shown: Snapshot) -> str:
    return f"; in force: {'; '.join(shown.faults)}" if shown.faults else ""
