"""A node's files as tables, through the readers of `cluster.files`."""

from collections.abc import Iterator

import pyarrow as pa

from checkers.ingest import Problem, Unit
from cluster.files import replica
from cluster.files.damage import DamagedFileError
from cluster.files.damage import Problem as Damage


def read_node(unit: Unit, problems: list[Problem]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the batches of a node's folder, or of a step's copy; note what could not be read.

    Args:
        unit: The node, its folder, and how its snapshot is called.
        problems: Appended to, a sentence each.
    """
    damage: list[Damage] = []
    read = replica.read_step if unit.of_step else replica.read_node
    try:
        yield from read(unit.folder, node=unit.name, snapshot=unit.snapshot, problems=damage)
    except DamagedFileError as broken:
        problems.append(Problem(unit=unit.label, sentence=f"{unit.label}: {broken}"))
    where = f"{unit.snapshot}: " if unit.of_step else ""
    problems += [Problem(unit=unit.label, sentence=f"{where}{each}") for each in damage]
