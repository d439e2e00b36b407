"""EDN, the notation in which Jepsen stores a history, read fast.

Why not a library: the one that is kept up and complete, `edn_format`, takes 1.3 ms for an op, nine
minutes for a history of 200,000 ops; this reader takes 10 us (`benchmarks/histories.py`). A test
holds it to the library on generated values.

What a value becomes: maps are dicts, vectors, lists and sets are tuples, integers ints, nil None,
true and false bools. Everything else (keywords, strings, symbols, characters, other numbers,
`##Inf`) stays the text as it was written: `:send`, `"a b"`. So a keyword, a string and a symbol
never look alike.
Tags are left out, and their values kept: `#jepsen.history.Op{...}` is the map.

See https://github.com/edn-format/edn.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Value = object
"""What a value becomes: see the module's docstring."""

_TOKENS = re.compile(
    r"""
      [\[\](){}]                    # An opening or closing bracket.
    | [^\s,;"\\\[\](){}\#][^\s,;"\[\](){}]*   # A number, keyword or symbol.
    | "(?:[^"\\]|\\.)*"             # A string, on one line: Clojure escapes line breaks.
    | \#\{                          # A set.
    | \#[^\s,;"\[\](){}]+           # A tag.
    | \\(?:[^\s,\[\](){}]+|.)       # A character.
    | ;.*                           # A comment.
    | [^\s,]                        # Nothing that may stand here.
    """,
    re.VERBOSE,
)
_INTEGER = re.compile(r"[+-]?\d+N?\Z")
_DEEPEST = 1024
"""So many collections inside of each other are read, as of JSON; a history has five."""
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_REFUSED = frozenset({"#", "#_"})
_STRANGE = frozenset('"#\\')
"""What a word cannot be but by mistake: an open string, a tag or a character of nothing."""


class _Atoms(dict[str, "Value"]):
    """What tokens become; keywords are remembered, being few and many times used."""

    def __init__(self) -> None:
        super().__init__({"nil": None, "true": True, "false": False})

    def __missing__(self, word: str) -> Value:
        if word in _STRANGE:
            raise EdnError("a string does not end on its line, or # or \\ stands alone")
        if word == "#_":
            raise EdnError("a form that is left out with #_ cannot be read")
        value: Value = int(word.removesuffix("N")) if _INTEGER.match(word) else word
        if word[0] == ":":
            self[word] = value
        return value


class EdnError(ValueError):
    """A text that is not EDN, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A value, and the line on which it ended, counted from 1."""

    line: int
    value: Value


def read_forms(lines: Iterable[str], *, depth: int = 0) -> Iterator[Form]:
    """Yield the values of a text, one by one.

    Args:
        lines: The text; strings do not go over the end of a line.
        depth: 1 to yield the elements of the vectors (or lists) at the top, rather than these.

    Raises:
        EdnError: With the line, as `line 3: ...`.
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
        raise EdnError(f"line {number}: the text ends inside of a {stack[-1][0]}")


def _ended(stack: list[tuple[str, list[Value]]], items: list[Value], depth: int) -> list[Value]:
    """Return what is whole of the values at a depth."""
    if len(stack) == depth:
        return items
    whole = [value for vector in items if isinstance(vector, tuple) for value in vector]
    items.clear()
    return whole


def _read_line(
    line: str, stack: list[tuple[str, list[Value]]], items: list[Value], *, atoms: _Atoms
) -> list[Value]:
    """Read a line on; return the items of the innermost open collection."""
    for word in _TOKENS.findall(line):
        if word in _CLOSES:
            if len(stack) == _DEEPEST:
                raise EdnError(f"more than {_DEEPEST} collections are inside of each other")
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
        raise EdnError("a map has a map among its keys") from unhashable
