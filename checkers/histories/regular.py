"""Read a long regular history in parallel stretches.

`stretches` defines a regular history. `reading` reads any other history from its start, and reports
its errors.
"""

from itertools import pairwise
from pathlib import Path

import orjson

from checkers.engine import Spread
from checkers.errors import HistoryError
from checkers.histories.joining import joined
from checkers.histories.recording import EDN, JSON, MISSHAPED
from checkers.histories.stretches import IrregularError, Share, read_stretch
from checkers.histories.tables import History, history_of

_ENTRY_OF_EDN = b"#jepsen.history.Op{"
_STRETCHES = 8
"""The maximum number of stretches of a file.

With more stretches, more ops would begin in one stretch and end in another.
"""


def regular_history(path: Path, name: str, spread: Spread, *, stretch_bytes: int) -> History | None:
    """Return the history of a regular file, or None if the file is not regular.

    Args:
        path: The file, which is not compressed.
        name: The history's name.
        spread: The function that reads stretches in parallel.
        stretch_bytes: The maximum length of a stretch, if `_STRETCHES` of them are enough.
    """
    with path.open("rb") as file:
        begin = file.read(len(_ENTRY_OF_EDN))
        file.seek(0)
        edn = not begin.startswith(b'{"')
        if not begin.startswith((b"{", b"#")) or (not edn and _names_ops(file.readline())):
            return None
    shares = _shares(path.absolute(), stretch_bytes, edn=edn)
    stretches = [each for each in spread(read_stretch, shares) if each is not None]
    if len(stretches) < len(shares):
        return None
    try:
        return history_of(name, joined(stretches, EDN if edn else JSON))
    except (IrregularError, HistoryError, *MISSHAPED):
        return None


def _shares(path: Path, stretch_bytes: int, *, edn: bool) -> list[Share]:
    size = path.stat().st_size
    count = min(_STRETCHES, size // stretch_bytes + 1)
    bounds = [size * at // count for at in range(count + 1)]
    return [Share(path=path, start=start, end=end, edn=edn) for start, end in pairwise(bounds)]


def _names_ops(line: bytes) -> bool:
    """Return whether a line is not JSON, or is a whole history with its ops."""
    try:
        return "ops" in orjson.loads(line)
    except (orjson.JSONDecodeError, TypeError):
        return True
