"""Read the histories in a file: EDN as Jepsen stores it, or JSON lines, with or without gzip.

In EDN, each op is a map. The maps follow each other, as in Jepsen's `history.edn`, or one vector
contains all maps. The file is one history with the file's name.

There are two kinds of JSON lines. Either each line is a history, `{"name": ..., "ops": [...]}`. Or
each line is an op, and the file is one history. Ops have the same keys as in EDN, but without the
colon (`rebalance_log` is `rebalance-log`). In a poll's map, the keys are strings.

Empty lines are skipped, and comments in EDN. Any other content raises an error, which names the
line if one line is wrong.

A long file without gzip that holds one history, with one entry on each line, is read in parallel
stretches (`stretches`). If the file is not regular, it is read again from the start, line by line.
"""

import gc
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOBase, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from checkers.engine import Spread, in_turn
from checkers.errors import HistoryError
from checkers.histories.edn import EdnError, read_forms
from checkers.histories.recording import EDN, JSON, Recording
from checkers.histories.regular import regular_history
from checkers.histories.tables import History

_GZIP = b"\x1f\x8b"
_STRETCH_BYTES = 1 << 20
_OPENING = "[({ \t\r\n,"


def read_histories(
    path: Path, spread: Spread = in_turn, *, stretch_bytes: int = _STRETCH_BYTES
) -> Iterator[History]:
    """Yield the histories of a file, in the order of the file.

    Args:
        path: The file.
        spread: The function that reads stretches of the file in parallel.
        stretch_bytes: A file of at most this length is read at once. A longer file is divided into
            shorter stretches, but not into more than `regular_history` allows.

    Raises:
        HistoryError: The file or its content is wrong.
    """
    try:
        regular = None
        if path.stat().st_size > stretch_bytes and not _packed(path):
            regular = regular_history(path, _stem(path), spread, stretch_bytes=stretch_bytes)
        if regular is not None:
            yield regular
            return
        with _text(path) as text:
            yield from _histories(path, text)
    except FileNotFoundError as missing:
        raise HistoryError(f"the file {path} does not exist") from missing
    except IsADirectoryError as folder:
        raise HistoryError(f"{path} is a folder: pass a file with histories") from folder
    except (EOFError, zlib.error, gzip.BadGzipFile) as cut:
        raise HistoryError(f"{path} cannot be unpacked: {cut}") from cut
    except UnicodeDecodeError as strange:
        raise HistoryError(f"{path} is not text in UTF-8: {strange.reason}") from strange
    except RecursionError as deep:
        raise HistoryError(f"{path} has lists that are nested too deep") from deep


def _packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _text(path: Path) -> TextIOBase:
    raw = cast("BinaryIO", gzip.GzipFile(path)) if _packed(path) else path.open("rb")
    return TextIOWrapper(raw, encoding="utf-8")


def _histories(path: Path, text: Iterable[str]) -> Iterator[History]:
    lines = iter(text)
    blank, first = _first_words(lines)
    if not first:
        raise HistoryError(f"{path} has no op")
    whole = chain(blank, [first], lines)
    begin = first.lstrip(_OPENING)
    if begin.startswith('"'):
        yield from _json_histories(path, whole)
    else:
        yield _edn_history(path, whole, in_vector=first.lstrip()[0] in "[(")


def _first_words(lines: Iterator[str]) -> tuple[list[str], str]:
    """Return the empty lines at the start, and the first line with content."""
    blank: list[str] = []
    for line in lines:
        words = line.partition(";")[0].strip(" \t\r\n,")
        if words:
            return blank, line
        blank.append(line)
    return blank, ""


def _edn_history(path: Path, lines: Iterable[str], *, in_vector: bool) -> History:
    recording = Recording(_stem(path), EDN)
    try:
        with _without_collection():
            for form in read_forms(lines, depth=int(in_vector)):
                recording.add(_op(form.value, path, form.line), f"{path}, line {form.line}")
            return recording.done()
    except EdnError as broken:
        raise HistoryError(f"{path} is not EDN: {broken}") from broken


def _json_histories(path: Path, lines: Iterable[str]) -> Iterator[History]:
    """Yield a history for each line, or one history if each line is an op."""
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if not line.isspace())
    first = next(numbered)
    whole = chain([first], numbered)
    if "ops" not in _parsed(first[1], f"{path}, line {first[0]}"):
        yield _json_ops(path, whole)
        return
    for number, line in whole:
        where = f"{path}, line {number}"
        yield _json_history(_parsed(line, where), where, name=f"{_stem(path)}:{number}")


def _json_ops(path: Path, numbered: Iterable[tuple[int, str]]) -> History:
    recording = Recording(_stem(path), JSON)
    with _without_collection():
        for number, line in numbered:
            where = f"{path}, line {number}"
            recording.add(_parsed(line, where), where)
        return recording.done()


@contextmanager
def _without_collection() -> Iterator[None]:
    """Turn off garbage collection: with millions of new values, it takes half of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _json_history(value: Mapping[object, object], where: str, *, name: str) -> History:
    ops = value.get("ops")
    if not isinstance(ops, list):
        raise HistoryError(f"{where}: the ops of a history must be a list")
    recording = Recording(str(value.get("name", name)), JSON)
    for at, op in enumerate(ops):
        place = f"{where}, op {at} of {recording.name}"
        if not isinstance(op, dict):
            raise HistoryError(f"{place}: an op must be a map")
        recording.add(op, place)
    return recording.done()


def _parsed(line: str, where: str) -> Mapping[object, object]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as broken:
        raise HistoryError(f"{where} is not JSON: {broken}") from broken
    if not isinstance(value, dict):
        raise HistoryError(f"{where}: a line must be an op, or a history with its ops")
    return value


def _op(value: object, path: Path, line: int) -> Mapping[object, object]:
    if not isinstance(value, dict):
        raise HistoryError(f"{path}, line {line}: an op must be a map")
    return value


def _stem(path: Path) -> str:
    """Return a file's name without the extension for its format: `history` for `history.edn.gz`."""
    name = path.name.removesuffix(".gz")
    return Path(name).stem or name
