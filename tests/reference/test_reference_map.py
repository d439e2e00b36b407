"""The README's map: who knows a proposal finds the line."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.reference.bugs import Bug

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / "cluster" / "reference"
README = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "rules.md"))
WANTED = frozenset({101, 279, 320, 497, 500, 595, 630, 841, 903, 966, 996})


class Place(NamedTuple):
    """What a row of a table says, and one of the places where it says that it is."""

    says: str
    file: str
    name: str


def rows() -> Iterator[tuple[str, str]]:
    """Yield what the rows of the tables are of, and where they say that it is."""
    for line in README.splitlines():
        cells = line.strip("|").split(" | ")
        where = [cell for cell in cells[1:] if ".py`" in cell]
        if line.startswith("|") and where:
            yield cells[0].strip(), re.sub(r"\([^)]*\)", "", where[0])


def places() -> Iterator[Place]:
    for says, where in rows():
        for group in where.split(";"):
            file, *names = re.findall(r"`([^`]+)`", group)
            yield from (Place(says, file, name) for name in names or [""])


@cache
def parts_of(file: str) -> dict[str, str]:
    """Return the text of each function and class of a file, by its name; of all, by ''."""
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {"": text}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {f"{node.name}.{each.name}": _lines(lines, each) for each in methods}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = _lines(lines, node)
    return found


def _lines(lines: list[str], node: ast.ClassDef | ast.FunctionDef) -> str:
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


@pytest.mark.parametrize("place", list(places()), ids=lambda place: f"{place.file}:{place.name}")
def test_each_place_is_there_and_names_what_it_is_of(place: Place) -> None:
    """The proposal's number, or the bug's name, stands in that very function."""
    named = parts_of(place.file)
    assert place.name in named
    if (bug := place.says.strip("`")) in {*Bug}:
        words = [f"Bug.{Bug(bug).name}"]
    else:
        words = [f"KIP-{number}" for number in re.findall(r"\d{2,4}", place.says)]
    text = named[place.name]
    assert words
    assert any(re.search(rf"{re.escape(word)}(?!\d)", text) for word in words)


def test_the_map_has_every_rule_and_every_bug() -> None:
    of = [says for says, _ in rows()]
    mapped = {int(number) for says in of for number in re.findall(r"\b\d{2,4}\b", says)}
    assert mapped >= WANTED
    assert {says.strip("`") for says in of if says.startswith("`")} == {*Bug}


def test_all_files_that_the_readme_names_are_there() -> None:
    named = {each.removesuffix("/") for each in re.findall(r"`([a-z_/]+(?:\.py|/))`", README)}
    assert len(named) > 20
    there = {each for each in named if any((root / each).exists() for root in (ROOT, REPOSITORY))}
    assert named - there == set()
