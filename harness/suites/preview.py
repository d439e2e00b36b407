"""`logquake suite run --dry-run`: show a night's entries, their times, and what is left out."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cluster.protocol import UserError
from harness.dry_run import dealt
from harness.suites.estimates import estimate, refresh
from harness.suites.expansion import Entry, entries_of, excluded
from harness.suites.ordering import ordered
from harness.suites.slots import slots
from harness.suites.suite import Suite
from results.index import open_index
from results.record.plan import Plan, PlanError
from results.store import Store
from results.wording.amounts import duration
from results.wording.plural import many

BY_DEFAULT = (
    "default: warm-up and main phase, plus start, recovery, final reads, stop and judging as"
    " measured on 2 cores"
)


def print_preview(suite: Suite, store: Path, console: Console) -> None:
    """Print a suite's entries in order, how long they take on this machine, and what is left out.

    Args:
        suite: The suite.
        store: The folder of runs. The estimates are based on how long these runs took.
        console: The terminal.
    """
    entries = ordered(entries_of(suite), waited={}, night="dry-run")
    plans = [each.plan(each.seed or 0) for each in entries]
    at_once = slots(suite.parallel, plans).runs
    with open_index(Store(store)) as index:
        refresh(index)
        takes = [
            estimate(entry, plan, index, suite=suite.name, at_once=at_once)
            for entry, plan in zip(entries, plans, strict=True)
        ]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("entry", "weight", "seed", "seconds", "measured by"):
        table.add_column(column, overflow="fold")
    for entry, each in zip(entries, takes, strict=True):
        seed = "fresh" if entry.seed is None else str(entry.seed)
        row = (f"{entry.weight:g}", seed, f"{each.takes_s:.0f}", each.source)
        table.add_row(Text(entry.name), *row)
    console.print(table)
    needs_s = sum(each.takes_s for each in takes) / at_once
    console.print(
        f"{many(len(entries), 'entry', 'entries')}, {at_once} at once: about {duration(needs_s)}"
        f" without reruns; the budget is {duration(suite.budget)}"
    )
    if not all(each.measured for each in takes):
        console.print(BY_DEFAULT, soft_wrap=True)
    if needs_s > suite.budget:
        console.print(
            "entries that do not fit are left out tonight and run first in the next night"
        )
    for sentence in left_out(suite, entries, plans):
        console.print(sentence, markup=False, soft_wrap=True)


def left_out(suite: Suite, entries: list[Entry], plans: list[Plan]) -> Iterator[str]:
    """Yield sentences that say which combinations and faults a night leaves out, and why.

    In rare cases the night will leave out other faults, because its seeds are not known yet, and
    seeds can decide which faults fit in the main phase.

    Args:
        suite: The suite.
        entries: The suite's entries.
        plans: The entries' plans, in the order of the entries.
    """
    if count := excluded(suite):
        what = "combination" if count == 1 else "combinations"
        yield f"[[exclude]] removes {count} {what} of the axes"
    reasons: dict[str, list[str]] = {}
    for entry, plan in zip(entries, plans, strict=True):
        for sentence in _dropped(plan):
            reasons.setdefault(sentence, []).append(entry.name)
    for sentence, names in reasons.items():
        more = len(names) - 1
        others = f" and {many(more, 'more entry', 'more entries')}" if more else ""
        yield f"{names[0]}{others}: {sentence}"


def _dropped(plan: Plan) -> tuple[str, ...]:
    try:
        return dealt(plan).schedule.dropped
    except (UserError, PlanError) as refused:
        return (f"it cannot run on this machine: {refused}",)
