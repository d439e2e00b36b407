"""Collect constants from test modules, for tests that cover all checks, faults or workloads.

Some tests cover all checks, and need data for each check: an example, or a record with the anomaly.
Each check's test module has these data in a constant with an agreed name:

    WHYS_OF = [("some-anomaly", {"node": "n1"}, "why it came about")]

So a new check needs no line in the tests that cover all checks.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def modules_with(pattern: str, *, folder: str) -> Iterator[str]:
    """Yield the names of a folder's test modules in which a line begins with a pattern.

    Args:
        pattern: A regular expression for the beginning of a line.
        folder: The folder below the root: `tests/checkers`.
    """
    for path in sorted((ROOT / folder).glob("test_*.py")):
        if re.search(rf"^{pattern}", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield ".".join((*Path(folder).parts, path.stem))


def collected(name: str, *, folder: str) -> list[Any]:
    """Return the entries of a constant in all test modules of a folder.

    Args:
        name: The name of the constant.
        folder: The folder below the root: `tests/checkers`.
    """
    return [
        entry
        for module in modules_with(rf"{name}\b.* = ", folder=folder)
        for entry in getattr(import_module(module), name)
    ]
