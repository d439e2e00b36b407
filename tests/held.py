"""What test modules hold ready for tests of all checks, faults or workloads.

Some tests go through all checks, and need something of each: an example, a record that it must
find. A check brings its own in its test module, as a constant of an agreed name:

    WHYS_OF = [("some-anomaly", {"node": "n1"}, "why it came about")]

So what is added needs no line in the tests of all.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def modules_with(pattern: str, *, folder: str) -> Iterator[str]:
    """Yield the names of the test modules of a folder in which a line begins so.

    Args:
        pattern: A regular expression for the beginning of a line.
        folder: Below the root: `tests/checkers`.
    """
    for path in sorted((ROOT / folder).glob("test_*.py")):
        if re.search(rf"^{pattern}", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield ".".join((*Path(folder).parts, path.stem))


def collected(name: str, *, folder: str) -> list[Any]:
    """Return what the test modules of a folder hold under a name, all their entries."""
    return [
        entry
        for module in modules_with(rf"{name}\b.* = ", folder=folder)
        for entry in getattr(import_module(module), name)
    ]
