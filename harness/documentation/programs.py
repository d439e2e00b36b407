"""Write the page of the Python API: the public names of `logquake`, and the types of fields."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from importlib import import_module
from typing import get_args

from harness.documentation.markdown_tables import code, table
from harness.documentation.prose import markdown, parsed
from results.record.plan import Plan

_FIELDS = "Attributes"

_TOP = """\
# Python API

The names that `from logquake import …` provides. The page ["From a program"](../api.md) has
examples. The last sections describe the types of fields. You need not import these types.
"""
_QUALIFIED = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
"""A regex that matches the module's name before the name of a type."""


def page() -> str:
    """Return the page of all public names."""
    return "\n".join([_TOP, *(_section(name, value) for name, value in (*public(), *within()))])


def public() -> Iterator[tuple[str, object]]:
    """Yield each public name of the package with its object: first the functions, then the rest."""
    module = import_module("logquake")  # By name, because `logquake` imports this package.
    found = [(name, getattr(module, name)) for name in module.__all__]
    yield from sorted(found, key=lambda each: (not inspect.isfunction(each[1]), each[0].lower()))


def within() -> Iterator[tuple[str, type]]:
    """Yield the dataclasses that the fields of public dataclasses contain, each of them once."""
    exported = [value for _, value in public()]
    waiting = [each for each in exported if isinstance(each, type) and is_dataclass(each)]
    known = set(waiting)
    while waiting:
        for found in (
            each for field in fields(waiting.pop(0)) for each in _dataclasses(field.type)
        ):
            if found not in known:
                known.add(found)
                waiting.append(found)
                yield found.__name__, found


def field_texts(kind: type) -> dict[str, str]:
    """Return the description of each field of a dataclass; empty if the docstring has none."""
    told = {
        name: text
        for entry, text in parsed(inspect.getdoc(kind)).sections.get(_FIELDS, {}).items()
        for name in entry.split(", ")
    }
    return {each.name: told.get(each.name, "") for each in fields(kind)}


def _dataclasses(annotation: object) -> Iterator[type]:
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield annotation
    for inside in get_args(annotation):
        yield from _dataclasses(inside)


def _section(name: str, value: object) -> str:
    if isinstance(value, tuple):
        errors = ", ".join(code(each.__name__) for each in value)
        return f"## `{name}`\n\nThe errors that you can fix: {errors}.\n"
    docstring = parsed(inspect.getdoc(value))
    if is_dataclass(value):  # The fields have a table of their own, with types.
        others = {each: text for each, text in docstring.sections.items() if each != _FIELDS}
        docstring = replace(docstring, sections=others)
    parts = [f"## `{name}`\n", *_signature(name, value), docstring.title, "", markdown(docstring)]
    return "\n".join([*parts, *_members(value), *_fields(value), ""])


def _signature(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value):
        yield f"```python\n{name}{_plain(str(inspect.signature(value)))}\n```\n"


def _plain(annotation: str) -> str:
    return _QUALIFIED.sub("", annotation)


def _members(value: object) -> Iterator[str]:
    """Yield a table of an enum's members."""
    if isinstance(value, type) and issubclass(value, Enum):
        rows = ((code(f"{value.__name__}.{each.name}"), code(each.value)) for each in value)
        yield "\n\n" + table(("Member", "Value"), rows)


def _fields(value: object) -> Iterator[str]:
    """Yield a table of a dataclass's fields; for `Plan`, yield a link to the page of its keys."""
    if value is Plan:
        yield "The page [Keys of a plan](plan.md) lists the fields."
    if isinstance(value, type) and is_dataclass(value):
        texts = field_texts(value)
        rows = (
            (code(each.name), code(_plain(inspect.formatannotation(each.type))), texts[each.name])
            for each in fields(value)
        )
        yield "\n\n" + table(("Field", "Type", "What it is"), rows)
