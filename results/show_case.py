"""Print a failure in a terminal: the broken promise, the main anomaly, and how often it recurs."""

from rich.console import Console

from results.page.broker_logs import BrokerLogs
from results.page.case import Case
from results.page.investigation import Investigation
from results.page.moments import moments
from results.page.witness import Told
from results.print_table import print_table, say
from results.wording.faults import FaultLine
from results.wording.inert import inert
from results.wording.naming import said
from results.wording.plural import many

MAX_LINES = 12
_WIDTH = 200
"""Maximum width of a broker's log line; the page shows more."""


def print_breach(found: Investigation, console: Console) -> None:
    """Print the verdict's class, the broken promise, and the place."""
    if found.kind[0]:
        say(console, f"{found.kind[0]}: {found.kind[1].partition(': ')[2] or found.kind[1]}")
    if found.breach is not None:
        promise = f"{found.breach.how}: {found.breach.promise}" if found.breach.promise else ""
        if found.breach.beside:
            promise = f"{promise} {found.names(said(found.breach.beside))}"
        where = f" At {found.names(found.breach.where)}." if found.breach.where else ""
        say(console, f"{promise}{where}".strip(), style="bold")


def print_story_of_witness(found: Investigation, console: Console) -> None:
    """Print the events of the main anomaly's message (sent, stored, truncated, read) in order."""
    if found.case is None or found.told is None:
        return
    rows = [
        (each.when or ("end" if each.kind == "end" else "-"), each.who, found.names(each.what))
        for each in found.told.events
    ]
    say(console, "")
    say(console, "what happened:", style="bold")
    print_table(console, ("when", "who", "what"), rows)
    if found.told.aside_because:
        say(console, f"({found.told.aside_because})", style="dim")
    _print_axis(found.case, found.told, found.faults, console)
    if found.logs is not None:
        _print_lines(found.logs, console)


def _print_axis(case: Case, told: Told, faults: list[FaultLine], console: Console) -> None:
    around = moments(case, told, faults)
    if not around.rows or not (around.nodes or case.reigns or case.isr):
        return
    say(console, "")
    say(console, f"around it, {case.place}:", style="bold")
    columns = ("s", "in force", "leader", "ISR", *around.nodes)
    print_table(console, columns, around.rows)
    say(console, "(for each replica: log end offset/high watermark; ?: not reported)", style="dim")


def _print_lines(logs: BrokerLogs, console: Console) -> None:
    if not logs.lines:
        return
    say(console, "")
    say(console, "the brokers logged (by their own clocks):", style="bold")
    for line in logs.lines[:MAX_LINES]:
        text = inert(line.text)
        cut = text if len(text) <= _WIDTH else f"{text[:_WIDTH]} …"
        alike = f" ({line.times} alike)" if line.times > 1 else ""
        style = "" if line.proves else "dim"
        say(console, f"{line.node} {line.at_s:.2f} s{alike}: {cut}", style=style)
    if (rest := len(logs.lines) + logs.left_out - MAX_LINES) > 0:
        say(console, f"and {many(rest, 'more line')}", style="dim")


def print_recurrence(found: Investigation, console: Console, *, command: str) -> None:
    """Print earlier runs with the failure, how often it recurs, and the command to reproduce it."""
    signature = found.recurrence.signature
    if signature is None:
        return
    say(console, "")
    say(console, f"{signature.sentence} (signature {signature.key})", style="bold")
    for sentence in (*found.recurrence.sightings(), *found.recurrence.rates()):
        say(console, sentence)
    say(console, f"again: logquake repro {command} --times 10")
