"""A fast reader for EDN, the notation in which Jepsen stores a history.

Logquake uses its own reader for speed. The library `edn_format` is complete and maintained, but it
takes 1.3 ms for an op. That is several minutes for a history of 200,000 ops. This reader takes 10
us (`benchmarks/histories.py`). A test compares this reader with the library on generated values.

Maps become dicts. Vectors, lists and sets become tuples. Integers become ints, nil becomes None,
true and false become bools. Every other value stays text exactly as it was written, such as `:send`
or `"a b"`. These values are keywords, strings, symbols, characters, other numbers and `##Inf`. So a
keyword, a string and a symbol are always different.

Tags are dropped, but the tagged values are kept: `#jepsen.history.Op{...}` becomes the map.

See https://github.com/edn-format/edn.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Value = object
"""The Python form of an EDN value: see the module's docstring."""

_TOKENS = re.compile(
    r"""
      [\[\](){}]                    # An opening or closing bracket.
    | [^\s,;"\\\[\](){}\#][^\s,;"\[\](){}]*   # A number, keyword or symbol.
    | "(?:[^"\\]|\\.)*"             # A string, on one line: Clojure escapes line breaks.
    | \#\{                          # A set.
    | \#[^\s,;"\[\](){}]+           # A tag.
    | \\(?:[^\s,\[\](){}]+|.)       # A character.
    | ;.*                           # A comment.
    | [^\s,]                        # Any other character: a mistake.
    """,
    re.VERBOSE,
)
_INTEGER = re.compile(r"[+-]?\d+N?\Z")
_DEEPEST = 1024
"""The maximum nesting depth of collections, as in orjson. A history has five levels."""
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_REFUSED = frozenset({"#", "#_"})
_STRANGE = frozenset('"#\\')
"""Tokens that can only be a mistake: an open string, an empty tag or an empty character."""


class _Atoms(dict[str, "Value"]):
    """The values of tokens. Keywords are cached, because a few keywords recur often."""

    def __init__(self) -> None:
        super().__init__({"nil": None, "true": True, "false": False})

    def __missing__(self, word: str) -> Value:
        if word in _STRANGE:
            raise EdnError("a string does not end on its line, or a # or \\ has nothing after it")
        if word == "#_":
            raise EdnError("#_ is not supported: remove it and the form after it")
        value: Value = int(word.removesuffix("N")) if _INTEGER.match(word) else word
        if word[0] == ":":
            self[word] = value
        return value


class EdnError(ValueError):
    """A text that is not EDN. The message is a short phrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A value, and the line on which it ended, counted from 1."""

    line: int
    value: Value


def read_forms(lines: Iterable[str], *, depth: int = 0) -> Iterator[Form]:
    """Yield the values of a text in order.

    Args:
        lines: The text. A string must not continue on the next line.
        depth: If 1, yield the elements of the top-level vectors (or lists), not the vectors
            themselves.

    Raises:
        EdnError: The text is wrong. The message begins with the line: `line 3: ...`.
    """
    stack: list[tuple[str, list[Value]]] = []
    items: list[Value] = []
    atoms = _Atoms()
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            items = _read_line(line, stack, items, atoms=atoms)
        except ValueError as broken:
            raise EdnError(f"line {number}: {broken}") from broken
        if items and len(stack) <= depth:
            yield from (Form(line=number, value=value) for value in _ended(stack, items, depth))
            items = [] if len(stack) == depth else items
    if stack:
        raise EdnError(f"line {number}: the text ends before {stack[-1][0]} is closed")


def _ended(stack: list[tuple[str, list[Value]]], items: list[Value], depth: int) -> list[Value]:
    """Return the values that are complete at a nesting depth."""
    if len(stack) == depth:
        return items
    whole = [value for vector in items if isinstance(vector, tuple) for value in vector]
    items.clear()
    return whole


def _read_line(
    line: str, stack: list[tuple[str, list[Value]]], items: list[Value], *, atoms: _Atoms
) -> list[Value]:
    """Read a line, and return the items of the innermost open collection."""
    for word in _TOKENS.findall(line):
        if word in _CLOSES:
            if len(stack) == _DEEPEST:
                raise EdnError(f"collections are nested deeper than {_DEEPEST} levels")
            stack.append((word, items))
            items = []
        elif word in "])}":
            value = _closed(word, stack, items)
            items = stack.pop()[1]
            items.append(value)
        elif word.isdecimal():
            items.append(int(word))
        elif word[0] not in "#;" or word in _REFUSED or word.startswith("##"):
            items.append(atoms[word])
    return items


def _closed(word: str, stack: list[tuple[str, list[Value]]], items: list[Value]) -> Value:
    opened = stack[-1][0] if stack else ""
    if _CLOSES.get(opened) != word:
        raise EdnError(f"a {word} closes {opened or 'nothing'}")
    if opened != "{":
        return tuple(items)
    if len(items) % 2:
        raise EdnError("a map has a key without a value")
    try:
        return dict(zip(items[::2], items[1::2], strict=True))
    except TypeError as unhashable:
        raise EdnError("a map has a map as a key") from unhashable
