"""Convert docstrings to Markdown."""

import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.documentation.markdown_tables import code, table

_HEADS = {
    "Args": "Argument", "Attributes": "Attribute", "Raises": "Error", "Returns": "It returns",
    "Yields": "It yields",
}  # fmt: skip
_SECTION = re.compile(rf"^({'|'.join(_HEADS)}):$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): ", re.MULTILINE)
"""A regex for the start of an entry, which has one or more names: `judge, engine: …`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """A docstring in Google's convention, split into its sections.

    Attributes:
        title: The first sentence.
        text: The rest of the prose.
        sections: The sections, such as `Args` or `Raises`. Each section has the names of its
            entries, and their texts.
    """

    title: str
    text: str
    sections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def parsed(text: str | None) -> Docstring:
    """Split a docstring into its sections."""
    prose, *rest = _SECTION.split(inspect.cleandoc(text or ""))
    title, _, body = prose.strip().partition("\n")
    sections = {
        name: _entries(textwrap.dedent(block.strip("\n")))
        for name, block in zip(rest[::2], rest[1::2], strict=True)
    }
    return Docstring(title=title, text=body.strip(), sections=sections)


def _entries(block: str) -> dict[str, str]:
    _, *parts = _ENTRY.split(block)
    return {
        name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)
    } or {"": " ".join(block.split())}


def markdown(docstring: Docstring) -> str:
    """Return a docstring without its title: its prose, then a table for each section."""
    parts = [docstring.text] if docstring.text else []
    for name, entries in docstring.sections.items():
        if "" in entries:
            parts.append(f"{_HEADS[name]}: {entries['']}")
        else:
            rows = ((names(each), text) for each, text in entries.items())
            parts.append(table((_HEADS[name], "What it is"), rows))
    return "\n\n".join(parts)


def names(entry: str) -> str:
    """Return the name of an entry, or its names, as code."""
    return ", ".join(map(code, entry.split(", ")))


def labelled(text: str) -> str:
    """Return prose in which each label that starts a paragraph, such as `Definition:`, is bold."""
    return re.sub(r"(?:(?<=\n\n)|\A)([A-Z][\w' ]{3,60}): ", r"**\1.** ", text)
