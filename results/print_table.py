"""Print texts and tables in a terminal. Markup and control codes in these texts have no effect."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from results.wording.inert import inert, shortened

STYLES = {
    "valid": "bold green", "allowed": "bold cyan", "invalid": "bold red", "unknown": "bold yellow",
}  # fmt: skip
"""The style of each verdict. `allowed` means a valid run with allowed anomalies."""
_MAX_CELL = 1_000


def say(console: Console, text: str, *, style: str = "") -> None:
    """Print a text, with control characters escaped."""
    console.print(Text(inert(shortened(text)), style=style))


def say_page(console: Console, page: Path) -> None:
    """Print the path of a page. On terminals that support OSC 8, the path is a link to it."""
    link = Style(link=page.absolute().as_uri())
    console.print(Text.assemble("page: ", (inert(str(page)), link)), soft_wrap=True)


def print_table(
    console: Console, columns: Iterable[str], rows: Iterable[Iterable[str | int]]
) -> None:
    """Print a table. Long cells are wrapped and never cut, so that names can be copied.

    The first column contains the names of the rows. It is not wrapped if it fits into two thirds of
    the console's width.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    cells = [[_cell(each) for each in row] for row in rows]
    longest = max((row[0].cell_len for row in cells if row), default=0)
    for at, column in enumerate(columns):
        whole = at == 0 and 3 * longest <= 2 * console.width
        table.add_column(Text(inert(column)), overflow="fold", no_wrap=whole)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _cell(value: str | int) -> Text:
    if isinstance(value, int):
        return Text(f"{value:,}", justify="right")
    return Text(
        inert(shortened(value, _MAX_CELL)), style=STYLES.get(value, "").removeprefix("bold ")
    )
