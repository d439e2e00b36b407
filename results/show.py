"""Print one run, or all runs of a store, in a terminal.

A text from a record is never taken as markup, and control characters in it are printed as escapes.
So the name of a topic, or an error from a broker, cannot move the cursor.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console

from results.environment import read_environment
from results.page.coverage import Coverage
from results.page.fault_kinds import kind_lines
from results.page.figures import figures
from results.page.investigation import Investigation, investigate
from results.page.outages import outages
from results.page.replicas import Cell, ReplicaWindow, replica_window
from results.page.setting import setting_rows
from results.phases import counted_from, phases, whole_s
from results.print_table import STYLES, print_table, say, say_page
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.timings import read_timings
from results.record.verdict import Verdict
from results.samples import sample_names
from results.show_case import print_breach, print_recurrence, print_story_of_witness
from results.show_story import print_story
from results.store import Store, is_alive, typed
from results.tables import RunTables
from results.verdict_json import read_verdict
from results.wording.faults import FaultLine
from results.wording.glossary import GLOSSARY
from results.wording.headline import Headline, counting, headline, ranked_anomalies
from results.wording.naming import Names, said, without_verdict
from results.wording.plural import many
from results.wording.resting import resting, unshown_count

_MAX_FAULTS = 40
_MAX_OUTAGES = 8
_OPS = {"assign", "crash"}
"""The ops that the table of operations explains."""
_MAX_TRUNCATIONS = 40
_MAX_ANOMALIES, _MAX_REASONS = 60, 40


def show_run(paths: RunPaths, console: Console) -> None:
    """Print one run: its verdict, the main anomaly, the replicas' logs, faults and figures.

    Raises:
        StoreError: The verdict exists, but cannot be read.
    """
    read_verdict(paths.verdict)
    tables = RunTables(paths)
    found = investigate(paths, tables)
    scripted = paths.steps.exists()
    command = typed(paths)
    say(console, f"run {paths.run_id}", style="bold")
    print_story(paths, console)
    _print_sentence(found.head, console, names=found.names, witness=found.witness_says)
    if paths.report.exists():
        say_page(console, paths.report)
    else:
        say(console, f"page: none yet; logquake report {command}")
    print_breach(found, console)
    print_story_of_witness(found, console)
    if found.told is not None:
        _print_how_to_ask(found, console, command=command)
    window = replica_window(tables, found.head.witness) if found.head.witness else None
    if window and not scripted:
        _print_window(window, console, names=found.names)
    print_recurrence(found, console, command=command)
    say(console, "")
    print_table(console, ("it ran on", ""), _setting(paths, found))
    if found.verdict:
        _print_anomalies(found.verdict, console, tone=found.head.tone, names=found.names)
    _print_faults(found, console)
    _print_truncations(found, console)
    if found.verdict:
        _print_resting(found.verdict, console)
    _print_figures(tables, found, console)
    _print_coverage(found.coverage, console)
    _print_phases(paths, found, console)
    for damaged in dict.fromkeys(tables.unreadable):
        say(console, f"{damaged} is damaged and was left out", style="yellow")


def _print_how_to_ask(found: Investigation, console: Console, *, command: str) -> None:
    """Print the command that shows all details of the main anomaly's op and message."""
    evidence = found.case.example.evidence if found.case else {}
    op_id, value = evidence.get("op_id"), evidence.get("value")
    known = [
        *([f"{found.names.op(op_id)} shows its op"] if isinstance(op_id, int) else []),
        *([f"{found.names.value(value)} its value"] if isinstance(value, int) else []),
    ]
    if known:
        say(console, f"(for details: logquake show {command} {', and '.join(known)})", style="dim")


def _setting(paths: RunPaths, found: Investigation) -> list[tuple[str, str]]:
    try:
        environment = read_environment(paths.environment)
    except StoreError as trouble:
        return [("environment.json", str(trouble))]
    plan = found.plan.model_dump(mode="json", exclude_none=True) if found.plan else {}
    return setting_rows(plan, environment, night=found.recurrence.night)


def print_verdict(
    verdict: Verdict | None,
    console: Console,
    *,
    names: Callable[[str], str] = str,
    page: Path | None = None,
) -> None:
    """Print a verdict: its sentence, its main anomaly, and a table of all anomalies.

    Args:
        verdict: The verdict; None if the run was not judged.
        console: The console to print on.
        names: A function that takes a sentence and inserts the run's short names.
        page: The page of the run; None if there is none.
    """
    print_sentence(verdict, console, names=names)
    if page is not None:
        say_page(console, page)
    print_details(verdict, console, names=names)


def print_sentence(
    verdict: Verdict | None, console: Console, *, names: Callable[[str], str] = str
) -> None:
    """Print a verdict's sentence and main anomaly; the parameters are as in `print_verdict`."""
    head = headline(verdict)
    _print_sentence(head, console, names=names, witness=head.witness_says)


def print_details(
    verdict: Verdict | None, console: Console, *, names: Callable[[str], str] = str
) -> None:
    """Print a verdict's table of anomalies; the parameters are as in `print_verdict`."""
    if verdict is None:
        return
    _print_anomalies(verdict, console, tone=headline(verdict).tone, names=names)
    if hidden := unshown_count(verdict):
        told = many(hidden, "thing")
        say(console, f"this run could not show {told} (see the list of logquake show)", style="dim")


def _print_sentence(
    head: Headline, console: Console, *, names: Callable[[str], str], witness: str
) -> None:
    say(console, names(head.sentence), style=STYLES.get(head.tone, "bold"))
    if head.cause:
        say(console, names(said(head.cause)), style="bold")
    if witness:
        say(console, names(said(witness)))
    for sentence in head.more[:_MAX_REASONS]:
        say(console, names(sentence))
    if len(head.more) > _MAX_REASONS:
        say(console, f"and {many(len(head.more) - _MAX_REASONS, 'more reason')}, in verdict.json")


def _print_anomalies(
    verdict: Verdict, console: Console, *, tone: str, names: Callable[[str], str]
) -> None:
    _print_reasons(verdict.unknown_because if tone != "unknown" else (), console, names=names)
    ranked = ranked_anomalies(verdict)
    if ranked:
        rows = [
            (name, each.count, counting(each), each.allowed, each.trusted)
            for name, each in ranked[:_MAX_ANOMALIES]
        ]
        print_table(console, ("anomaly", "found", "not allowed", "allowed", "trusted"), rows)
    if len(ranked) > _MAX_ANOMALIES:
        say(console, f"and {many(len(ranked) - _MAX_ANOMALIES, 'more kind')}, in verdict.json")
    looked = sum(rows is not None for rows in verdict.checked.values())
    told = f"{many(looked, 'check')}, judge {verdict.judge}, engine {verdict.engine}"
    say(console, told, style="dim")
    idle = sorted(name for name, rows in verdict.checked.items() if rows is None)
    if idle:
        why = f"({GLOSSARY['not applicable']})"
        are = f"{len(idle)} {'is' if len(idle) == 1 else 'are'}"
        say(console, f"{are} not applicable: {', '.join(idle)} {why}", style="dim")


def _print_resting(verdict: Verdict, console: Console) -> None:
    rests = resting(verdict)
    if rests:
        say(console, "what the verdict rests on", style="bold")
    for each in rests:
        say(console, f"{each.promise}: {each.summary[:1].lower()}{each.summary[1:]}")
        for line in each.lines:
            when = f", {line.when}" if line.when else ""
            say(console, f"    {line.what}: {line.rows:,} ({line.check}{when})", style="dim")
        for sentence in each.unshown[:_MAX_REASONS]:
            say(console, f"    not shown: {sentence}", style="yellow")


def _print_reasons(
    reasons: Sequence[str], console: Console, *, names: Callable[[str], str]
) -> None:
    for why in reasons[:_MAX_REASONS]:
        say(console, names(why), style="yellow")
    if len(reasons) > _MAX_REASONS:
        more = f"and {many(len(reasons) - _MAX_REASONS, 'more reason')}, in verdict.json"
        say(console, more, style="yellow")


def list_runs(store: Store, console: Console) -> None:
    """Print the runs of a store, newest first, with their verdicts.

    Raises:
        StoreError: The store cannot be read.
    """
    runs = store.runs()
    if not runs:
        samples = ", ".join(sample_names()) or "none"
        say(
            console,
            (
                f"there are no runs in {store.root}; start one with: logquake run (samples:"
                f" {samples})"
            ),
        )
        return
    print_table(console, ("run", "verdict", "what"), [_listed(paths) for paths in runs])


def _listed(paths: RunPaths) -> tuple[str, str, str]:
    try:
        verdict = read_verdict(paths.verdict)
        alive = verdict is None and is_alive(paths)
    except StoreError as trouble:
        return paths.run_id, "?", str(trouble)
    if verdict is None:
        return paths.run_id, "running" if alive else "none", "" if alive else "not judged"
    head = headline(verdict)
    return paths.run_id, head.tone, without_verdict(head.sentence)


def _print_window(window: ReplicaWindow, console: Console, *, names: Names) -> None:
    say(console, f"the logs of {window.place} around offset {window.offset}:")
    near = [number for number, each in enumerate(window.rows[0].cells) if not each.far]
    rows = [
        (
            f"{row.name}, {row.note}" if row.note else row.name,
            *(_cell_text(row.cells[number], window.place, names) for number in near),
        )
        for row in window.rows
    ]
    print_table(console, ("replica", *(str(window.offsets[number]) for number in near)), rows)
    keys = [names.legend(window.sample, window.place), "e: leader epoch"]
    keys.append("≠: differs from the values that clients got")
    keys.append("also: clients got more than one value" if window.told_twice else "")
    keys.append("?: not known" if window.unknown else "")
    say(console, f"({'; '.join(filter(None, keys))})", style="dim")


def _cell_text(cell: Cell, place: str, names: Names) -> str:
    epoch = "" if cell.epoch is None else f" e{cell.epoch}"
    also = f", also {names.cell(cell.also[0], place)}" if cell.also else ""
    return f"{'≠' if cell.differs else ''}{names.cell(cell.text, place) or 'nothing'}{epoch}{also}"


def _print_faults(found: Investigation, console: Console) -> None:
    faults = found.faults
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
    print_table(console, ("fault", "planned for", "hit", "from (s)", "to (s)", "confirmed"), rows)
    if (more := len(faults) - _MAX_FAULTS) > 0:
        say(console, f"and {many(more, 'more fault')}")
    if counted := counted_from(found.milestones):
        say(console, f"({counted})", style="dim")
    for fault in faults[:_MAX_FAULTS]:
        _print_measured(fault, console)
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
    print_table(console, columns, kinds)


def _print_measured(fault: FaultLine, console: Console) -> None:
    """Print how long a fault waited for its condition, and what the fault and its heal did."""
    measured = (fault.waited, fault.effect, fault.heal_effect)
    told = "; ".join(each for each in measured if each and each != "{}")  # {}: nothing is recorded.
    if told:
        hit = fault.nodes or fault.target
        say(console, f"{fault.kind} of {hit} at {fault.requested_s:.1f} s: {told}", style="dim")


def _print_truncations(found: Investigation, console: Console) -> None:
    if not found.truncations:
        return
    rows = [
        (each.node, each.place, str(each.offset), each.when or "not known", each.reason)
        for each in found.truncations[:_MAX_TRUNCATIONS]
    ]
    print_table(console, ("truncated its log", "partition", "from offset", "when", "why"), rows)
    if (more := len(found.truncations) - _MAX_TRUNCATIONS) > 0:
        say(console, f"and {many(more, 'more truncation')}")


def _print_coverage(found: Coverage | None, console: Console) -> None:
    if found is None:
        return
    say(console, "what was reached", style="bold")
    for sentence in found.sentences():
        say(console, sentence)


def _print_phases(paths: RunPaths, found: Investigation, console: Console) -> None:
    if found.plan is not None and found.plan.is_simulated:
        return  # Seconds of virtual time have no meaning for a reader.
    timings = read_timings(paths.timings)
    rows = [(each.name, f"{each.seconds:.1f}") for each in phases(found.milestones, timings)]
    whole = whole_s(timings)
    if whole is not None:
        rows.append(("all", f"{whole:.1f}"))
    if rows:
        print_table(console, ("where the time went", "seconds"), rows)


def _print_terms(terms: Iterable[str], console: Console) -> None:
    known = [f"{term}: {GLOSSARY[term]}" for term in terms if term in GLOSSARY]
    say(console, f"({' '.join(known)})", style="dim")


def _print_figures(tables: RunTables, found: Investigation, console: Console) -> None:
    sums = figures(tables)
    if sums.operations:
        rows: list[tuple[str | int, ...]] = [
            (f, *counts, total) for f, counts, total in sums.operations
        ]
        print_table(console, ("operation", *sums.outcomes, "all"), rows)
        _print_terms((*sums.outcomes, *_OPS.intersection(f for f, *_ in rows)), console)
    if sums.begun is not None:
        calm = "" if sums.calm_begun is None else f" ({sums.calm_begun:.1%} outside of faults)"
        begun = f"{sums.begun:.1%} began{calm}, missed: {sums.missed:,}"
        say(console, f"offered {many(sums.offered or 0, 'operation')}: {begun}")
        _print_terms(("began", "missed"), console)
    broken, _ = outages(tables, found.faults)
    if broken:
        lines = [
            (each.place, each.longest, each.seconds, each.calm) for each in broken[:_MAX_OUTAGES]
        ]
        columns = ("unavailable", "longest (s)", "in all (s)", "outside of faults (s)")
        print_table(console, columns, lines)
        if len(broken) > _MAX_OUTAGES:
            say(console, f"and {many(len(broken) - _MAX_OUTAGES, 'more partition')}")
