"""The final content of each replica's files at an offset, or the reason why it is unknown.

If a log has no record at the offset, this is evidence. If a file was not read or not collected,
this is not evidence. So the page must show the difference.
"""

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow.compute as pc

from results.record.paths import RunPaths
from results.record.reading import parse_json, read_bytes
from results.tables import RunTables
from results.wording.inert import shortened

CRASH, FINAL = "crash", "final"
AT_THE_END = (FINAL, CRASH)
"""Snapshots of the final files: after an orderly stop, or after a run that died."""
NOTHING = "nothing"
_MAX_WHY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The final content of a replica's log at one offset.

    Attributes:
        told: `value 4294967298 of leader epoch 5`, or `nothing`; empty if unknown.
        note: Why there is no record, or why it is unknown whether there is one. It may be empty.
        value, epoch: Number (value) of the message, and leader epoch of the record. None if there
            is no record.
    """

    told: str
    note: str = ""
    value: int | None = None
    epoch: int | None = None


def unread_nodes(paths: RunPaths) -> dict[str, str]:
    """Return the nodes with a file that could not be read, each with the error as a sentence."""
    try:
        notes = parse_json(read_bytes(paths.record / "ingest.json", root=paths.root))
        if not isinstance(notes, dict):
            return {}
        noted = [(each["unit"], each["sentence"]) for each in notes["problems"]]
    except (OSError, ValueError, TypeError, LookupError):
        return {}
    unread: dict[str, str] = {}
    for unit, sentence in noted:
        if isinstance(unit, str) and isinstance(sentence, str):
            unread.setdefault(unit, sentence)
    return unread


def holdings(
    tables: RunTables, ours: pc.Expression, offset: int, *, expected: Collection[str]
) -> dict[str, Holding]:
    """Return, for each node, the final content of the replica's log at an offset.

    Args:
        tables: The run's tables.
        ours: Filter for the rows of the partition.
        offset: The offset.
        expected: Nodes that had a replica during the run.
    """
    ended = ours & pc.field("snapshot").isin(AT_THE_END)
    states = {str(row["node"]): row for row in tables.record("replica_states", filters=ended)
              .select(["node", "log_start_offset", "log_end_offset"]).to_pylist()}  # fmt: skip
    records = tables.record("replica_records", filters=ended & (pc.field("offset") == offset))
    held = {str(row["node"]): row for row in records.to_pylist()}
    unread = unread_nodes(tables.paths)
    found = {}
    for node in sorted({*states, *held, *expected}):
        if node in held:
            row = held[node]
            found[node] = Holding(told=_record(row), value=row["value"], epoch=row["leader_epoch"])
        elif node in unread:
            found[node] = Holding(told="", note=_unreadable(unread[node]))
        elif node in states:
            found[node] = Holding(told=NOTHING, note=_bounds(states[node], offset))
        else:
            found[node] = _without_log(tables.paths, node)
    return found


def _record(row: dict[str, object]) -> str:
    epoch = row["leader_epoch"]
    epochs = f" of leader epoch {epoch}" if isinstance(epoch, int) and epoch >= 0 else ""
    what = "a control record" if row["value"] is None else f"value {row['value']}"
    return f"{what}{epochs}"


def _bounds(state: dict[str, object], offset: int) -> str:
    start, end = state["log_start_offset"], state["log_end_offset"]
    if isinstance(end, int) and end <= offset:
        return f"its log ends at {end}"
    if isinstance(start, int) and start > offset:
        return f"its log begins at {start}"
    return ""


def _unreadable(sentence: str) -> str:
    return f"its files were not readable: {shortened(sentence, _MAX_WHY)}"


def _without_log(paths: RunPaths, node: str) -> Holding:
    if not paths.node(node).is_dir():
        return Holding(told="", note="its files were not collected")
    return Holding(told=NOTHING, note="it has no log of the partition")
