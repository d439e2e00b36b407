"""The checkpoint files of a run's nodes, written as the tables of a changed record have them."""

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from cluster.files.checkpoints import offset_checkpoint

_Row = Mapping[str, Any]


def write_nodes(
    base: Path, target: Path, states: Collection[_Row], quorum: Collection[_Row]
) -> None:
    """Copy the nodes' files to a folder that is not there yet, with other checkpoints.

    Args:
        base: The folder `nodes` of the base.
        target: That of the changed run.
        states: The rows of `replica_states` that come of files. A replica without a row has none.
        quorum: The rows of `quorum_states` that come of files.
    """
    shutil.copytree(base, target)
    for data in target.glob("n*/data"):
        mine = {
            (row["topic"], row["partition"]): row
            for row in states
            if row["node"] == data.parent.name
        }
        _write_epochs(data, mine)
        _write_offsets(data, mine)
    for row in quorum:
        path = target / row["node"] / "data/__cluster_metadata-0/quorum-state"
        file = json.loads(path.read_text(encoding="utf-8"))
        told = {"leaderId": row["leader"], "leaderEpoch": row["epoch"], "votedId": row["voted_for"]}
        file |= {name: -1 if value is None else value for name, value in told.items()}
        path.write_text(json.dumps(file, separators=(",", ":")), encoding="utf-8")


def _write_epochs(data: Path, states: Mapping[tuple[str, int], _Row]) -> None:
    for folder in data.glob("*-*/"):
        topic, _, partition = folder.name.rpartition("-")
        state = states.get((topic, int(partition)))
        if state is not None:
            lines = [(each["epoch"], each["start_offset"]) for each in state["epochs"] or ()]
            _write(folder / "leader-epoch-checkpoint", lines)
        elif not topic.startswith("__"):
            shutil.rmtree(folder)


def _write_offsets(data: Path, states: Mapping[tuple[str, int], _Row]) -> None:
    """Write the three files of offsets; a start at 0 has no line, as Kafka leaves it out."""
    for name, column in (
        ("replication-offset", "high_watermark"),
        ("recovery-point-offset", "log_end_offset"),
        ("log-start-offset", "log_start_offset"),
    ):
        path = data / f"{name}-checkpoint"
        if not path.exists():
            continue
        offsets = offset_checkpoint(path.read_text(encoding="utf-8"))
        offsets = {at: offset for at, offset in offsets.items() if at[0].startswith("__")}
        for place, state in states.items():
            offset = state[column]
            if not place[0].startswith("__") and (offset or name == "replication-offset"):
                offsets[place] = offset
        _write(path, [(topic, partition, at) for (topic, partition), at in offsets.items()])


def _write(path: Path, lines: Collection[tuple[object, ...]]) -> None:
    text = [" ".join(map(str, line)) for line in lines]
    path.write_text("\n".join(["0", str(len(text)), *text]) + "\n", encoding="utf-8")
