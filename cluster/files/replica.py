"""This module reads all files of one stopped node, and returns rows of the run's tables.

`data/` is Kafka's log folder. With KRaft, `data/` includes the metadata log. `logs/` has the
broker's own log files. Unreadable files are reported, and all other files are read. A crash may
leave an incomplete file, which must not prevent a verdict.

Some files may be missing without an error:

- A controller that is not a broker has no partitions, and thus no checkpoints of partitions.
- A broker with ZooKeeper has no `partition.metadata` before 2.8.
- A log of old messages has no `leader-epoch-checkpoint`, because these messages have no epochs.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from cluster.files.batches import RecordBatch, Segment
from cluster.files.checkpoints import (
    EpochStart,
    leader_epochs,
    partition_topic_id,
    properties,
    quorum_state,
)
from cluster.files.damage import DamagedFileError, Problem
from cluster.files.group_offsets import OFFSETS_TOPIC
from cluster.files.logs import LoggedLeadership, LoggedTruncation, log_events
from cluster.files.metadata import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Leadership,
    Partitions,
    log_entries,
)
from cluster.files.node_files import NodeFiles
from cluster.files.quorum_log import LoggedTransition, LoggedVote, quorum_transitions, quorum_votes
from cluster.files.rows import (
    Replica,
    ReplicaState,
    kept_commits,
    logged_leadership,
    logged_transitions,
    logged_truncations,
    logged_votes,
    metadata_leadership,
    quorum_states,
    replica_records,
    replica_states,
)
from results.record.reading import read_bytes
from results.record.tables import BROKEN
from results.record.terms import CLEAN_SHUTDOWN, REMADE_PREFIX

MAX_LOG_BYTES = 256 << 20
"""The maximum size in bytes of a log file that is read. All lines of the file are kept in
memory."""
Rows = tuple[str, pa.RecordBatch]
"""The name of a table in `results.record.tables.LIVE`, and rows for this table."""


@dataclass(frozen=True, slots=True)
class Share:
    """A subset of a node's files, so that several tasks can read the files of a large node.

    Attributes:
        folders: The folder names of the replicas to read; None means all.
        is_first: Whether rows from the metadata log are included.
        is_last: Whether group commits and the node's own log files are included.
    """

    folders: frozenset[str] | None = None
    is_first: bool = True
    is_last: bool = True

    def has(self, folder: Path) -> bool:
        """Return whether the subset includes the replica in a folder."""
        return self.folders is None or folder.name in self.folders


ALL = Share()
_PARTITION_FOLDER = re.compile(r"^(?P<topic>.+)-(?P<partition>[0-9]+)$")
_SNAPSHOT = re.compile(r"^(?P<offset>[0-9]{20})-[0-9]{10}\.checkpoint$")
_INTERNAL = "__"
_STATE_CHANGE_LOG = "state-change"


def read_node(
    node_dir: Path,
    *,
    node: str,
    snapshot: str,
    problems: list[Problem],
    topic_ids: Mapping[str, str] | None = None,
    share: Share = ALL,
) -> Iterator[Rows]:
    """Read the files of a stopped node.

    Yields rows of `replica_records`, `replica_states`, `kept_commits`, `quorum_states`,
    `leadership` and `truncations`. The first two tables include the quorum's partition, but no
    other internal topics.

    Args:
        node_dir: The folder `nodes/<node>` of a run, with `data/` and `logs/`.
        node: The node's name, `n1` for broker 1.
        snapshot: The label for this state of the replicas, such as `final`.
        problems: A list to which unreadable files are added during the iteration.
        topic_ids: Topic ids by name, for topics without an id in the node's files.
        share: The subset of files to read.
    """
    files = NodeFiles(root=node_dir, node=node, snapshot=snapshot, problems=problems)
    if not files.data.is_dir():
        files.note(
            files.data, ("the folder is missing, so nothing is known about this node's replicas")
        )
    partitions = Partitions()
    leaderships = list(_metadata_log(files, partitions))
    if share.is_first:
        yield "leadership", metadata_leadership(leaderships, node=node)
    known = {METADATA_TOPIC: METADATA_TOPIC_ID, **(topic_ids or {}), **partitions.topic_ids}
    yield from _replicas(files, known, share)
    if share.is_last:
        yield from _groups(files, known)
        yield from _logged(files, known)


def read_step(
    node_dir: Path,
    *,
    node: str,
    snapshot: str,
    problems: list[Problem],
    topic_ids: Mapping[str, str] | None = None,
    share: Share = ALL,
) -> Iterator[Rows]:
    """Read the copy of a node's `data/` folder that a scenario's step made.

    The broker may have been running during the copy. Yields rows of `replica_records`,
    `replica_states` and `quorum_states`, as `read_node` does. The rows show what the replicas
    contained at that step. The copy does not contain the node's own log files; `read_node` reads
    these.

    Args:
        node_dir: The folder `snapshots/<step>/<node>` of a run, with `data/`.
        node: The node's name.
        snapshot: The step's name, such as `step-01`.
        problems: A list to which unreadable files are added during the iteration.
        topic_ids: Topic ids by name, for topics without an id in the node's files.
        share: The subset of replicas to read.
    """
    files = NodeFiles(root=node_dir, node=node, snapshot=snapshot, problems=problems, live=True)
    if not files.data.is_dir():
        files.note(
            files.data, ("the folder is missing, so nothing is known about this node's replicas")
        )
    yield from _replicas(files, {METADATA_TOPIC: METADATA_TOPIC_ID, **(topic_ids or {})}, share)


def replica_bytes(node_dir: Path) -> dict[str, int]:
    """Return the total size in bytes of each readable replica's segments, by folder name.

    A file whose size cannot be determined counts as 0.
    """
    return {
        folder.name: sum(map(_bytes, _segments(folder)))
        for folder, _, _ in _partition_folders(node_dir / "data")
    }


def _bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def clean_shutdown(data_dir: Path) -> bool:
    """Return whether a broker shut down cleanly, i.e. left `CLEAN_SHUTDOWN` in `data_dir`."""
    return (data_dir / CLEAN_SHUTDOWN).exists()


def _metadata_log(files: NodeFiles, partitions: Partitions) -> Iterator[Leadership]:
    """Replay the metadata log, beginning with the oldest snapshot that the log needs."""
    folder = files.data / f"{METADATA_TOPIC}-0"
    segments = _segments(folder)
    start, snapshot = _snapshot_below(folder, segments)
    for path in [*snapshot, *segments]:
        damage: list[str] = []
        for entry in log_entries(files.segment(path).batches, damage):
            if path not in snapshot and entry.offset < start:
                continue
            row = partitions.replay(entry, at=start - 1 if path in snapshot else None)
            if row is not None:
                yield row
        files.note_all(path, damage)


def _snapshot_below(folder: Path, segments: list[Path]) -> tuple[int, list[Path]]:
    """Return the oldest snapshot that replaces the log's deleted beginning.

    Returns:
        The snapshot's end offset, and a list with the snapshot's file. (0, []) if there is no
        snapshot, or if no snapshot is needed.
    """
    if not segments or _base_offset(segments[0]) == 0:
        return 0, []
    for path in sorted(folder.glob("*.checkpoint")):
        name = _SNAPSHOT.match(path.name)
        if name and int(name["offset"]) >= _base_offset(segments[0]):
            return int(name["offset"]), [path]
    return 0, []


def _replicas(files: NodeFiles, topic_ids: Mapping[str, str], share: Share) -> Iterator[Rows]:
    high_watermarks = files.offsets("replication-offset-checkpoint")
    log_starts = files.offsets("log-start-offset-checkpoint")
    ids_may_lack = files.by_zookeeper
    for folder, topic, partition in _partition_folders(files.data):
        if not share.has(folder):
            continue
        try:
            topic_id = files.parsed(
                folder / "partition.metadata", partition_topic_id, may_be_missing=ids_may_lack
            )
            replica = Replica(
                topic=topic,
                topic_id=topic_id or topic_ids.get(topic),
                partition=partition,
                node=files.node,
                snapshot=files.snapshot,
            )
            place = topic, partition
            bounds = high_watermarks.get(place), log_starts.get(place, 0)
            yield from _replica(files, folder, replica, bounds)
        except (*BROKEN, DamagedFileError) as broken:
            files.note(folder, f"the replica cannot be read: {broken}")


def _replica(
    files: NodeFiles, folder: Path, replica: Replica, bounds: tuple[int | None, int]
) -> Iterator[Rows]:
    """Read one replica. The high watermark and the log start offset come from the checkpoints."""
    segments = _segments(folder)
    log_end, has_epochs = _base_offset(segments[-1]) if segments else 0, False
    for path in segments:
        segment = files.segment(path)
        if segment.batches:
            log_end = segment.batches[-1].end_offset
            has_epochs |= any(batch.leader_epoch >= 0 for batch in segment.batches)
        yield from _records(files, path, segment, replica)
    first = _base_offset(segments[0]) if segments else 0
    state = ReplicaState(
        replica=replica,
        log_start_offset=max(first, bounds[1]),
        log_end_offset=log_end,
        high_watermark=bounds[0],
        epochs=_epochs(files, folder, has_epochs=has_epochs),
    )
    yield "replica_states", replica_states([state])
    if replica.topic == METADATA_TOPIC:
        yield from _quorum(files, folder, log_end)


def _groups(files: NodeFiles, topic_ids: Mapping[str, str]) -> Iterator[Rows]:
    """Read the committed offsets of groups from all partitions of `__consumer_offsets`."""
    for folder, _, partition in _partition_folders(files.data, lambda name: name == OFFSETS_TOPIC):
        segments = _segments(folder)
        read = [(path, files.segment(path).batches) for path in segments]
        whole = len(segments) == 1 and _is_whole(read[0][1])
        for path, batches in read:
            damage: list[str] = []
            log = Replica(
                topic=OFFSETS_TOPIC, topic_id=None, partition=partition,
                node=files.node, snapshot=files.snapshot,
            )  # fmt: skip
            yield "kept_commits", kept_commits(batches, log, topic_ids, damage, whole=whole)
            files.note_all(path, damage)


def _is_whole(batches: Sequence[RecordBatch]) -> bool:
    """Return whether batches begin at offset 0 and have no gaps. Then nothing was compacted."""
    ends = [0, *(each.end_offset for each in batches)]
    return [each.base_offset for each in batches] == ends[:-1]


def _epochs(files: NodeFiles, folder: Path, *, has_epochs: bool) -> list[EpochStart]:
    """Return the leader epochs of a log, from `leader-epoch-checkpoint`.

    A missing file is not a problem in two cases: the log has no record with an epoch, or the broker
    stopped cleanly. In the second case the check of epochs reports the missing file. This check
    does not cover the metadata log.
    """
    path = folder / "leader-epoch-checkpoint"
    judged = not folder.name.startswith(METADATA_TOPIC) and clean_shutdown(files.data)
    return files.parsed(path, leader_epochs, may_be_missing=judged or not has_epochs) or []


def _records(files: NodeFiles, path: Path, segment: Segment, replica: Replica) -> Iterator[Rows]:
    damage: list[str] = []
    for rows in replica_records(segment.batches, replica, damage):
        yield "replica_records", rows
    files.note_all(path, damage)


def _quorum(files: NodeFiles, folder: Path, log_end_offset: int) -> Iterator[Rows]:
    state = files.parsed(folder / "quorum-state", quorum_state)
    meta = files.parsed(files.data / "meta.properties", properties) or {}
    broker = meta.get("node.id", "")
    if state is not None:
        yield (
            "quorum_states",
            quorum_states(
                state,
                node=files.node,
                broker=int(broker) if broker.isdecimal() else None,
                log_end_offset=log_end_offset,
            ),
        )


def _logged(files: NodeFiles, topic_ids: Mapping[str, str]) -> Iterator[Rows]:
    """Read the node's own log files, including rotated files, and report each event once."""
    own = files.root / "logs" / "server.log"
    try:
        begun = own.lstat().st_size > 0  # A server logs before it does anything.
    except OSError:
        begun = False
    if not begun:
        files.note(own, "the file is missing or empty, so this node's truncations are unknown")
    seen: set[LoggedTruncation | LoggedLeadership | LoggedTransition | LoggedVote] = set()
    for path in sorted(own.parent.glob("*.log*")):
        try:
            log = read_bytes(path, max_bytes=MAX_LOG_BYTES, root=files.run)
            lines = log.decode(errors="replace").splitlines()
        except OSError as broken:
            files.note(path, f"the file cannot be read: {broken}")
            continue
        fresh = [each for each in log_events(lines) if each not in seen]
        transitions = [each for each in quorum_transitions(lines) if each not in seen]
        votes = [each for each in quorum_votes(lines) if each not in seen]
        seen.update(fresh, transitions, votes)
        source = "state-change-log" if path.name.startswith(_STATE_CHANGE_LOG) else "server-log"
        leaderships = [event for event in fresh if isinstance(event, LoggedLeadership)]
        truncations = [event for event in fresh if isinstance(event, LoggedTruncation)]
        yield (
            "leadership",
            logged_leadership(leaderships, node=files.node, source=source, topic_ids=topic_ids),
        )
        yield (
            "truncations",
            logged_truncations(truncations, node=files.node, source=source, topic_ids=topic_ids),
        )
        yield "quorum_states", logged_transitions(transitions, node=files.node)
        yield "quorum_states", logged_votes(votes, node=files.node)


def _is_judged(topic: str) -> bool:
    """Return whether a topic's replicas are compared. Replicas of most internal topics are not."""
    ours = topic.startswith(REMADE_PREFIX)
    return topic == METADATA_TOPIC or ours or not topic.startswith(_INTERNAL)


def _partition_folders(
    data: Path, wanted: Callable[[str], bool] = _is_judged
) -> Iterator[tuple[Path, str, int]]:
    """Yield the folders of current replicas.

    The folders of deleted, stray and future replicas have a suffix, so these folders are skipped.
    """
    for folder in sorted(data.glob("*-*")):
        name = _PARTITION_FOLDER.match(folder.name)
        if not name or not folder.is_dir():
            continue
        if wanted(name["topic"]):
            yield folder, name["topic"], int(name["partition"])


def _segments(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.log")) if path.stem.isdecimal()]


def _base_offset(segment: Path) -> int:
    """Return the first offset of a segment. The name of the file is this offset."""
    return int(segment.stem)
