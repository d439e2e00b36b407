"""The page of the Python API: what `logquake` exports."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module

from harness.documentation.markdown_tables import code, table
from harness.documentation.prose import markdown, parsed

_TOP = """\
# Python API

The names that `from logquake import …` provides. [From a program](../api.md) has examples.
"""
_QUALIFIED = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
"""The modules before a type's name."""


def page() -> str:
    """Return the page of all public names."""
    return "\n".join([_TOP, *(_section(name, value) for name, value in public())])


def public() -> Iterator[tuple[str, object]]:
    """Yield what the package exports, functions first."""
    module = import_module("logquake")  # By name: it stands above this package.
    found = [(name, getattr(module, name)) for name in module.__all__]
    yield from sorted(found, key=lambda each: (not inspect.isfunction(each[1]), each[0].lower()))


def _section(name: str, value: object) -> str:
    if isinstance(value, tuple):
        errors = ", ".join(code(each.__name__) for each in value)
        return f"## `{name}`\n\nThe errors that you can fix: {errors}.\n"
    docstring = parsed(inspect.getdoc(value))
    parts = [f"## `{name}`\n", *_signature(name, value), docstring.title, "", markdown(docstring)]
    return "\n".join([*parts, *_members(value), ""])


def _signature(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value):
        told = _QUALIFIED.sub("", str(inspect.signature(value)))
        yield f"```python\n{name}{told}\n```\n"


def _members(value: object) -> Iterator[str]:
    """Yield the members of an enum."""
    if isinstance(value, type) and issubclass(value, Enum):
        rows = ((code(f"{value.__name__}.{each.name}"), code(each.value)) for each in value)
        yield "\n\n" + table(("Member", "Value"), rows)
