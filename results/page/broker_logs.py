"""The lines of the brokers' logs around the witness: those that speak of its partition or of it.

A broker stamps its lines with its own clock, in its own time zone. Lines are placed by it for
reading only; nothing is judged by it, and a fault may have shifted it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from results.atomic import StoreError
from results.environment import read_environment
from results.record.paths import RunPaths

MAX_LINES = 16
"""Of a node; those that say most of the partition first."""
MAX_TEXT = 600
MAX_NODES = 12
MAX_BYTES = 256_000_000
"""Of all files of a run; what lies behind is not looked at."""
_FILES = ("server.log", "state-change.log", "controller.log", "kraft.log")
_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_STAMP_BYTES = 25
_QUARTER_S = 900
"""Time zones differ from UTC by multiples of it."""
_CHUNK = 1 << 16
_TELLING = re.compile(
    rb"runcat|leader epoch|leaderEpoch|shrink|xpand|Corrupt|fenced|unclean|Election|elect"
    rb"|high watermark|Stopped|started \(|become|WARN|ERROR|FATAL",
    re.IGNORECASE,
)
_TRUNCATION = re.compile(rb"runcat|Corrupt|unclean", re.IGNORECASE)
_SEVERE = re.compile(rb"\] (ERROR|FATAL) ")
_CHANCE = re.compile(rb"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a broker's log.

    Attributes:
        anchor: Its id on the page.
        node, file: Whose, and which.
        at_s: When, by the broker's clock, in seconds since the run's start.
        text: The line, its end cut off if it is very long.
        times: So many lines say the same but for numbers; this is the first.
    """

    anchor: str
    node: str
    file: str
    at_s: float
    text: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogs:
    """The lines around a witness.

    Attributes:
        lines: Of all nodes, by time.
        left_out: So many more were found.
        about_s: To how many seconds the start of the run is known on the wall clock.
        cut: Whether files were too large to be read whole.
    """

    lines: tuple[LogLine, ...]
    left_out: int
    about_s: float
    cut: bool


@dataclass(frozen=True, slots=True)
class _Found:
    score: int
    at_s: float
    file: str
    line: bytes
    length: int


def broker_logs(paths: RunPaths, *, place: str, window: tuple[float, float]) -> BrokerLogs | None:
    """Find the lines; None where the record has no logs, or does not say when it started.

    Args:
        paths: The run.
        place: The partition, `log-0-1`.
        window: (from, to) in seconds since the run's start.
    """
    start = _start(paths)
    folders = sorted(each for each in paths.nodes.glob("*/logs") if each.is_dir())[:MAX_NODES]
    if start is None or not folders:
        return None
    started, about_s = start
    named = re.compile(rb"(?<![\w.-])" + re.escape(place.encode("utf-8", "replace")) + rb"(?!\d)")
    lines: list[LogLine] = []
    left, left_out, budget = MAX_BYTES, 0, True
    for folder in folders:
        found: list[_Found] = []
        zone_s = _zone_s(folder, started)
        for name in _FILES:
            path = folder / name
            size = _size(path)
            if size is None:
                continue
            budget = budget and size <= left
            if size <= left:
                left -= size
                lines_in = _inside(path, started=started, zone_s=zone_s, window=window)
                found += _scored(lines_in, name, named)
        chosen, rest = _chosen(folder.parent.name, found)
        lines += chosen
        left_out += rest
    lines.sort(key=lambda each: (each.at_s, each.anchor))
    return BrokerLogs(lines=tuple(lines), left_out=left_out, about_s=about_s, cut=not budget)


def _start(paths: RunPaths) -> tuple[datetime, float] | None:
    """Return the run's start on the wall clock, and how precisely it is known."""
    try:
        environment = read_environment(paths.environment)
        if isinstance(unix_s := environment.get("started_unix_s"), int | float):
            return datetime.fromtimestamp(unix_s, UTC), 0.01
        text = str(environment.get("started_utc"))
        started = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except (StoreError, ValueError, OverflowError, OSError):
        return None
    return started + timedelta(seconds=0.5), 0.5


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() and not path.is_symlink() else None


def _zone_s(folder: Path, started: datetime) -> int:
    """Return how far a broker's stamps are ahead of UTC: its first line is younger than the run."""
    for name in _FILES:
        for line, _ in _lines(folder / name):
            if (stamped := _stamp(line)) is not None:
                return round((stamped - started).total_seconds() / _QUARTER_S) * _QUARTER_S
    return 0


def _stamp(line: bytes) -> datetime | None:
    match = _STAMP.match(line)
    if match is None:
        return None
    text = f"{match[1].decode()}.{match[2].decode()}"
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def _lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield (the line's beginning, its whole length); a line of any length costs one chunk."""
    if _size(path) is None:
        return
    with path.open("rb") as file:
        while line := file.readline(_CHUNK):
            length, part = len(line), line
            while part and not part.endswith(b"\n"):
                part = file.readline(_CHUNK)
                length += len(part)
            yield line, length


def _inside(
    path: Path, *, started: datetime, zone_s: int, window: tuple[float, float]
) -> Iterator[tuple[float, bytes, int]]:
    first, last = (_text(started + timedelta(seconds=zone_s + each)) for each in window)
    for line, length in _lines(path):
        # Stamps of one form: their order as bytes is that of time.
        if first <= line[:_STAMP_BYTES] <= last and (stamped := _stamp(line)) is not None:
            yield (stamped - started).total_seconds() - zone_s, line, length


def _text(moment: datetime) -> bytes:
    return moment.strftime("[%Y-%m-%d %H:%M:%S,%f")[:24].encode() + b"]"


def _scored(
    lines: Iterable[tuple[float, bytes, int]], file: str, named: re.Pattern[bytes]
) -> Iterator[_Found]:
    for at_s, line, length in lines:
        ours = bool(named.search(line))
        if not ours and not _TELLING.search(line):
            continue
        score = 4 * ours + 2 * bool(_TRUNCATION.search(line)) + 2 * bool(_SEVERE.search(line))
        yield _Found(score, at_s, file, line, length)


def _chosen(node: str, found: list[_Found]) -> tuple[list[LogLine], int]:
    alike: dict[bytes, list[_Found]] = defaultdict(list)
    for each in found:
        alike[_CHANCE.sub(b"0", each.line[_STAMP_BYTES:])].append(each)
    ranked = sorted(alike.values(), key=lambda each: (-each[0].score, each[0].at_s))
    chosen = sorted(ranked[:MAX_LINES], key=lambda each: each[0].at_s)
    lines = [
        LogLine(
            anchor=f"line-{node}-{number}",
            node=node,
            file=each[0].file,
            at_s=each[0].at_s,
            text=_shown(each[0]),
            times=len(each),
        )
        for number, each in enumerate(chosen, 1)
    ]
    return lines, sum(len(each) for each in ranked[MAX_LINES:])


def _shown(found: _Found) -> str:
    text = found.line[:MAX_TEXT].decode("utf-8", "surrogateescape").rstrip("\r\n")
    rest = found.length - MAX_TEXT
    return f"{text} … ({rest:,} more bytes)" if rest > 0 else text
