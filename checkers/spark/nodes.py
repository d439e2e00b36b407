"""Read a node's files into tables, through the readers of `cluster.files`."""

from collections.abc import Iterator
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc

from checkers.ingest import Problem, Unit
from cluster.files import replica
from cluster.files.damage import DamagedFileError
from cluster.files.damage import Problem as Damage
from results.record.declared import Sight
from results.record.terms import OWN_LOGS, QUORUM_TOPIC, Source

_OF_CHECKPOINTS = ("high_watermark", "high_watermark_source", "high_watermark_ns", "epochs")
"""The columns of `replica_states` that come from checkpoint files."""
_OF_OWN_LOGS = (Source.SERVER_LOG.value, Source.STATE_CHANGE_LOG.value)
"""The sources of `leadership` rows that come from brokers' own logs."""
_QUORUM_STATE = "quorum-state"


def read_node(unit: Unit, problems: list[Problem]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of a node's folder or of a step's copy. Add unreadable files to `problems`.

    Args:
        unit: The node, the node's folder, the name of the snapshot, and the kinds of observation
            that the system shows.
        problems: The list to which the function appends a sentence for each unreadable file.
    """
    damage: list[Damage] = []
    read = replica.read_step if unit.of_step else replica.read_node
    try:
        part = unit.part
        share = (
            replica.Share(
                frozenset(part.folders),
                is_first=part.number == 0,
                is_last=part.number == part.parts - 1,
            )
            if part
            else replica.ALL
        )
        rows = read(
            unit.folder, node=unit.name, snapshot=unit.snapshot, problems=damage, share=share
        )
        yield from ((name, _shown(name, batch, unit.sees)) for name, batch in rows)
    except DamagedFileError as broken:
        problems.append(Problem(unit=unit.label, sentence=f"{unit.label}: {broken}"))
    where = f"{unit.snapshot}: " if unit.of_step else ""
    hurt = [each for each in damage if _sight_of(PurePath(each.path)) in unit.sees]
    problems += [Problem(unit=unit.label, sentence=f"{where}{each}") for each in hurt]


def replica_bytes(unit: Unit) -> dict[str, int]:
    """Return how many bytes the log segments of each replica have, by the replica's folder."""
    return replica.replica_bytes(unit.folder)


def _shown(name: str, batch: pa.RecordBatch, sees: frozenset[Sight]) -> pa.RecordBatch:
    """Return the rows that the system declares as visible. Other rows of the files may be wrong."""
    if sees == frozenset(Sight):
        return batch
    shown = batch.filter(_rows_shown(name, batch, sees))
    if name != "replica_states" or Sight.CHECKPOINTS in sees:
        return shown
    of_quorum = pc.equal(shown["topic"], pa.scalar(QUORUM_TOPIC))
    for at, field in enumerate(shown.schema):
        if field.name in _OF_CHECKPOINTS:
            nothing = pa.nulls(shown.num_rows, field.type)
            shown = shown.set_column(at, field, pc.if_else(of_quorum, shown[field.name], nothing))
    return shown


def _rows_shown(name: str, batch: pa.RecordBatch, sees: frozenset[Sight]) -> pa.BooleanArray:
    """Return a mask of a table's rows that the system declares as visible."""
    if name == "quorum_states":
        return pa.repeat(Sight.QUORUM in sees, batch.num_rows)
    logs, metadata = Sight.REPLICA_LOGS in sees, Sight.METADATA_LOG in sees
    if name == "leadership":
        of_quorum = pc.equal(batch["source"], pa.scalar(Source.METADATA_LOG.value))
        of_brokers = pc.is_in(batch["source"], pa.array(_OF_OWN_LOGS))
        rest = pc.if_else(of_brokers, Sight.BROKER_LOGS in sees, logs)
    else:
        of_quorum = pc.equal(batch["topic"], pa.scalar(QUORUM_TOPIC))
        rest = Sight.BROKER_LOGS in sees if name == "truncations" else logs
    shown: pa.BooleanArray = pc.if_else(of_quorum, metadata, rest)
    return shown


def _sight_of(path: PurePath) -> Sight:
    """Return the kind of observation that a node's file contains, from the path of the file."""
    if path.name == _QUORUM_STATE:
        return Sight.QUORUM
    if path.name in OWN_LOGS:
        return Sight.BROKER_LOGS
    if f"{QUORUM_TOPIC}-0" in path.parts:
        return Sight.METADATA_LOG
    return Sight.CHECKPOINTS if path.name.endswith("-checkpoint") else Sight.REPLICA_LOGS
