"""Print verdicts on imported histories in a terminal."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from results.print_table import STYLES, say
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.wording.headline import counting, headline, ranked_anomalies
from results.wording.plural import many

_SHOWN = 3
"""Maximum number of printed examples of an anomaly."""
_ORDER = (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)


def print_histories(verdicts: Sequence[Verdict], console: Console) -> None:
    """Print each history's verdict and anomalies, and then how many histories have each verdict."""
    for verdict in verdicts:
        _print_history(verdict, console)
    if not verdicts:
        return
    counts = Counter(each.valid.value for each in verdicts)
    told = ", ".join(f"{counts[word]} {word}" for word in _ORDER if counts[word])
    first = verdicts[0]
    histories = many(len(verdicts), "history", "histories")
    say(console, f"{histories}: {told}; judge {first.judge}, engine {first.engine}", style="dim")


def _print_history(verdict: Verdict, console: Console) -> None:
    style = STYLES[headline(verdict).tone]
    say(console, f"{verdict.run_id}: {verdict.valid.value}", style=style)
    for why in verdict.unknown_because:
        say(console, f"  {why}", style="yellow")
    for name, summary in ranked_anomalies(verdict):
        against = counting(summary)
        some = f"{against} of {summary.count} " if 0 < against < summary.count else ""
        said = f"{some}not allowed" if against else "allowed"
        say(console, f"  {name}: {summary.count} ({said})", style="" if against else "dim")
        if against:
            told = [example for example in summary.examples if not example.allowed][:_SHOWN]
            for example in told:
                say(console, f"    {example.sentence}")
            if against > len(told):
                say(console, f"    and {against - len(told)} more")
