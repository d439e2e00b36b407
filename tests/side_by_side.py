"""Several tests at a time: how many workers play a session, and what one worker plays in order.

A unit of work is a file, so that fixtures of a module are made once. Files in `SPLIT` consist of
parts that share nothing; there a unit is a part. Long units start first, so that the short ones
fill the end.

Sessions that name tests run them one after the other, as pytest does by itself; `-n0` has the same
effect for whole sessions.
"""

import os
import re
from collections.abc import Sequence

import pytest

PARAMETERS = re.compile(r"\[(.*)\]$")
SPLIT: dict[str, tuple[str, ...]] = {}
"""Files whose parts are units: each part is named by a word among a test's parameters."""
LONG: tuple[str, ...] = ()
"""The files that take longest, by how long they take (`tests/README.md` says how to measure)."""


def workers() -> int:
    """Return how many workers use this machine well: tests of clusters mostly wait."""
    return (os.cpu_count() or 1) + 1


def unit_of(test: str) -> str:
    """Return the name of the unit that a test belongs to."""
    file, _, name = test.partition("::")
    parts = SPLIT.get(file, ())
    if not parts:
        return file
    found = PARAMETERS.search(name)
    words = found[1] if found else name
    return next((f"{file}::{part}" for part in parts if part in words), file)


def long_first(tests: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests in the order in which they are handed out."""
    ranks = {unit: rank for rank, unit in enumerate(LONG)}

    def rank(item: pytest.Item) -> tuple[int, str]:
        unit = unit_of(item.nodeid)
        return ranks.get(unit, ranks.get(unit.partition("::")[0], len(ranks))), unit

    return sorted(tests, key=rank)
