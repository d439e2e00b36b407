"""Write tables in Markdown."""

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]*`)")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a cell may contain any text of one paragraph."""
    lines = [f"| {' | '.join(map(_cell, cells))} |\n" for cells in (heads, *rows)]
    return "".join([lines[0], f"|{'---|' * len(heads)}\n", *lines[1:]])


def _cell(text: str) -> str:
    """Return a cell's text in one line, with `|` escaped, because `|` would end the cell."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        part if part.startswith("`") and part.endswith("`") else part.replace("|", "\\|")
        for part in parts
    )


def code(value: object) -> str:
    """Return a value as Markdown code; an empty string for an empty value."""
    return f"`{value}`" if str(value) else ""
