"""Convert Kafka's messages of any version to ours and back.

Fields are matched by name; all other fields get defaults.

Kafka's messages are classes of `kio`, one for each version. Our fields for time spans have names
that end in `_ms`; Kafka's fields lack this ending. A field that a version lacks is left out or gets
our default. Kafka's own generated classes treat such fields in the same way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import Any, TypeAlias, cast, get_args, get_type_hints

from kio.schema.errors import ErrorCode
from msgspec import Struct

Theirs: TypeAlias = Any
"""A message of Kafka, in one of kio's many classes."""
_MS = timedelta(milliseconds=1)
_DEFAULTS: Mapping[str, object] = {
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(),
    "timedelta_i64": timedelta(),
    "uuid": None,
    "bool": False,
    "bytes": b"",
    "records": None,
}
"""The default of each type, by kio's name of the type.

A field gets this default if its class defines none. Numbers get 0.
"""
_Convert = Callable[[Any], Any] | None
_Step = tuple[str, str, _Convert]


def ours(theirs: Theirs, form: type) -> Theirs:
    """Convert a message of Kafka to one of our classes."""
    source: Any = type(theirs)
    steps = _inward(source, form)
    return form(
        **{
            name: getattr(theirs, field) if convert is None else convert(getattr(theirs, field))
            for name, field, convert in steps
        }
    )


def theirs(own: Theirs, form: type) -> Theirs:
    """Convert one of our messages to a class of Kafka's messages."""
    source: Any = type(own)
    steps, rest = _outward(source, form)
    values = {
        name: getattr(own, field) if convert is None else convert(getattr(own, field))
        for name, field, convert in steps
    }
    return form(**values, **rest)


@cache
def _inward(source: type, form: type) -> tuple[_Step, ...]:
    there = _names(source)
    inner, outer = _nested(form), _nested(source)
    steps: list[_Step] = []
    for name in _names(form):
        bare = name.removesuffix("_ms")
        if name in there:
            known = name in inner and name in outer
            steps.append((name, name, _each(ours, inner[name]) if known else None))
        elif bare in there:
            steps.append((name, bare, milliseconds))
    return tuple(steps)


@cache
def _outward(source: type, form: type) -> tuple[tuple[_Step, ...], Mapping[str, object]]:
    there = _names(source)
    inner = _nested(form)
    steps: list[_Step] = []
    rest: dict[str, object] = {}
    for each in fields(form):
        if each.name in there:
            convert = _each(theirs, inner[each.name]) if each.name in inner else None
            steps.append((each.name, each.name, convert))
        elif f"{each.name}_ms" in there:
            steps.append((each.name, f"{each.name}_ms", _span))
        elif each.default is MISSING:
            rest[each.name] = default_of(each)
    return tuple(steps), rest


@cache
def _makings(form: type) -> tuple[frozenset[str], Mapping[str, object]]:
    missing = {each.name: default_of(each) for each in fields(form) if each.default is MISSING}
    return frozenset(each.name for each in fields(form)), missing


def _each(convert: Callable[[object, type], Any], form: type) -> _Convert:
    def converted(value: Theirs) -> Theirs:
        if value is None:
            return None
        if isinstance(value, tuple):
            return tuple(convert(each, form) for each in value)
        return convert(value, form)

    return converted


def made(form: type, **values: object) -> Theirs:
    """Return a message of Kafka with these values. Values that the version lacks are left out."""
    known, rest = _makings(form)
    kept = {name: value for name, value in values.items() if name in known}
    return form(**{**rest, **kept})


def inner(form: type, name: str) -> type:
    """Return the class of the messages in a field; `object` if the version lacks the field."""
    return _nested(form).get(name, object)


def milliseconds(span: timedelta) -> int:
    """Return a message's time span in milliseconds."""
    return span // _MS


def _span(milliseconds: int) -> timedelta:
    return milliseconds * _MS


@cache
def _nested(form: type) -> Mapping[str, type]:
    """Return the fields that contain other messages, each with the class of these messages."""
    hints = get_type_hints(form)
    found = {name: _message(hints[name]) for name in _names(form)}
    return {name: message for name, message in found.items() if message is not None}


def _names(form: Theirs) -> Sequence[str]:
    """Return the names of a message's fields; our messages are structs, kio's are dataclasses."""
    if issubclass(form, Struct):
        return cast("Sequence[str]", form.__struct_fields__)
    return [each.name for each in fields(form)]


def _message(hint: object) -> type | None:
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Struct)):
        return cast("type", hint)
    inner = [_message(each) for each in get_args(hint) if each not in (NoneType, Ellipsis)]
    return inner[0] if inner else None


def default_of(missing: "Field[Any]") -> object:
    """Return the default for a field that Kafka's message has and our message lacks."""
    kind = missing.metadata.get("kafka_type")
    if kind is None or str(missing.type).startswith("tuple"):
        return ()
    if kind == "string":
        return None if NoneType in get_args(missing.type) else ""
    return _DEFAULTS.get(kind, 0)
