"""Write the pages of a plan's keys and of a suite's keys, section by section, from their models."""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harness.cli import logquake
from harness.cli.topics import docstrings
from harness.documentation.markdown_tables import code, table
from harness.suites.suite import Suite
from results.record.plan import Plan

_TOP = """\
# Keys of a plan

Every key that a plan file may have. `logquake init` writes a plan with comments to start from.
An option of `logquake run` with the key's name wins over the file.
"""
_SUITE_TOP = """\
# Keys of a suite

Every key that the file of a suite or of a hunt may have. [Suites](../nightly/README.md) explains
how to write one. Tables named `plan` take the [keys of a plan](plan.md).
"""
_MADE_BY_LOGQUAKE = frozenset({"schema_version", "version", "prefix", "drawn", "swarmed"})
"""Keys of stored plans that only Logquake sets."""
_TYPES = {
    str: "text", int: "integer", float: "number", bool: "`true` or `false`", type(None): "",
}  # fmt: skip


def page() -> str:
    """Return the page of a plan's keys."""
    return "\n".join([_TOP, *_sections(Plan)])


def suite_page() -> str:
    """Return the page of a suite's keys."""
    return "\n".join([_SUITE_TOP, *_sections(Suite)])


def models(top: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield a model and the models of its tables, each with the table's name in the file.

    The name of the top model is empty.
    """
    yield "", top
    for key, info in top.model_fields.items():
        for each in _models_in(info.annotation):
            many = get_origin(_without_none(info.annotation)) is tuple
            yield (f"[[{key}]]" if many else f"[{key}]"), each


def texts(model: type[BaseModel]) -> dict[str, str]:
    """Return a description of each key of a model: its docstring, or its option's longer help."""
    options = _option_texts() if model is Plan else {}
    own: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base.model_fields:
            own |= docstrings(base)
    return {
        key: _in_toml(max(own.get(key, ""), options.get(key, ""), key=len))
        for key in model.model_fields
    }


def _in_toml(text: str) -> str:
    """Return a description for a file: a key with the value None is a key that is left out."""
    return re.sub(r"\bNone(, [^:]+)?: ", "Left out: ", text)


def _option_texts() -> Mapping[str, str]:
    run = logquake.get_command(click.Context(logquake), "run")
    assert run is not None
    return {
        str(each.name): each.help or "" for each in run.params if isinstance(each, click.Option)
    }


def _sections(top: type[BaseModel]) -> Iterator[str]:
    for name, model in models(top):
        said = texts(model)
        written = {
            key: info
            for key, info in model.model_fields.items()
            if key not in _MADE_BY_LOGQUAKE and not [*_models_in(info.annotation)]
        }
        yield f"## {code(name)}\n" if name else "## Top level\n"
        if name:
            yield f"{(model.__doc__ or '').strip()}\n"
        rows = ((code(key), *_cells(info), said[key]) for key, info in written.items())
        yield table(("Key", "Takes", "Default", "What it does"), rows)


def _cells(info: FieldInfo) -> tuple[str, str]:
    bounds = [
        f"{word} {getattr(each, name)}"
        for each in info.metadata
        for name, word in (("ge", "at least"), ("gt", "more than"), ("le", "at most"))
        if getattr(each, name, None) is not None
    ]
    return ", ".join([_type(info.annotation), *bounds]), _default(info)


def _default(info: FieldInfo) -> str:
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "none: the key is needed"
    if value is None:
        return "none"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, tuple):
        value = [*value]
    return code({True: "true", False: "false"}[value] if isinstance(value, bool) else _toml(value))


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).replace("'", '"')


def _type(annotation: object) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(code(each) for each in inside)
    if origin in (Union, UnionType):
        return " or ".join(filter(None, map(_type, inside)))
    if origin is tuple:
        return f"list of {_plural(inside[0])}"
    if origin is dict:
        return f"table of {_plural(inside[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(code(each.value) for each in annotation)
    return next((said for kind, said in _TYPES.items() if annotation is kind), "any value")


def _plural(annotation: object) -> str:
    said = _type(annotation)
    return {"text": "texts", "integer": "integers", "number": "numbers"}.get(said, said)


def _without_none(annotation: object) -> object:
    inside = [each for each in get_args(annotation) if each is not type(None)]
    return inside[0] if get_origin(annotation) in (Union, UnionType) and inside else annotation


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)
