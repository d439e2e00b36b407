"""At each start, create a node from its log dir.

Both real processes and the simulator use this module.
"""

from dataclasses import dataclass, replace
from itertools import count
from uuid import UUID

from cluster.files.checkpoints import properties, uuid_text
from cluster.files.damage import DamagedFileError
from cluster.reference.broker.lifecycle import Incarnation, Lifecycle
from cluster.reference.broker.node import Node
from cluster.reference.controller.plane import KRaft
from cluster.reference.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    partition_metadata,
)
from cluster.reference.log.disk import Disk
from cluster.reference.log.files import LogFiles, segments
from cluster.reference.log.log import Log
from cluster.reference.log.recovery import Recovered, recovered
from cluster.reference.messages.control import Listener
from cluster.reference.partition.replicas import Replicas
from cluster.reference.quorum.member import Identity, Snapshot
from cluster.reference.quorum.quorum import voters_of
from cluster.reference.quorum.recovery import latest_snapshot, snapshot_paths
from cluster.reference.quorum.state import FOLDER, STATE_FILE, ElectionState, election_state
from cluster.reference.settings import Settings

META = "meta.properties"
METADATA_TOPIC_ID = UUID(int=1)
_LARGEST_PORT = 65_535
Address = tuple[str, int]


class BootError(Exception):
    """A node cannot start. The message is one sentence that names the reason and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """A node with the content of its files, ready to start.

    Attributes:
        machine: The state machine. Its method `start` starts the node.
        storage: Executes the node's disk effects.
        said: Lines for the node's log. They say what was found in the files, and what was repaired.
        listens_at: The addresses at which the node listens for clients and other nodes.
    """

    machine: Node
    storage: LogFiles
    said: tuple[str, ...]
    listens_at: tuple[Address, ...]


def boot(settings: Settings, disk: Disk, *, incarnation: UUID) -> Booted:
    """Read a node's log dir, repair the files, and create the node.

    Args:
        settings: The node's settings.
        disk: The node's formatted log dir.
        incarnation: A new UUID for each start.

    Raises:
        BootError: The log dir is not formatted or belongs to another node, or settings are missing.
        DamagedLogError: The log dir has damage that a crash cannot cause.
    """
    roles = {each.strip() for each in settings.process_roles.split(",")}
    # All refusals come before any repair, because the folder may belong to another node.
    cluster_id, directory = _identity(disk, settings)
    state, snapshot = _election_state(disk), _latest_snapshot(disk)
    _refuse_gap(disk, snapshot)
    _make_first_files(disk, of_broker="broker" in roles)
    for older in snapshot_paths(disk.paths())[:-1]:
        disk.remove(older)  # A crash prevented its removal.
    found = recovered(disk)
    try:
        voters = voters_of(settings.controller_quorum_voters)
    except ValueError as wrong:
        raise BootError(str(wrong)) from wrong
    listeners = listeners_of(settings)
    numbers = count(1)
    plane = KRaft(
        Identity(
            node=settings.node_id,
            voters=tuple(voters),
            cluster_id=cluster_id,
            directory=directory,
        ),
        settings=settings,
        log=_metadata_log(found),
        state=state,
        snapshot=snapshot,
        numbers=numbers,
    )
    replicas = lifecycle = None
    if "broker" in roles:
        own = {folder: log for folder, log in found.logs.items() if folder != FOLDER}
        replicas = Replicas(
            node_id=settings.node_id,
            settings=settings,
            recovered=replace(found, logs=own),
            numbers=numbers,
        )
        who = Incarnation(
            node=settings.node_id,
            cluster_id=cluster_id,
            incarnation=incarnation,
            listeners=tuple(each for each in listeners if not _is_of_controllers(each, settings)),
            directory=directory,
            previous_epoch=found.broker_epoch,
        )
        lifecycle = Lifecycle(who, interval_ms=settings.broker_heartbeat_interval_ms)
    node = Node(
        settings,
        cluster_id=cluster_id,
        plane=plane,
        replicas=replicas,
        lifecycle=lifecycle,
        numbers=numbers,
        voters=voters,
    )
    storage = LogFiles(disk, segment_bytes=settings.log_segment_bytes)
    places = tuple((each.host, each.port) for each in listeners)
    return Booted(machine=node, storage=storage, said=found.said, listens_at=places)


def _make_first_files(disk: Disk, *, of_broker: bool) -> None:
    """Create the files that a node has from its first start on. Checkpoint files begin empty."""
    there = set(disk.paths())
    if (mark := f"{FOLDER}/{PARTITION_METADATA}") not in there:
        disk.replace(mark, partition_metadata(METADATA_TOPIC_ID))
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS) if of_broker else ():
        if name not in there:
            disk.replace(name, b"")


def listeners_of(settings: Settings) -> tuple[Listener, ...]:
    """Return a node's listeners from a setting like `BROKER://host:9092,CONTROLLER://host:9093`.

    Raises:
        BootError: A listener is not `NAME://HOST:PORT`.
    """
    found = []
    for each in filter(None, (part.strip() for part in settings.listeners.split(","))):
        name, _, place = each.partition("://")
        host, _, port = place.rpartition(":")
        if not (name and port.isdecimal() and int(port) <= _LARGEST_PORT):
            raise BootError(f"listeners: {each!r} does not have the form NAME://HOST:PORT")
        found.append(Listener(name=name, host=host, port=int(port)))
    if not found:
        raise BootError("listeners is empty; name a listener, such as BROKER://127.0.0.1:9092")
    return tuple(found)


def _is_of_controllers(listener: Listener, settings: Settings) -> bool:
    return listener.name in settings.controller_listener_names.split(",")


def _identity(disk: Disk, settings: Settings) -> tuple[str, UUID | None]:
    raw = _read(disk, META)
    if raw is None:
        raise BootError(
            f"{settings.log_dirs} is not formatted: it has no {META}; see"
            " cluster.reference.process.formatting"
        )
    try:
        fields = properties(raw.decode())
        cluster_id, node = fields["cluster.id"], int(fields["node.id"])
        directory = fields.get("directory.id")
        directory_id = UUID(uuid_text(directory)) if directory else None
    except (DamagedFileError, UnicodeDecodeError, KeyError, ValueError) as damaged:
        lacks = "there is no " if isinstance(damaged, KeyError) else ""
        raise BootError(
            f"{settings.log_dirs}/{META} is damaged: {lacks}{damaged}: restore the file"
        ) from damaged
    if node != settings.node_id:
        raise BootError(
            f"{settings.log_dirs} belongs to node {node}, but node.id is {settings.node_id}: use"
            " another folder"
        )
    return cluster_id, directory_id


def _election_state(disk: Disk) -> ElectionState:
    """Return the epoch and vote that a quorum member must remember.

    Raise `BootError` if the file is damaged, as Kafka does.
    """
    try:
        return election_state(_read(disk, STATE_FILE))
    except DamagedFileError as damaged:
        raise BootError(
            f"{STATE_FILE} is damaged: {damaged}: restore the file; without it a voter may vote a"
            " second time in an epoch"
        ) from damaged


def _latest_snapshot(disk: Disk) -> Snapshot | None:
    """Return the latest snapshot of the metadata; raise `BootError` if this snapshot is damaged.

    An older snapshot is no replacement: the log between the two snapshots may be deleted.
    """
    try:
        return latest_snapshot({path: disk.read(path) for path in snapshot_paths(disk.paths())})
    except DamagedFileError as damaged:
        raise BootError(
            f"{damaged}: restore the file; or, if most of the other voters are intact, remove the"
            f" folder {FOLDER}, so that this node fetches all metadata from the other voters"
        ) from damaged


def _refuse_gap(disk: Disk, snapshot: Snapshot | None) -> None:
    """Raise `BootError` if no snapshot has the records before the metadata log's first offset."""
    begin = segments(disk).get(FOLDER, [0])[0]
    if begin > (snapshot.end_offset if snapshot else 0):
        raise BootError(
            f"{FOLDER} begins at offset {begin}, but no snapshot has the records before that"
            " offset: restore its first segments, or the snapshot"
        )


def _metadata_log(found: Recovered) -> Log:
    kept = found.logs.get(FOLDER)
    return kept.log() if kept else Log(FOLDER)


def _read(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read(path)
    except FileNotFoundError:
        return None
