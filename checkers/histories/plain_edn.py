"""Read simple lines of EDN with a JSON reader.

A line of Jepsen's `history.edn` is a map of keywords, integers, vectors and maps. Such a line
becomes JSON if its keywords get quotes, its elements get commas, and its maps become lists of keys
and values. A Rust library reads JSON ten times as fast as `edn` reads EDN. `edn` reads all other
lines. These are lines that do not become JSON, and lines with strings, sets, tags or other numbers.
Both readers give equal results, except that this reader turns vectors into lists, not into tuples.
A test compares both readers.
"""

import re
import string
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from checkers.histories.edn import read_forms

_TAG = b"#jepsen.history.Op{"
_KEYWORDS = re.compile(rb"(:[^ \[\]{},\n]+)")
_PLAIN = b"0123456789 []{},-nil\n"
"""The bytes that are allowed outside of keywords: the bytes of integers, brackets and `nil`.

The letter e is excluded, because JSON would read `1e5` as another number.
"""
_KEYWORD = (string.ascii_letters + string.digits + ":-_?!*./<>=+").encode()
_AT_ONCE = 256
"""The number of lines that are converted together."""
_MAP = ""
"""The only key of a JSON object that represents a map."""


def entries_of(lines: Sequence[bytes]) -> Iterator[dict[Any, Any]]:
    """Yield the maps in the given lines.

    Each line must contain complete maps.

    Args:
        lines: The lines. No line is empty.

    Raises:
        ValueError, TypeError: A line is not EDN, or contains other values than maps.
    """
    for start in range(0, len(lines), _AT_ONCE):
        some = lines[start : start + _AT_ONCE]
        plain = _as_json(b"\n".join(some))
        parts = plain.split(b"\n") if plain else [_as_json(line) for line in some]
        for line, part in zip(some, parts, strict=True):
            try:
                entry = _entry(orjson.loads(part))
            except orjson.JSONDecodeError:  # The line is not simple, or not EDN at all.
                yield from _by_forms(line)
            else:
                yield entry


def _by_forms(line: bytes) -> Iterator[dict[Any, Any]]:
    for form in read_forms([line.decode()]):
        if not isinstance(form.value, dict):
            raise TypeError("an op is a map")
        yield form.value


def _as_json(text: bytes) -> bytes:
    """Return lines of EDN as lines of JSON; empty if the lines are not simple."""
    parts = _KEYWORDS.split(text.replace(_TAG, b"{"))
    keywords = b"".join(parts[1::2])
    strange = b"".join(parts[::2]).translate(None, _PLAIN) or keywords.translate(None, _KEYWORD)
    if strange or b"nil" in keywords:
        return b""
    quoted = b'"'.join(parts).replace(b", ", b",").replace(b" ", b",")
    listed = quoted.replace(b"{", b'{"":[').replace(b"}", b"]}")
    return listed.replace(b"nil", b"null") if b"nil" in listed else listed


def _entry(value: Any) -> dict[Any, Any]:  # noqa: ANN401 - as JSON has it
    """Return the dict for an entry. The maps in the entry's polls become dicts, too."""
    entry = _mapped(value)
    did = entry.get(":value")
    if isinstance(did, list):
        for part in did:
            if isinstance(part, list) and len(part) > 1 and isinstance(part[1], dict):
                part[1] = _mapped(part[1])
    elif did is not None:
        entry[":value"] = _whole(did)
    if entry.get(":rebalance-log"):
        entry[":rebalance-log"] = _whole(entry[":rebalance-log"])
    return entry


def _whole(value: Any) -> Any:  # noqa: ANN401 - as JSON has it
    """Return a JSON value with a dict in place of each object that represents an EDN map."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in _mapped(value).items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value


def _mapped(value: Any) -> dict[Any, Any]:  # noqa: ANN401 - as JSON has it
    """Return the dict for a JSON object that represents an EDN map.

    Raises:
        TypeError, ValueError: The value represents no map, or a key has no value.
    """
    items = value[_MAP]
    return dict(zip(items[::2], items[1::2], strict=True))
