"""Find the lines in the brokers' logs that mention the main anomaly or its partition.

The main anomaly is the example that shows the failure best. The code calls this example the
witness. Each log line has the time of the broker's own clock and time zone. A fault may have
shifted this clock. These times only help a reader to find lines. No verdict depends on them.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from results.environment import read_environment
from results.page.truncations import Logged
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.reading import open_file
from results.record.terms import OWN_LOGS

MAX_LINES = 16
"""Maximum number of lines per node; the most relevant lines come first."""
MAX_TEXT = 600
MAX_NODES = 12
MAX_BYTES = 256_000_000
"""Maximum number of bytes read from all log files of a run."""
_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_STAMP_BYTES = 25
_QUARTER_S = 900
"""A time zone differs from UTC by a multiple of this number of seconds."""
_EARLY_S = 60
"""A broker's clock may be up to this number of seconds behind Logquake's clock. But the first line
of a broker's log may come many minutes after the run's start."""
_CHUNK = 1 << 16
_LOOKED_AT = 4000
"""Only this many bytes of a line are searched."""
_MAX_KINDS = 2000
"""Maximum number of distinct lines per node; lines that differ only in numbers count as one."""
_TELLING = re.compile(
    rb"runcat|leader epoch|leaderEpoch|shrink|xpand|Corrupt|fenced|unclean|Election|elect"
    rb"|high watermark|Stopped|started \(|become|WARN|ERROR|FATAL",
    re.IGNORECASE,
)
_PROOF = re.compile(rb"runcat|Corrupt|unclean|starts at leader epoch", re.IGNORECASE)
"""Words that show a truncation or a leadership change, in a line that names the partition."""
_SEVERE = re.compile(rb"\] (ERROR|FATAL) ")
_CHANCE = re.compile(rb"\d+")
_CUT_TO = re.compile(
    rb"[Tt]runcat\w+ (?:(?:log )?\S+ )?(?:to (?:offset )?|and start at offset )(\d{1,18})(?!\d)"
)
"""The wording of a log line about a truncation that was done. Before that, a fetcher logs the
intended truncation, which may have no effect."""
_IN_VAIN = b"has no effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a broker's log.

    Attributes:
        anchor: Id of the line on the page.
        node, file: Node and log file of the line.
        at_s: Time by the broker's clock, in seconds since the run's start.
        text: The line; a very long line is cut.
        times: Number of lines that differ only in numbers; this line is the first of them.
        proves: Whether the line shows a leader or a truncation of the partition.
    """

    anchor: str
    node: str
    file: str
    at_s: float
    text: str
    times: int
    proves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogs:
    """The log lines around the main anomaly.

    Attributes:
        lines: Lines of all nodes. Lines that prove the anomaly's events come first, then the
            others, each group in order of time.
        left_out: Number of further lines that were found.
        about_s: How exactly the run's start on the wall clock is known, in seconds.
        cut: Whether the files were too large to be read completely.
    """

    lines: tuple[LogLine, ...]
    left_out: int
    about_s: float
    cut: bool


@dataclass(slots=True)
class _Found:
    """A relevant line, and the number of lines that differ from it only in numbers."""

    score: int
    at_s: float
    file: str
    line: bytes
    length: int
    proves: bool
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Search criteria for log lines.

    Attributes:
        place: The partition, `log-0-1`.
        offset: Offset of the main anomaly; -1 if it has none.
        window: (from, to) in seconds since the run's start.
    """

    place: str
    offset: int
    window: tuple[float, float]


def broker_logs(
    paths: RunPaths, wanted: Wanted, *, astray: Callable[[str], bool] = lambda _: False
) -> BrokerLogs | None:
    """Return the log lines around the main anomaly.

    If a node's clock was shifted, lines that prove a truncation of the anomaly's message are
    included even outside the window.

    Args:
        paths: The run.
        wanted: The search criteria.
        astray: A function that returns whether a node's clock was shifted.

    Returns:
        The lines, or None if the record has no logs or no start time.
    """
    start = _start(paths)
    folders = sorted(each for each in paths.nodes.glob("*/logs") if each.is_dir())[:MAX_NODES]
    if start is None or not folders:
        return None
    started, about_s = start
    lines: list[LogLine] = []
    left, left_out, cut = MAX_BYTES, 0, False
    for folder in folders:
        found: dict[bytes, _Found] = {}
        zone_s = _zone_s(folder, started)
        for name in OWN_LOGS:
            size = _size(folder / name)
            if size is None:
                continue
            if size > left:
                cut = True
                continue
            left -= size
            told = _inside(
                folder / name, wanted, started=started, zone_s=zone_s,
                astray=astray(folder.parent.name),
            )  # fmt: skip
            left_out += _gather(found, told, file=name, named=_names(wanted.place))
        chosen, rest = _chosen(folder.parent.name, found)
        lines += chosen
        left_out += rest
    lines.sort(key=lambda each: (not each.proves, each.at_s, each.anchor))
    return BrokerLogs(lines=tuple(lines), left_out=left_out, about_s=about_s, cut=cut)


def clock_about_s(paths: RunPaths) -> float:
    """Return how exact the times in brokers' logs are, in seconds. 0 if no time is known."""
    start = _start(paths)
    return start[1] if start else 0.0


def cuts_logged(paths: RunPaths, places: Iterable[str]) -> Mapping[str, Logged]:
    """Return the truncations of partitions that each node's log reports.

    Args:
        paths: The run.
        places: The partitions, `log-0-1`.

    Returns:
        For each partition and each node a list of (seconds since the run's start by the broker's
        clock, offset), in order of time. The result is empty if the record has no start time.
    """
    start, wanted = _start(paths), list(places)
    if start is None or not wanted:
        return {}
    named = _names(*wanted)
    found: dict[str, dict[str, list[tuple[float, int]]]] = {}
    left = MAX_BYTES
    for folder in sorted(each for each in paths.nodes.glob("*/logs") if each.is_dir())[:MAX_NODES]:
        size = _size(folder / OWN_LOGS[0])
        if size is None or size > left:
            continue
        left -= size
        zone_s = _zone_s(folder, start[0])
        for line, _ in _lines(folder / OWN_LOGS[0]):
            cut, at = _cut_to(line, named), _stamp(line)
            if cut is not None and at is not None:
                at_s = (at - start[0]).total_seconds() - zone_s
                place, offset = cut
                here = found.setdefault(place, {}).setdefault(folder.parent.name, [])
                here.append((at_s, offset))
    return found


def _cut_to(line: bytes, named: re.Pattern[bytes]) -> tuple[str, int] | None:
    """Return the partition and the offset of a truncation that a line reports, or None."""
    if b"runcat" not in line or _IN_VAIN in line or not (place := named.search(line)):
        return None
    cut = _CUT_TO.search(line[:_LOOKED_AT])
    return (place[0].decode("utf-8", "replace"), int(cut[1])) if cut else None


def _names(*places: str) -> re.Pattern[bytes]:
    """Return a pattern that finds the partitions in a line."""
    names = b"|".join(re.escape(each.encode("utf-8", "replace")) for each in places)
    return re.compile(rb"(?<![\w.-])(?:" + names + rb")(?!\d)")


def _start(paths: RunPaths) -> tuple[datetime, float] | None:
    """Return the run's start on the wall clock, and how exact this time is, in seconds."""
    try:
        environment = read_environment(paths.environment)
        if isinstance(unix_s := environment.get("started_unix_s"), int | float):
            return datetime.fromtimestamp(unix_s, UTC), 0.01
        text = str(environment.get("started_utc"))
        started = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except (StoreError, ValueError, OverflowError, OSError):
        return None
    return started + timedelta(seconds=0.5), 0.5


def _root(log: Path) -> Path:
    """Return the run's folder for a path `nodes/<node>/logs/<log>`."""
    return log.parents[3]


def _size(path: Path) -> int | None:
    try:
        with open_file(path, root=_root(path)) as file:
            return os.fstat(file.fileno()).st_size
    except OSError:
        return None


def _zone_s(folder: Path, started: datetime) -> int:
    """Return by how many seconds a broker's time zone is ahead of UTC.

    The function compares the first line of the log with the run's start.
    """
    for name in OWN_LOGS:
        for line, _ in _lines(folder / name):
            if (stamped := _stamp(line)) is not None:
                ahead_s = (stamped - started).total_seconds() + _EARLY_S
                return math.floor(ahead_s / _QUARTER_S) * _QUARTER_S
    return 0


def _stamp(line: bytes) -> datetime | None:
    match = _STAMP.match(line)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(f"{match[1].decode()}.{match[2].decode()}+00:00")
    except ValueError:
        return None


def _lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield (beginning, full length) of each line.

    If a line is long, only its first chunk is kept in memory.
    """
    try:
        opened = open_file(path, root=_root(path))
    except OSError:
        return
    with opened as file:
        while line := file.readline(_CHUNK):
            length, part = len(line), line
            while part and not part.endswith(b"\n"):
                part = file.readline(_CHUNK)
                length += len(part)
            yield line, length


def _inside(
    path: Path, wanted: Wanted, *, started: datetime, zone_s: int, astray: bool
) -> Iterator[tuple[bytes, int, float]]:
    """Yield (beginning, length, second) of each line in the time window.

    If the node's clock was shifted, also yield lines about truncations of the main anomaly's
    message.
    """
    first, last = (_text(started + timedelta(seconds=zone_s + each)) for each in wanted.window)
    named = _names(wanted.place)
    for line, length in _lines(path):
        # All stamps have one format, so their byte order is their time order.
        inside = first <= line[:_STAMP_BYTES] <= last
        if not inside and astray:
            cut = _cut_to(line, named)
            inside = cut is not None and cut[1] <= wanted.offset
        if inside and (stamped := _stamp(line)) is not None:
            yield line[:_LOOKED_AT], length, (stamped - started).total_seconds() - zone_s


def _text(moment: datetime) -> bytes:
    return moment.strftime("[%Y-%m-%d %H:%M:%S,%f")[:24].encode() + b"]"


def _gather(
    found: dict[bytes, _Found],
    lines: Iterable[tuple[bytes, int, float]],
    *,
    file: str,
    named: re.Pattern[bytes],
) -> int:
    """Add relevant lines to `found`, grouped by their text without numbers.

    Returns:
        The number of relevant lines that were left out because `found` is full.
    """
    left_out = 0
    for line, length, at_s in lines:
        ours = bool(named.search(line))
        proves = ours and bool(_PROOF.search(line))
        # A line that proves an event is not grouped with similar lines: its numbers matter.
        alike = line if proves else _CHANCE.sub(b"0", line[_STAMP_BYTES:])
        if (known := found.get(alike)) is not None:
            known.times += 1
            continue
        if not ours and not _TELLING.search(line):
            continue
        if len(found) >= _MAX_KINDS:
            left_out += 1
            continue
        score = 8 * proves + 4 * ours + 2 * bool(_SEVERE.search(line))
        found[alike] = _Found(score, at_s, file, line[:MAX_TEXT], length, proves)
    return left_out


def _chosen(node: str, found: dict[bytes, _Found]) -> tuple[list[LogLine], int]:
    ranked = sorted(found.values(), key=lambda each: (-each.score, each.at_s))
    chosen = sorted(ranked[:MAX_LINES], key=lambda each: each.at_s)
    lines = [
        LogLine(
            anchor=f"line-{node}-{number}",
            node=node,
            file=each.file,
            at_s=each.at_s,
            text=_shown(each),
            times=each.times,
            proves=each.proves,
        )
        for number, each in enumerate(chosen, 1)
    ]
    return lines, sum(each.times for each in ranked[MAX_LINES:])


def _shown(found: _Found) -> str:
    text = found.line.decode("utf-8", "surrogateescape").rstrip("\r\n")
    rest = found.length - MAX_TEXT
    return f"{text} … ({rest:,} more bytes)" if rest > 0 else text
