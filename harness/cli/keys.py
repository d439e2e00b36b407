"""Describe the keys of plans and suites, for `logquake help` and for the reference."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harness.cli import logquake
from harness.cli.completing import stored
from results.record.plan import Plan

MADE_BY_LOGQUAKE = frozenset({"schema_version", "version", "prefix", "drawn", "swarmed"})
"""The keys of stored plans that only Logquake writes."""
_TYPES = {
    str: "text", int: "integer", float: "number", bool: "`true` or `false`", type(None): "",
}  # fmt: skip


def models(top: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield a model, and the model of each table in it, with the name of the table in the file.

    The name of the top model is empty.
    """
    yield "", top
    for key, info in top.model_fields.items():
        for each in _models_in(info.annotation):
            many = get_origin(_without_none(info.annotation)) is tuple
            yield (f"[[{key}]]" if many else f"[{key}]"), each


def written(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the keys that a user may write in a table, except the keys of nested tables."""
    return {
        key: info
        for key, info in model.model_fields.items()
        if key not in MADE_BY_LOGQUAKE and not [*_models_in(info.annotation)]
    }


def texts(model: type[BaseModel]) -> dict[str, str]:
    """Return a description of each key of a model.

    The description is the docstring of the key or the help text of its option: the longer one.
    """
    own: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base.model_fields:
            own |= _docstrings(base)
    # `commands.json` has the helps, too; importing the command takes seconds.
    of_run = stored()["commands"]["run"]["params"] if issubclass(model, Plan) else ()
    helps = {each["name"]: each.get("help", "") for each in of_run}
    return {key: max(own.get(key, ""), helps.get(key, ""), key=len) for key in model.model_fields}


def options_of_run() -> Mapping[str, click.Option]:
    """Return the option of `logquake run` that sets each key of a plan."""
    run = logquake.get_command(click.Context(logquake), "run")
    assert run is not None
    return {str(each.name): each for each in run.params if isinstance(each, click.Option)}


def takes(info: FieldInfo) -> str:
    """Return which values a key takes, as Markdown."""
    bounds = [
        f"{word} {getattr(each, name)}"
        for each in info.metadata
        for name, word in (("ge", "at least"), ("gt", "more than"), ("le", "at most"))
        if getattr(each, name, None) is not None
    ]
    return ", ".join([_type(info.annotation), *bounds])


def default(info: FieldInfo) -> str | None:
    """Return the default value of a key as TOML, or None if the file must contain the key.

    The result is an empty string if the key is optional and has no default.
    """
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return None
    return "" if value is None else _toml(value)


def _toml(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _docstrings(table: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field; it follows the field in the source of the class."""
    body = ast.parse(inspect.getsource(sys.modules[table.__module__])).body
    (node,) = (
        each for each in body if isinstance(each, ast.ClassDef) and each.name == table.__name__
    )
    found = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = inspect.cleandoc(str(text.value.value))
    return found


def _type(annotation: object) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inside)
    if origin in (Union, UnionType):
        return " or ".join(filter(None, map(_type, inside)))
    if origin is tuple:
        return f"list of {_plural(inside[0])}"
    if origin is dict:
        return f"table of {_plural(inside[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{each.value}`" for each in annotation)
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
