"""A node's files as tables, through the readers of `cluster.files`."""

from collections.abc import Iterator
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc

from checkers.ingest import Problem, Unit
from cluster.files import replica
from cluster.files.damage import DamagedFileError
from cluster.files.damage import Problem as Damage
from results.record.declared import Sight
from results.record.terms import QUORUM_TOPIC, Source

_OF_CHECKPOINTS = ("high_watermark", "high_watermark_source", "high_watermark_ns", "epochs")
"""The columns of `replica_states` that checkpoint files tell."""


def read_node(unit: Unit, problems: list[Problem]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the batches of a node's folder, or of a step's copy; note what could not be read.

    Args:
        unit: The node, its folder, how its snapshot is called, and what its system shows.
        problems: Appended to, a sentence each.
    """
    damage: list[Damage] = []
    read = replica.read_step if unit.of_step else replica.read_node
    try:
        rows = read(unit.folder, node=unit.name, snapshot=unit.snapshot, problems=damage)
        yield from ((name, _shown(name, batch, unit.sees)) for name, batch in rows)
    except DamagedFileError as broken:
        problems.append(Problem(unit=unit.label, sentence=f"{unit.label}: {broken}"))
    where = f"{unit.snapshot}: " if unit.of_step else ""
    hurt = [each for each in damage if _sight_of(PurePath(each.path)) in unit.sees]
    problems += [Problem(unit=unit.label, sentence=f"{where}{each}") for each in hurt]


def _shown(name: str, batch: pa.RecordBatch, sees: frozenset[Sight]) -> pa.RecordBatch:
    """Return the rows that a system shows: what else lies in its files may be anything."""
    if sees == frozenset(Sight):
        return batch
    if name == "quorum_states":
        return batch if Sight.QUORUM in sees else batch.slice(0, 0)
    if name == "leadership":
        of_quorum = pc.equal(batch["source"], pa.scalar(Source.METADATA_LOG.value))
    else:
        of_quorum = pc.equal(batch["topic"], pa.scalar(QUORUM_TOPIC))
    if Sight.METADATA_LOG not in sees:
        batch = batch.filter(pc.invert(of_quorum))
    elif Sight.REPLICA_LOGS not in sees:
        batch = batch.filter(of_quorum)
    if Sight.METADATA_LOG not in sees and Sight.REPLICA_LOGS not in sees:
        batch = batch.slice(0, 0)
    if name == "replica_states" and Sight.CHECKPOINTS not in sees:
        for at, field in enumerate(batch.schema):
            if field.name in _OF_CHECKPOINTS:
                batch = batch.set_column(at, field, pa.nulls(batch.num_rows, field.type))
    return batch


def _sight_of(path: PurePath) -> Sight:
    """Return what a file of a node gives."""
    if f"{QUORUM_TOPIC}-0" in path.parts:
        return Sight.METADATA_LOG
    return Sight.CHECKPOINTS if path.name.endswith("-checkpoint") else Sight.REPLICA_LOGS
