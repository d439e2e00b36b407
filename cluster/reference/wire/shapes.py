"""Check that a request's counts and lengths are possible, before it is decoded.

A count of four bytes can claim two billion elements. A decoder would allocate memory for these
elements before it notices that they are missing. So one small frame could crash a broker. Therefore
this module first walks over the frame, according to the schema of its version. All counts and
lengths must fit into the bytes that follow. The number of elements is limited, because each element
becomes a much larger object.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import get_args, get_origin, get_type_hints

from kio.index import load_request_schema

from cluster.reference.wire.translation import Theirs

MOST_ELEMENTS = 100_000
"""The largest number of elements in all arrays of a request together.

Kafka has no such limit, but Kafka's objects are smaller. Kafka's controller accepts at most 10,000
partitions in a request (KAFKA-17870).
"""
MOST_LETTERS = 0x7FFF
"""The largest number of bytes of a string.

Older versions of requests cannot encode longer strings. Kafka applies this limit in all versions.
"""
MOST_BYTES = (1 << 31) - 1
_HEAD_BYTES = 8
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_LONGEST_VARINT = 5
_MOST_VARINT = 0x7F
_SIZES: Mapping[str, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4,
    "uint32": 4, "timedelta_i32": 4, "int64": 8, "uint64": 8, "timedelta_i64": 8,
    "datetime_i64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip


class ShapeError(Exception):
    """A request with impossible counts or lengths. The message names the defect."""


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A fixed number of bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """A length, followed by that number of bytes.

    Attributes:
        by: The length's encoding; None: a varint of the length plus one, as in flexible versions
            (KIP-482).
        nullable: Whether the length may be negative, which means null.
        most: The largest allowed length.
    """

    by: struct.Struct | None
    nullable: bool
    most: int = MOST_BYTES


@dataclass(frozen=True, slots=True)
class _Array:
    """A count, followed by that number of elements. `by` and `nullable` are as in `_Counted`."""

    by: struct.Struct | None
    nullable: bool
    element: "_Steps"


@dataclass(frozen=True, slots=True)
class _Optional:
    """A byte, and optional data. The byte is negative if no data follow."""

    steps: "_Steps"


@dataclass(frozen=True, slots=True)
class _Tags:
    """Tagged fields; a field with an unknown tag may have any content."""

    known: Mapping[int, "_Steps"]


_Step = _Fixed | _Counted | _Array | _Optional | _Tags
_Steps = tuple[_Step, ...]


def check_shape(key: int, version: int, frame: bytes) -> None:
    """Walk over a request.

    Raises:
        ShapeError: A length or a count exceeds the request, or there are too many elements.
    """
    walk = _Walk(frame)
    try:
        walk.over(_request_steps(key, version))
    except (struct.error, IndexError):
        raise ShapeError(f"the request ends too early, at byte {len(frame)}") from None


class _Walk:
    """A reading position in a frame."""

    __slots__ = ("at", "elements", "frame")

    def __init__(self, frame: bytes) -> None:
        self.frame, self.at, self.elements = frame, 0, 0

    def over(self, steps: _Steps) -> None:
        for step in steps:
            kind = type(step)
            if kind is _Fixed:
                self.at += step.size  # type: ignore[union-attr] # `type` tells a checker nothing
            elif kind is _Counted:
                size = self._number(step)  # type: ignore[arg-type] # as above
                if size > step.most:  # type: ignore[union-attr] # as above
                    raise ShapeError(f"the string before byte {self.at} is too long ({size} bytes)")
                self.at += size
            elif isinstance(step, _Array):
                self._array(step)
            elif isinstance(step, _Tags):
                self._tags(step.known)
            elif isinstance(step, _Optional):
                self.at += 1
                if self.frame[self.at - 1] <= _MOST_VARINT:
                    self.over(step.steps)
            if self.at > len(self.frame):
                raise ShapeError(
                    f"the request refers to byte {self.at}, but has only {len(self.frame)} bytes"
                )

    def _array(self, array: _Array) -> None:
        count = self._number(array)
        if not count:
            return
        self._make_room(count)
        element = array.element
        if len(element) == 1 and isinstance(only := element[0], _Fixed):
            self.at += count * only.size
            return
        for _ in range(count):
            self.over(element)

    def _tags(self, known: Mapping[int, _Steps]) -> None:
        count = self._varint()
        if count:
            self._make_room(count)
        for _ in range(count):
            steps, size = known.get(self._varint()), self._varint()
            end = self.at + size
            if end > len(self.frame):
                raise ShapeError(f"the tagged field at byte {self.at} is too long ({size} bytes)")
            if steps is not None:
                self.over(steps)
                if self.at != end:
                    raise ShapeError(f"a tagged field ends at byte {self.at} instead of {end}")
            self.at = end

    def _make_room(self, count: int) -> None:
        self.elements += count
        if self.elements > MOST_ELEMENTS:
            raise ShapeError(f"more than {MOST_ELEMENTS} elements")

    def _number(self, what: "_Counted | _Array") -> int:
        """Return a length; 0 for null."""
        form = what.by
        if form is None:
            number = self.frame[self.at] - 1
            if number < _MOST_VARINT:  # Most lengths have one byte.
                self.at += 1
            else:
                number = self._varint() - 1
        else:
            (number,) = form.unpack_from(self.frame, self.at)
            self.at += form.size
        if number < 0:
            if not what.nullable:
                raise ShapeError(f"null is not allowed before byte {self.at}")
            return 0
        return number

    def _varint(self) -> int:
        number = 0
        for shift in range(0, _LONGEST_VARINT * 7, 7):
            byte = self.frame[self.at]
            self.at += 1
            number |= (byte & _MOST_VARINT) << shift
            if byte <= _MOST_VARINT:
                return number
        raise ShapeError(f"the variable-length number at byte {self.at} does not end")


@cache
def _request_steps(key: int, version: int) -> _Steps:
    schema: Theirs = load_request_schema(key, version)
    head: _Steps = (_Fixed(_HEAD_BYTES), _Counted(_I16, nullable=True))
    if schema.__flexible__:  # The client's name keeps its old form (KIP-482).
        head = (*head, _Tags({}))
    return (*head, *_steps_of(schema))


def _steps_of(form: Theirs) -> _Steps:
    hints = get_type_hints(form)
    steps: list[_Step] = []
    known: dict[int, _Steps] = {}
    for each in fields(form):
        kind = each.metadata.get("kafka_type")
        mine = _field_step(hints[each.name], kind, flexible=form.__flexible__)
        if (tag := each.metadata.get("tag")) is not None:
            known[tag] = mine
        else:
            steps += mine
    if form.__flexible__:
        steps.append(_Tags(known))
    return _joined(steps)


def _field_step(hint: object, kind: str | None, *, flexible: bool) -> _Steps:
    choices = [hint, *get_args(hint)]
    nullable = NoneType in choices
    array = next((each for each in choices if get_origin(each) is tuple), None)
    if array is not None:
        element = _field_step(get_args(array)[0], kind, flexible=flexible)
        return (_Array(None if flexible else _I32, nullable, element),)
    message = next((each for each in choices if is_dataclass(each)), None)
    if message is not None:
        inside = _steps_of(message)
        return (_Optional(inside),) if nullable else inside
    match kind:
        case "string":
            return (_Counted(None if flexible else _I16, nullable, MOST_LETTERS),)
        case "bytes" | "records":
            return (_Counted(None if flexible else _I32, nullable),)
        case _:
            return (_Fixed(_SIZES[kind or ""]),)


def _joined(steps: list[_Step]) -> _Steps:
    """Return the steps, with consecutive fixed sizes joined into one."""
    joined: list[_Step] = []
    for step in steps:
        if joined and isinstance(step, _Fixed) and isinstance(before := joined[-1], _Fixed):
            joined[-1] = _Fixed(before.size + step.size)
        else:
            joined.append(step)
    return tuple(joined)
