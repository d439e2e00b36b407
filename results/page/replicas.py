"""Show each replica's log around an offset, compared with the acknowledged values."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from results.page.holdings import AT_THE_END, FINAL, unread_nodes
from results.record.verdict import Example
from results.tables import RunTables
from results.wording.headline import broker_name

AROUND = 3
"""Number of offsets shown on each side."""
MAX_OFFSET = 2**62
"""Upper limit of plausible offsets. A damaged verdict may contain larger offsets."""
EPOCH_COLOURS = 6
UNKNOWN, UNREADABLE, NOT_COLLECTED = "?", "not readable", "not collected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One offset in one replica's log, or in the row of acknowledged values.

    Attributes:
        text: The number (value) of the message, `control` for a control record, `?` if unknown, or
            "" if there is no record.
        epoch: Leader epoch of the record; None if there is none.
        colour: Index of the epoch's colour, from 0. None means no colour.
        here: Whether this is the offset of the example.
        far: Whether the cell is left out on narrow screens.
        differs: Whether the record differs from the acknowledged value at this offset.
        gone: Whether the value was acknowledged, but no replica's final log has it.
        also: Further values acknowledged at this offset.
    """

    text: str
    epoch: int | None
    colour: int | None
    here: bool
    far: bool
    differs: bool
    gone: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row of the drawing."""

    name: str
    note: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWindow:
    """The drawing: rows with the same offsets."""

    place: str
    offset: int
    offsets: tuple[int, ...]
    rows: tuple[LogRow, ...]
    epochs: tuple[tuple[str, int], ...]
    """(epoch with its leader, colour) for each legend entry."""

    @property
    def unknown(self) -> bool:
        """Whether the content of some replica is unknown."""
        return any(cell.text == UNKNOWN for cell in self._cells)

    @property
    def empty(self) -> bool:
        """Whether some cell is empty, because nothing was acknowledged or no record is there."""
        return any(not cell.text and not cell.differs for cell in self._cells)

    @property
    def told_twice(self) -> bool:
        """Whether several values were acknowledged at one offset."""
        return any(cell.also for cell in self._cells)

    @property
    def gone_elsewhere(self) -> bool:
        """Whether a value at another offset is missing from every replica's log."""
        return any(cell.gone and not cell.here for cell in self._cells)

    @property
    def gone_here(self) -> bool:
        """Whether the example's own value is missing from every replica's log."""
        return any(cell.gone and cell.here for cell in self._cells)

    @property
    def sample(self) -> str:
        """One value of the drawing, preferably the example's; "" if there is none."""
        texts = [cell.text for cell in sorted(self._cells, key=lambda each: not each.here)]
        return next((each for each in texts if each.isdecimal()), "")

    @property
    def _cells(self) -> list[Cell]:
        return [cell for row in self.rows for cell in row.cells]


_Told = dict[int, tuple[str, ...]]
"""For each offset, the values that were acknowledged there. The first value is shown."""
_Record = tuple[str, int | None]
"""(text, leader epoch) of a record; the epoch is None if the format has none."""


def replica_window(tables: RunTables, example: Example) -> ReplicaWindow | None:
    """Return the logs' contents around an example's offset, or None if the logs were not read."""
    named = bool(example.topic) and is_unicode(example.topic + example.topic_id)
    if not 0 <= example.offset <= MAX_OFFSET or not named:
        return None
    offsets = tuple(range(max(0, example.offset - AROUND), example.offset + AROUND + 1))
    logs = _logs(tables, example, offsets)
    if not logs:
        return None
    epochs = sorted(
        {epoch for log in logs.values() for _, epoch in log.values() if epoch is not None}
    )
    led_by = _leaders(tables, example)
    colours = _colours(epochs, led_by)
    told = _told(tables, example, offsets)
    value = example.evidence.get("value")
    if isinstance(value, int):
        told.setdefault(example.offset, (str(value),))
    silent = _silent(tables, example, logs)
    gone = frozenset() if silent else _gone(tables, example, told)
    told = _gone_first(told, gone, here=example.offset)
    rows = [_told_row(told, offsets, example.offset, gone=gone)]
    rows += [
        _log_row(
            LogRow(name=node, note=silent.get(node, ""), cells=()), log,
            told=told, offsets=offsets, here=example.offset, colours=colours,
        )
        for node, log in sorted(logs.items())
    ]  # fmt: skip
    return ReplicaWindow(
        place=f"{example.topic}-{example.partition}",
        offset=example.offset,
        offsets=offsets,
        rows=tuple(_noted(row, example) for row in rows),
        epochs=tuple((_named(each, led_by), colour) for each, colour in colours.items()),
    )


def is_unicode(text: str) -> bool:
    """Return whether a text can be stored in a table, i.e. encoded as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_place_of(example: Example, row: Mapping[str, object]) -> bool:
    """Return whether a row belongs to an example's partition; a recreated topic does not match."""
    ours = (row["topic"], row["partition"]) == (example.topic, example.partition)
    ids = {example.topic_id, row["topic_id"]} - {"", None}
    return ours and len(ids) < 2  # noqa: PLR2004 - two ids are two topics


def place_of(example: Example) -> pc.Expression:
    """Return a filter for the rows of an example's partition."""
    place = (pc.field("topic") == example.topic) & (pc.field("partition") == example.partition)
    return place & (pc.field("topic_id") == example.topic_id) if example.topic_id else place


def _leaders(tables: RunTables, example: Example) -> dict[int, int]:
    return {
        row["leader_epoch"]: row["leader"]
        for row in tables.statistics("leaders").to_pylist()
        if is_place_of(example, row) and (row["leader"] or -1) >= 0
    }


def _colours(epochs: list[int], led_by: dict[int, int]) -> dict[int, int]:
    """Choose a colour for each epoch: the colour of its leader in the time line, if still free."""
    colours: dict[int, int] = {}
    for epoch in epochs:
        free = [each for each in range(EPOCH_COLOURS) if each not in colours.values()] or [0]
        wanted = led_by[epoch] % EPOCH_COLOURS if epoch in led_by else free[-1]
        colours[epoch] = wanted if wanted in free else free[-1]
    return colours


def _named(epoch: int, led_by: dict[int, int]) -> str:
    leader = f", written by {broker_name(led_by[epoch])}" if epoch in led_by else ""
    return f"epoch {epoch}{leader}"


def _around(example: Example, offsets: Iterable[int]) -> pc.Expression:
    window = list(offsets)
    return (
        place_of(example) & (pc.field("offset") >= window[0]) & (pc.field("offset") <= window[-1])
    )


def _logs(
    tables: RunTables, example: Example, offsets: tuple[int, ...]
) -> dict[str, dict[int, _Record]]:
    rows = tables.record("replica_records", filters=_around(example, offsets)).to_pylist()
    snapshots = sorted({str(row["snapshot"]) for row in rows})
    chosen = FINAL if FINAL in snapshots or not snapshots else snapshots[-1]
    logs: dict[str, dict[int, _Record]] = {node: {} for node in _replicas(tables, example)}
    for row in rows:
        if str(row["snapshot"]) == chosen:
            text = "control" if row["control"] else str(row["value"])
            epoch = row["leader_epoch"]
            known = epoch if epoch is not None and epoch >= 0 else None
            logs.setdefault(row["node"], {})[row["offset"]] = (text, known)
    return logs if rows else {}


def _replicas(tables: RunTables, example: Example) -> list[str]:
    """Return every node with a log of the partition, even if no record is in the window."""
    states = tables.record("replica_states", filters=place_of(example))
    return sorted({str(node) for node in states["node"].to_pylist()})


def _silent(tables: RunTables, example: Example, nodes: Iterable[str]) -> dict[str, str]:
    """Return the nodes with incomplete files, each with the reason in two words."""
    ended = place_of(example) & pc.field("snapshot").isin(AT_THE_END)
    told = {*tables.record("replica_states", filters=ended)["node"].to_pylist()}
    unread = unread_nodes(tables.paths)
    return {
        node: UNREADABLE if node in unread else NOT_COLLECTED
        for node in nodes
        if node in unread or (node not in told and not tables.paths.node(node).is_dir())
    }


def _told(tables: RunTables, example: Example, offsets: tuple[int, ...]) -> _Told:
    acked = _around(example, offsets) & pc.field("acked")
    values: dict[int, list[str]] = defaultdict(list)
    for row in tables.record("sends", filters=acked).to_pylist():
        values[row["offset"]].append(str(row["value"]))
    # Two clients may have got the same offset. The example's own value comes first.
    mine = str(example.evidence.get("value"))
    told: _Told = {}
    for offset, found in values.items():
        first = mine if offset == example.offset and mine in found else found[-1]
        told[offset] = tuple(dict.fromkeys([first, *found]))
    return told


def _gone(tables: RunTables, example: Example, told: _Told) -> frozenset[str]:
    """Return the acknowledged values that no replica's log has at the end of the run."""
    values = {each for found in told.values() for each in found if each.isdecimal()}
    ended = place_of(example) & pc.field("snapshot").isin(AT_THE_END)
    kept = tables.record(
        "replica_records", filters=ended & pc.field("value").isin(sorted(map(int, values)))
    )
    return frozenset(values - {str(each) for each in kept["value"].to_pylist()})


def _gone_first(told: _Told, gone: frozenset[str], *, here: int) -> _Told:
    """Sort the values at each offset: first the values that are missing in all replicas' logs.

    At the anomaly's own offset, the order does not change.
    """
    return {
        offset: found if offset == here else tuple(sorted(found, key=lambda each: each not in gone))
        for offset, found in told.items()
    }


def _told_row(told: _Told, offsets: tuple[int, ...], here: int, *, gone: frozenset[str]) -> LogRow:
    cells = [
        Cell(
            text=told.get(offset, ("",))[0],
            epoch=None,
            colour=None,
            here=offset == here,
            far=abs(offset - here) > 1,
            differs=False,
            gone=told.get(offset, ("",))[0] in gone,
            also=told.get(offset, ())[1:],
        )
        for offset in offsets
    ]
    return LogRow(name="clients were told", note="", cells=tuple(cells))


def _log_row(
    row: LogRow,
    log: dict[int, _Record],
    *,
    told: _Told,
    offsets: tuple[int, ...],
    here: int,
    colours: dict[int, int],
) -> LogRow:
    cells = []
    for offset in offsets:
        text, epoch = log.get(offset, (UNKNOWN if row.note else "", None))
        cells.append(
            Cell(
                text=text,
                epoch=epoch,
                colour=None if epoch is None else colours[epoch],
                here=offset == here,
                far=abs(offset - here) > 1,
                differs=offset in told and text not in (told[offset][0], UNKNOWN),
            )
        )
    return LogRow(name=row.name, note=row.note, cells=tuple(cells))


def _noted(row: LogRow, example: Example) -> LogRow:
    roles = (("leader_then", "acknowledged it"), ("final_leader", "led when the run ended"))
    notes = [
        *filter(None, (row.note,)),
        *(
            text
            for key, text in roles
            if isinstance(broker := example.evidence.get(key), int) and row.name == f"n{broker}"
        ),
    ]
    return LogRow(name=row.name, note=", ".join(notes), cells=row.cells)
