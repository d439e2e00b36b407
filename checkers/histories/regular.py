"""A long history that is regular, read in stretches by several at once.

See `stretches` for what is regular. What is not is for `reading` to read from its start, and to say
what is wrong with it.
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
"""So many at most: more would only leave more ops that begin in one and end in another."""


def regular_history(path: Path, name: str, spread: Spread, *, stretch_bytes: int) -> History | None:
    """Return the history of a file that is regular; None of any other.

    Args:
        path: Of the file, which is not packed.
        name: Of its history.
        spread: Has stretches read, by several at once.
        stretch_bytes: How long a stretch is at least.
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
    """Tell whether a line is a history with its ops; or none of JSON."""
    try:
        return "ops" in orjson.loads(line)
    except (orjson.JSONDecodeError, TypeError):
        return True
