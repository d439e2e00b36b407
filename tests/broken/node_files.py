"""The checkpoint files of a run's nodes, as the tables of a changed record have them."""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from cluster.files.checkpoints import offset_checkpoint

_Row = Mapping[str, Any]
_COLUMNS = {
    "replication-offset-checkpoint": "high_watermark",
    "recovery-point-offset-checkpoint": "log_end_offset",
    "log-start-offset-checkpoint": "log_start_offset",
}


def node_files(
    base: Path, states: Collection[_Row], quorum: Collection[_Row]
) -> dict[PurePath, str]:
    """Return the text of each file of the nodes, by its path in the folder `nodes`.

    Args:
        base: The folder `nodes` of the base.
        states: The rows of `replica_states` that come of files. A replica without a row has none.
        quorum: The rows of `quorum_states` that come of files.
    """
    replicas = {(row["node"], row["topic"], row["partition"]): row for row in states}
    voters = {row["node"]: row for row in quorum}
    files: dict[PurePath, str] = {}
    for path, text in texts(base).items():
        node, folder = path.parts[0], path.parent.name
        topic, _, partition = folder.rpartition("-")
        if path.name in _COLUMNS:
            mine = [row for (name, *_), row in replicas.items() if name == node]
            files[path] = _offsets(path.name, text, mine)
        elif path.name == "quorum-state":
            files[path] = _quorum_state(text, voters[node])
        elif path.name != "leader-epoch-checkpoint":
            files[path] = text
        elif state := replicas.get((node, topic, int(partition))):
            files[path] = _lines([(row["epoch"], row["start_offset"]) for row in state["epochs"]])
        elif topic.startswith("__"):
            files[path] = text
    return files


@cache
def texts(base: Path) -> dict[PurePath, str]:
    """Return the text of each file of a folder, by its path in it."""
    paths = sorted(path for path in base.rglob("*") if path.is_file())
    return {path.relative_to(base): path.read_text(encoding="utf-8") for path in paths}


def _offsets(name: str, text: str, states: Collection[_Row]) -> str:
    """Return a file of offsets; a start at 0 has no line, as Kafka leaves it out."""
    offsets = offset_checkpoint(text)
    kept = {place: offset for place, offset in offsets.items() if place[0].startswith("__")}
    for state in states:
        offset = state[_COLUMNS[name]]
        if not state["topic"].startswith("__") and (offset or _COLUMNS[name] == "high_watermark"):
            kept[state["topic"], state["partition"]] = offset
    return _lines([(*place, offset) for place, offset in kept.items()])


def _quorum_state(text: str, row: _Row) -> str:
    told = {"leaderId": row["leader"], "leaderEpoch": row["epoch"], "votedId": row["voted_for"]}
    known = {name: -1 if value is None else value for name, value in told.items()}
    return json.dumps({**json.loads(text), **known}, separators=(",", ":"))


def _lines(lines: Collection[tuple[object, ...]]) -> str:
    def text() -> Iterator[str]:
        yield from ("0", str(len(lines)))
        yield from (" ".join(map(str, line)) for line in lines)

    return "\n".join(text()) + "\n"
