"""The entries of lines of EDN, read by the reader of JSON where the lines are plain.

A line of Jepsen's `history.edn` is a map of keywords, whole numbers, vectors and maps. Written with
quotes around its keywords, commas between, and its maps as lists of keys and values, it is JSON,
which a library in Rust reads ten times as fast as `edn`. A line that is not as plain (strings,
sets, tags, other numbers) is read by `edn`; so is one that does not come out as JSON. What both can
read they read alike, but that vectors are lists here and not tuples; a test holds them to it.
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
"""What stands outside of keywords: whole numbers, brackets and `nil`; no letter e, which would make
another number of `1e5`."""
_KEYWORD = (string.ascii_letters + string.digits + ":-_?!*./<>=+").encode()
_AT_ONCE = 256
"""So many lines are looked at together."""
_MAP = ""
"""The one key of what stands for a map."""


def entries_of(lines: Sequence[bytes]) -> Iterator[dict[Any, Any]]:
    """Yield the maps of lines that hold whole ones.

    Args:
        lines: None of them empty.

    Raises:
        ValueError, TypeError: A line is no EDN, or holds something else.
    """
    for start in range(0, len(lines), _AT_ONCE):
        some = lines[start : start + _AT_ONCE]
        plain = _as_json(b"\n".join(some))
        parts = plain.split(b"\n") if plain else [_as_json(line) for line in some]
        for line, part in zip(some, parts, strict=True):
            try:
                entry = _entry(orjson.loads(part))
            except orjson.JSONDecodeError:  # It is not plain, or no EDN at all.
                yield from _by_forms(line)
            else:
                yield entry


def _by_forms(line: bytes) -> Iterator[dict[Any, Any]]:
    for form in read_forms([line.decode()]):
        if not isinstance(form.value, dict):
            raise TypeError("an op is a map")
        yield form.value


def _as_json(text: bytes) -> bytes:
    """Return lines as JSON, a line each; empty if they are not plain."""
    parts = _KEYWORDS.split(text.replace(_TAG, b"{"))
    keywords = b"".join(parts[1::2])
    strange = b"".join(parts[::2]).translate(None, _PLAIN) or keywords.translate(None, _KEYWORD)
    if strange or b"nil" in keywords:
        return b""
    quoted = b'"'.join(parts).replace(b", ", b",").replace(b" ", b",")
    listed = quoted.replace(b"{", b'{"":[').replace(b"}", b"]}")
    return listed.replace(b"nil", b"null") if b"nil" in listed else listed


def _entry(value: Any) -> dict[Any, Any]:  # noqa: ANN401 - as JSON has it
    """Return a map; the maps of its polls as maps, too."""
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
    """Return a value with all that stands for maps in it as maps."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in _mapped(value).items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value


def _mapped(value: Any) -> dict[Any, Any]:  # noqa: ANN401 - as JSON has it
    """Return the map that something stands for.

    Raises:
        TypeError, ValueError: None: it is something else, or has a key without a value.
    """
    items = value[_MAP]
    return dict(zip(items[::2], items[1::2], strict=True))
