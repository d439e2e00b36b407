"""Runs in a terminal: one of them, or all of a store.

Nothing that comes from a record is read as markup, and control characters are shown as escapes, so
that neither a topic's name nor a broker's error can move the cursor.
"""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from results.atomic import StoreError
from results.page.fault_kinds import kind_lines
from results.page.faults import fault_lines
from results.page.figures import figures
from results.page.headline import counting, headline, ranked_anomalies
from results.page.inert import inert
from results.page.naming import said, with_names
from results.page.replicas import Cell, ReplicaWindow, replica_window
from results.record.paths import RunPaths
from results.record.verdict import Verdict
from results.samples import SAMPLE_PREFIX, is_sample, sample_names
from results.show_story import print_story
from results.store import Store, is_alive
from results.tables import RunTables
from results.verdict_json import read_verdict

_STYLES = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
_MAX_FAULTS = 40


def show_run(paths: RunPaths, console: Console) -> None:
    """Print one run: its verdict, the witness, what the replicas hold, faults and figures.

    Raises:
        StoreError: The verdict is there, but cannot be read.
    """
    verdict = read_verdict(paths.verdict)
    tables = RunTables(paths)
    _say(console, f"run {paths.run_id}", style="bold")
    print_story(paths, console)
    scripted = paths.steps.exists()
    print_verdict(verdict, console, alive=is_alive(paths), scripted=scripted)
    witness = headline(verdict).witness
    window = replica_window(tables, witness) if witness else None
    if window and not scripted:
        _print_window(window, console)
    _print_faults(tables, console)
    _print_figures(tables, console)
    for damaged in tables.unreadable:
        _say(console, f"{damaged} is damaged, and was left out", style="yellow")
    page = paths.report if paths.report.exists() else None
    name = SAMPLE_PREFIX + paths.root.name if is_sample(paths) else paths.run_id
    _say(console, f"page: {page}" if page else f"page: none yet; logquake report {name}")


def print_verdict(
    verdict: Verdict | None, console: Console, *, alive: bool = False, scripted: bool = False
) -> None:
    """Print a verdict: the sentence, its witness, and a table of anomalies.

    Args:
        verdict: None: the run was not judged.
        console: Where to.
        alive: The run is still under way.
        scripted: It is a scenario's, and its messages have names.
    """
    head = headline(verdict, alive=alive)
    named = with_names if scripted else str
    _say(console, head.sentence, style=_STYLES.get(head.tone, "bold"))
    if head.witness:
        _say(console, said(named(head.witness.sentence)))
    for sentence in head.more:
        _say(console, sentence)
    if verdict is None:
        return
    for why in verdict.unknown_because if head.tone != "unknown" else ():
        _say(console, why, style="yellow")
    ranked = ranked_anomalies(verdict)
    if ranked:
        rows = [
            (name, each.count, counting(each), each.allowed, each.trusted) for name, each in ranked
        ]
        _print_table(console, ("anomaly", "found", "not allowed", "allowed", "trusted"), rows)
    looked = sum(rows is not None for rows in verdict.checked.values())
    rest = len(verdict.checked) - looked
    beside = f" ({rest} more are not applicable)" if rest else ""
    told = f"{looked} checks{beside}, judge {verdict.judge}, engine {verdict.engine}"
    _say(console, told, style="dim")


def list_runs(store: Store, console: Console) -> None:
    """Print the runs of a store, newest first, with their verdicts.

    Raises:
        StoreError: The store may not be read.
    """
    runs = store.runs()
    if not runs:
        samples = ", ".join(sample_names()) or "none"
        _say(console, f"no runs in {store.root}; make one with: logquake run (samples: {samples})")
        return
    _print_table(console, ("run", "verdict", "what"), [_listed(paths) for paths in runs])


def _listed(paths: RunPaths) -> tuple[str, str, str]:
    try:
        verdict = read_verdict(paths.verdict)
        alive = verdict is None and is_alive(paths)
    except StoreError as trouble:
        return paths.run_id, "?", str(trouble)
    if verdict is None:
        return paths.run_id, "running" if alive else "none", "" if alive else "not judged"
    head = headline(verdict)
    return paths.run_id, head.tone, head.sentence.partition(": ")[2] or head.sentence


def _print_window(window: ReplicaWindow, console: Console) -> None:
    _say(console, f"the logs of {window.place} around offset {window.offset}:")
    near = [number for number, each in enumerate(window.rows[0].cells) if not each.far]
    rows = [
        (
            f"{row.name}, {row.note}" if row.note else row.name,
            *(_cell_text(row.cells[number]) for number in near),
        )
        for row in window.rows
    ]
    _print_table(console, ("replica", *(str(window.offsets[number]) for number in near)), rows)
    _say(console, "(e: leader epoch; ≠: not what clients were told)", style="dim")


def _cell_text(cell: Cell) -> str:
    epoch = "" if cell.epoch is None else f" e{cell.epoch}"
    return f"{'≠' if cell.differs else ''}{cell.text or 'nothing'}{epoch}"


def _print_faults(tables: RunTables, console: Console) -> None:
    faults = fault_lines(tables)
    if not faults:
        return
    rows = [
        (
            fault.kind,
            fault.target,
            fault.nodes,
            f"{fault.requested_s:.1f}",
            "never" if fault.healed_s is None else f"{fault.healed_s:.1f}",
            "no" if fault.confirmed_s is None else "yes",
        )
        for fault in faults[:_MAX_FAULTS]
    ]
    _print_table(console, ("fault", "planned for", "hit", "from (s)", "to (s)", "confirmed"), rows)
    if len(faults) > _MAX_FAULTS:
        _say(console, f"and {len(faults) - _MAX_FAULTS} more faults")
    columns = ("faults by kind", "planned", "confirmed", "without effect", "healed", "not healed")
    kinds = [
        (
            line.kind or "all",
            line.planned,
            line.confirmed,
            line.without_effect,
            line.healed,
            line.not_healed,
        )
        for line in kind_lines(faults)
    ]
    _print_table(console, columns, kinds)


def _print_figures(tables: RunTables, console: Console) -> None:
    sums = figures(tables)
    if sums.operations:
        rows: list[tuple[str | int, ...]] = [
            (f, *counts, total) for f, counts, total in sums.operations
        ]
        _print_table(console, ("operation", *sums.outcomes, "all"), rows)
    if sums.held is not None:
        calm = "" if sums.calm_held is None else f" ({sums.calm_held:.1%} outside of faults)"
        held = f"held {sums.held:.1%}{calm}"
        _say(console, f"offered {sums.offered:,} operations, {held}, missed {sums.missed:,}")


def _print_table(
    console: Console, columns: Iterable[str], rows: Iterable[Iterable[str | int]]
) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        # Folded, never cut off: a name that is half shown cannot be typed again.
        table.add_column(Text(inert(column)), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(each) for each in row))
    console.print(table)


def _cell(value: str | int) -> Text:
    if isinstance(value, int):
        return Text(f"{value:,}", justify="right")
    return Text(inert(value), style=_STYLES.get(value, "").removeprefix("bold "))


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(Text(inert(text), style=style))
