"""Show a suite's night on a terminal: ended runs, current runs, new failures, time left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.suites.causes import Cause, causes_of
from harness.suites.choosing import estimate_s
from harness.suites.night import Item, NightState, Phase
from harness.suites.nights import NightFolder, is_led
from harness.suites.repeats import uncounted
from harness.suites.reports import states_until
from harness.suites.summary import counts
from results.print_table import STYLES
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.wording.amounts import duration
from results.wording.inert import inert

RECENT = 8
DAY_S = 86_400.0
KILLED = "the night's leading process was killed"
_BAR: Any = {"width": 60, "complete_style": "cyan", "finished_style": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a night at one moment.

    Attributes:
        state: The night's state.
        causes: The causes in the suite's nights up to this night.
        led: Whether a process plays the night now.
        now_s: The moment, in seconds since 1970.
        reached: The last milestone of each run in progress, by run id.
    """

    state: NightState
    causes: Sequence[Cause]
    led: bool
    now_s: float
    reached: dict[str, str]

    def __rich__(self) -> RenderableType:
        """Return the table that shows the night on a terminal."""
        parts = [self._head(), self._bar(), Text("")]
        for title, causes in ((self._new, self._broken(new=True)),
                              ("seen before", self._broken(new=False))):  # fmt: skip
            if causes:
                parts += [Text(title, style="bold"), _cause_table(causes)]
                parts += [*self._uncounted(causes), Text("")]
        under_way = self.state.having(Phase.UNDER_WAY, Phase.PLAYED)
        if under_way and self.led:
            parts += [Text("under way", style="bold"), self._under_way(under_way), Text("")]
        recent = self._recent()
        if recent:
            parts += [Text("last verdicts", style="bold"), _verdict_table(recent)]
        return Group(*parts)

    @property
    def _new(self) -> str:
        """The title for new failures. Only for a recent night does it say "tonight"."""
        recent = self.now_s - self.state.begun_at < DAY_S
        return "new tonight" if recent else "new in that night"

    def _broken(self, *, new: bool) -> list[Cause]:
        return [
            each
            for each in self.causes
            if each.tonight and each.new is new and each.valid == Validity.INVALID
        ]

    def _uncounted(self, causes: Sequence[Cause]) -> list[Text]:
        """Return a line for each reason why reruns are missing from the count."""
        state = self.state
        if not (self.led or state.ended or state.stopped):
            state = replace(state, stopped=KILLED)
        return [
            Text(inert(f"{cause.key}: {sentence}"), style="yellow")
            for cause in causes
            for sentence in uncounted(state, cause.key)
        ]

    def _head(self) -> Text:
        state = self.state
        text = Text(f"{inert(state.suite)}, night {state.night}: ", style="bold")
        for word, count in counts(state).items():
            if count:
                text.append(f"{count} {word}  ", style=STYLES.get(word, "dim"))
        return text.append(self._time(), style="")

    def _time(self) -> str:
        if self.state.ended:
            return f"over, after {duration(self.state.active_s)}"
        if not self.led:
            return f"{self.state.stopped or KILLED}; logquake suite run resumes it"
        left_s = max(0.0, self.state.deadline - self.now_s)
        return f"{duration(self.needs_s)} to go, {duration(left_s)} of the budget left"

    @property
    def needs_s(self) -> float:
        """How long the rest of the night will take, estimated from the runs so far."""
        state = self.state
        waiting = sum(estimate_s(state, each) for each in state.having(Phase.WAITING))
        under_way = state.having(Phase.UNDER_WAY)
        begun = sum(
            max(0.0, estimate_s(state, each) - (self.now_s - each.started_at)) for each in under_way
        )
        left_s = max(0.0, state.deadline - self.now_s)
        return min(left_s, (waiting + begun) / max(1, len(under_way)))

    def _bar(self) -> RenderableType:
        over = self.state.having(Phase.JUDGED, Phase.UNPLAYED, Phase.LEFT_OUT)
        return ProgressBar(total=max(1, len(self.state.items)), completed=len(over), **_BAR)

    def _under_way(self, items: Sequence[Item]) -> Table:
        table = _table("entry", "run", "how far", "seconds")
        for item in items:
            far = "is judged" if item.phase is Phase.PLAYED else self.reached.get(item.run_id, "")
            since_s = self.now_s - (item.played_at or item.started_at)
            table.add_row(*_cells(item.entry, item.run_id, far, f"{since_s:.0f}"))
        return table

    def _recent(self) -> list[Item]:
        judged = self.state.having(Phase.JUDGED, Phase.UNPLAYED)
        judged.sort(key=lambda each: each.judged_at)
        return judged[-RECENT:]


def status_of(store: Path, folder: NightFolder, *, now_s: float) -> Status:
    """Return the current status of a night.

    Args:
        store: The folder of runs.
        folder: The night's folder.
        now_s: In seconds since 1970.
    """
    nights = states_until(store, folder.root.parent.name, folder)
    state = nights[-1]
    reached = {}
    for item in state.having(Phase.UNDER_WAY):
        milestones = load_milestones(RunPaths(store / item.run_id).milestones)
        reached[item.run_id] = milestones[-1].name if milestones else "prepared"
    led = is_led(store, folder.root.parent.name)
    return Status(state=state, causes=causes_of(nights), led=led, now_s=now_s, reached=reached)


def verdict_line(item: Item) -> Text:
    """Return the line that is printed as soon as a run is over."""
    text = Text(f"{item.tone:>8} ", style=STYLES.get(item.tone, "dim"))
    text.append(inert(item.entry), style="")
    if item.repeated:
        text.append(f" ({item.planned.why.words}, {item.planned.seed})", style="dim")
    text.append(f"  {inert(item.run_id)}" if item.run_id else "", style="dim")
    why = item.judged.reason if item.judged else item.sentence
    if why and item.tone != Validity.VALID:
        text.append(f"  {inert(why)}", style="")
    return text


def _cause_table(causes: Sequence[Cause]) -> Table:
    table = _table("signature", "what", "runs", "same seed", "new seeds", "first seen")
    for each in causes:
        told = (each.key, each.sentence, str(len(each.tonight)))
        rates = (each.repeats.same_seed.words, each.repeats.fresh_seeds.words)
        table.add_row(*_cells(*told, *rates, each.nights[0]))
    return table


def _verdict_table(items: Sequence[Item]) -> Table:
    table = _table("verdict", "entry", "run", "why")
    for item in items:
        why = (item.judged.reason if item.judged else item.sentence) or ""
        shown = "" if item.tone == Validity.VALID else why
        tone = Text(item.tone, style=STYLES.get(item.tone, ""))
        table.add_row(tone, *_cells(_called(item), item.run_id, shown))
    return table


def _called(item: Item) -> str:
    return f"{item.entry} ({item.planned.why.words})" if item.repeated else item.entry


def _cells(*cells: str) -> list[Text]:
    """Return table cells. Rich must not interpret their texts as markup."""
    return [Text(inert(each)) for each in cells]


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
