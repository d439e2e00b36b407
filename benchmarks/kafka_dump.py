"""Comparison of the segment reader `cluster.files` with DumpLogSegments, Kafka's own reader.

`disagreements` reads every segment of a run with both readers, and compares them record by record.
These are the final segments, and the copies made at each step of a scenario. Since Kafka 2.8 the
tool prints a line for each batch and each record. Before 2.8 it prints flat records with
`--deep-iteration`, but these have no leader epoch. The leader epoch is only on the batches, which
the tool prints without that option. The tool prints payloads raw, line ends included.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.files.batches import read_segment, records
from cluster.java import Java
from cluster.kafka.configuration import JAVA_ENVIRONMENT
from cluster.kafka.fetch import Distribution
from cluster.kafka.storage import java_argv
from cluster.kafka.versions import Numbers, numbers_of
from cluster.protocol import ClusterError

DUMP_TIMEOUT_S = 120
_FILE = re.compile(r"^Dumping (?P<path>.+)$")
_FLAT, _RECORD, _BATCH = "offset: ", "| offset: ", "baseOffset: "
_CONTENT = re.compile(r" (?:headerKeys|key|payload|endTxnMarker): ")
_FIELD = re.compile(r"(\w+): (-?\w+)")
_TIMES = ("CreateTime", "LogAppendTime", "NoTimestampType")
_DEEP = frozenset({"--deep-iteration", "--print-data-log"})
_MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedRecord:
    """One record, as one of the two readers returns it.

    Attributes:
        offset, timestamp, magic: The fields of Kafka's record format.
        epoch: The leader epoch. -1 in old formats, None where the tool does not print it.
        producer_id, producer_epoch, sequence: The producer's fields. -1 without idempotence.
        control: Whether the record is a control record, written by a broker.
        key_bytes, value_bytes: Sizes in bytes, -1 for null.
    """

    offset: int
    timestamp: int
    magic: int
    epoch: int | None
    producer_id: int
    producer_epoch: int
    sequence: int
    control: bool
    key_bytes: int
    value_bytes: int


def disagreements(run: Path, *, java: Java, distribution: Distribution) -> list[str]:
    """Return a sentence for each segment of a run for which the two readers disagree.

    Args:
        run: The folder of a run.
        java: The Java that runs the tool.
        distribution: The Kafka distribution of the run's version.

    Raises:
        ClusterError: The tool failed to run.
    """
    files = segments_of(run)
    told = dump(java, distribution, files)
    found = []
    for file in files:
        different = _differences(read_here(file.read_bytes()), told.get(str(file), ()))
        found += [f"{file.relative_to(run)}: {each}" for each in different]
    return found


def segments_of(run: Path) -> list[Path]:
    """Return the segments of all nodes of a run, with the copies made at a scenario's steps."""
    patterns = ("nodes/*/data/*-*/*.log", "snapshots/*/*/data/*-*/*.log")
    found = (file for pattern in patterns for file in sorted(run.glob(pattern)))
    return [file for file in found if file.stem.isdecimal()]


def dump_argv(java: Java, distribution: Distribution, files: Sequence[Path]) -> list[str]:
    """Return the command line of DumpLogSegments, Kafka's own reader of segments.

    The tool prints each batch and each record of the files. Tests compare Logquake's reader with
    it.
    """
    together = replace(distribution, classpath=distribution.classpath + distribution.tools)
    return java_argv(
        java,
        together,
        _dump_class(numbers_of(distribution.version)),
        "--files",
        ",".join(str(file) for file in files),
        "--deep-iteration",
        "--print-data-log",
    )


def dump(
    java: Java, distribution: Distribution, files: Sequence[Path]
) -> Mapping[str, tuple[DumpedRecord, ...]]:
    """Return, for each path, the records that Kafka's tool reads from the segment.

    Java starts only once for all segments. If records lack the leader epoch in this version, the
    tool runs a second time, to read the batches.

    Raises:
        ClusterError: The tool failed to run.
    """
    if not files:
        return {}
    argv = dump_argv(java, distribution, files)
    told = dumped(_output(argv))
    if all(record.epoch is not None for each in told.values() for record in each):
        return told
    batches = _output([word for word in argv if word not in _DEEP])
    return with_epochs(told, batches)


def dumped(text: str) -> dict[str, tuple[DumpedRecord, ...]]:
    """Return, for each path, the records in the tool's output (with its options for records)."""
    found: dict[str, list[DumpedRecord]] = {}
    batch: Mapping[str, str] = {}
    mine: list[DumpedRecord] = []
    for kind, content in _lines(text):
        if kind == _FILE.pattern:
            mine = found.setdefault(content, [])
            continue
        fields = dict(_FIELD.findall(_CONTENT.split(content, maxsplit=1)[0]))
        sizes = {name.lower(): size for name, size in fields.items()}
        if kind == _RECORD or "keysize" in sizes:
            control = batch.get("isControl") == "true" or " endTxnMarker: " in content
            mine.append(_record({**batch, **sizes, **fields}, control=control))
        else:  # A batch. Since 2.8 also an old-format message that wraps its records.
            batch = {"partitionLeaderEpoch": "-1", "producerId": "-1", **fields}
    return {path: tuple(each) for path, each in found.items()}


def with_epochs(
    told: Mapping[str, tuple[DumpedRecord, ...]], batches: str
) -> dict[str, tuple[DumpedRecord, ...]]:
    """Add leader epochs to records, from the tool's output without deep iteration."""
    epochs: dict[tuple[str, int], int] = {}
    path = ""
    for kind, content in _lines(batches):
        if kind == _FILE.pattern:
            path = content
        elif kind == _BATCH:
            fields = dict(_FIELD.findall(content))
            for offset in range(int(fields["baseOffset"]), int(fields["lastOffset"]) + 1):
                epochs[path, offset] = int(fields["partitionLeaderEpoch"])
    return {
        path: tuple(replace(each, epoch=epochs.get((path, each.offset), -1)) for each in found)
        for path, found in told.items()
    }


def read_here(data: bytes) -> tuple[DumpedRecord, ...]:
    """Return the records of a segment as `cluster.files` reads them.

    Raises:
        DamagedFileError: A batch cannot be unpacked.
    """
    return tuple(
        DumpedRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            magic=batch.magic,
            epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            sequence=batch.sequence_of(record.offset),
            control=batch.control,
            key_bytes=-1 if record.key is None else len(record.key),
            value_bytes=-1 if record.value is None else len(record.value),
        )
        for batch in read_segment(data).batches
        for record in records(batch)
    )


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the relevant lines of the output with their kind. Payloads may look similar."""
    for line in text.split("\n"):
        file = _FILE.match(line)
        if file:
            yield _FILE.pattern, file["path"]
        for kind in (_FLAT, _RECORD, _BATCH):
            if line.startswith(kind):
                yield kind, line


def _record(fields: Mapping[str, str], *, control: bool) -> DumpedRecord:
    epoch = fields.get("partitionLeaderEpoch")
    return DumpedRecord(
        offset=int(fields["offset"]),
        timestamp=int(next(fields[name] for name in _TIMES if name in fields)),
        magic=int(fields["magic"]),
        epoch=None if epoch is None else int(epoch),
        producer_id=int(fields.get("producerId", "-1")),
        producer_epoch=int(fields.get("producerEpoch", "-1")),
        sequence=int(fields.get("sequence", "-1")),
        control=control,
        key_bytes=int(fields["keysize"]),
        value_bytes=int(fields["valuesize"]),
    )


def _dump_class(numbers: Numbers) -> str:
    """Return the class name of DumpLogSegments in this Kafka version."""
    package = "org.apache.kafka" if numbers >= (4, 3) else "kafka"
    return f"{package}.tools.DumpLogSegments"


def _differences(ours: Sequence[DumpedRecord], theirs: Sequence[DumpedRecord]) -> Iterator[str]:
    if len(ours) != len(theirs):
        yield f"{len(ours)} records here, {len(theirs)} there"
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=False) if one != other]
    yield from (f"{one} here, {other} there" for one, other in pairs[:_MAX_EXAMPLES])


def _output(argv: Sequence[str]) -> str:
    try:
        ended = subprocess.run(
            argv,
            capture_output=True,
            env=os.environ | JAVA_ENVIRONMENT,
            timeout=DUMP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise ClusterError(f"Kafka's DumpLogSegments could not be run: {failure}") from failure
    if ended.returncode:
        said = (ended.stderr or ended.stdout).decode(errors="replace").strip().splitlines()
        told = [line for line in said if "Exception" in line] or said[-1:] or ["nothing"]
        raise ClusterError(f"Kafka's DumpLogSegments ended with {ended.returncode}: {told[0]}")
    return ended.stdout.decode(errors="replace")
