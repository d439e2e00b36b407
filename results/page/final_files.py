"""Show the final checkpoint files of all brokers side by side, for a few partitions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from results.page.checkpoints import FileRow, checkpoint_rows
from results.page.scenes import Place
from results.record.paths import RunPaths
from results.record.verdict import Example

MAX_PLACES = 4
MAX_LOOKED_AT = 200
MAX_NODES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalFiles:
    """The checkpoint files of one partition.

    Attributes:
        place: The partition, `log-0-1`.
        nodes: The brokers, one column each.
        called: Names of the brokers on the page.
        files: One row for each file.
    """

    place: str
    nodes: tuple[str, ...]
    called: Mapping[str, str]
    files: tuple[FileRow, ...]


def final_files(paths: RunPaths, witness: Example | None) -> list[FinalFiles]:
    """Return the files of the main anomaly's partition.

    If there is no main anomaly, return the files of partitions whose files differ between brokers.
    """
    nodes = sorted(each.name for each in paths.nodes.glob("*") if (each / "data").is_dir())
    nodes = nodes[:MAX_NODES]
    if not nodes:
        return []
    if witness is not None and witness.topic:
        places = iter([Place(topic=witness.topic, partition=witness.partition)])
        return [found for found in _found(paths, nodes, places) if found.files]
    differing = (
        each
        for each in _found(paths, nodes, _places(paths, nodes))
        if any(row.differs for row in each.files)
    )
    return [each for each, _ in zip(differing, range(MAX_PLACES), strict=False)]


def _found(paths: RunPaths, nodes: list[str], places: Iterator[Place]) -> Iterator[FinalFiles]:
    for place in places:
        try:
            rows = checkpoint_rows([paths.nodes], nodes, place=place)[0]
        except ValueError:  # The topic's name is impossible as a file name.
            continue
        yield FinalFiles(
            place=f"{place.topic}-{place.partition}",
            nodes=tuple(nodes),
            called={each: each for each in nodes},
            files=tuple(rows),
        )


def _places(paths: RunPaths, nodes: list[str]) -> Iterator[Place]:
    names = {each.name for node in nodes for each in (paths.node(node) / "data").glob("*-*")}
    for name in sorted(names)[:MAX_LOOKED_AT]:
        topic, _, number = name.rpartition("-")
        if number.isdecimal() and not topic.startswith("__"):
            yield Place(topic=topic, partition=int(number))
