"""The measured effects of faults on disks and files. `effects` lists these classes, too."""

from dataclasses import dataclass

from nemesis.broker_effects import ProcessChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCut:
    """The loss of one replica by a power loss.

    Attributes:
        topic, partition: The partition.
        recovery_point: All records below this offset were on disk, by the checkpoint or the flush
            interval.
        log_end_before, log_end_after: The offset after the last record, before and after the fault.
        bytes_cut: The number of lost bytes in its segments.
    """

    topic: str
    partition: int
    recovery_point: int
    log_end_before: int
    log_end_after: int
    bytes_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLossEffect:
    """Brokers that were killed and lost all data that was in memory only."""

    took_s: float
    processes: tuple[ProcessChange, ...]
    replicas: tuple[ReplicaCut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWiped:
    """The loss of one replica by a wipe.

    Attributes:
        topic, partition: The partition.
        log_start, log_end: The first offset of the old log, and the offset after its last record.
        files, bytes_wiped: The number of deleted files, and their total size.
    """

    topic: str
    partition: int
    log_start: int
    log_end: int
    files: int
    bytes_wiped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeEffect:
    """Brokers that were stopped, and whose replicas were deleted from the disk.

    Attributes:
        graceful: Nodes that ended by themselves within the limit. Others were killed after it.
        replicas: The replicas before the fault. After the fault, none of their files existed.
        removed: Deleted files of the log folder itself, such as checkpoints, by node.
    """

    took_s: float
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    replicas: tuple[ReplicaWiped, ...]
    removed: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchedEffect:
    """Brokers that are back after a wipe.

    Attributes:
        took_s: Seconds since the heal, with the wait for the replicas.
        processes: The current processes.
        refetched: Partitions whose replica is in the ISR again, as the leader reports. Its log
            reaches the leader's end.
        missing: Partitions whose replica is not yet in the ISR. The checkers judge this, not the
            fault.
        log_ends: The end offset of each replica's log, from its files, by partition.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    refetched: tuple[str, ...]
    missing: tuple[str, ...]
    log_ends: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedBit:
    """One flipped bit in one batch of a replica's segment.

    Attributes:
        node: The node of the replica.
        topic, partition: The partition.
        segment: The segment file, relative to the node's folder.
        position: The position of the batch in the file, in bytes.
        byte, bit: The position of the byte in the file, and of the bit in the byte (0 is the
            lowest).
        base_offset, end_offset: The first offset of the batch, and the offset after its last
            record.
        log_end: The offset after the last record of the log at that time.
        recovery_point: Kafka checks no records below this offset when it recovers a log.
    """

    node: str
    topic: str
    partition: int
    segment: str
    position: int
    byte: int
    bit: int
    base_offset: int
    end_offset: int
    log_end: int
    recovery_point: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BitFlipEffect:
    """Flipped bits, confirmed by an independent reader: the batch does not match its CRC.

    Attributes:
        latent: True if the broker was stopped in order, and so checks no batch at its start. False
            if it was killed, and so reads the last segments to recover them.
        found: The reader's error for each segment.
        ran_s: Seconds from the restart of the brokers to the confirmation.
    """

    took_s: float
    latent: bool
    processes: tuple[ProcessChange, ...]
    flips: tuple[FlippedBit, ...]
    found: tuple[str, ...]
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsRightEffect:
    """Bits that are right again, or that the broker removed by a truncation.

    Attributes:
        took_s: Seconds since the heal.
        processes: The current broker processes.
        flipped_back: Partitions whose bit was still flipped, and was flipped back.
        gone: Partitions whose batch no longer existed. The broker had noticed it and fetched it
            again.
        sound: The number of batches in these replicas afterwards. Each matched its CRC.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    flipped_back: tuple[str, ...]
    gone: tuple[str, ...]
    sound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFullEffect:
    """Full disks: a test page could not be written.

    Attributes:
        taken: The size of the ballast file in bytes, by node.
        errors: The result of a test write before and after, by node: `["", "ENOSPC"]`.
        processes: The broker processes, and their states a few seconds later.
        ended: Nodes whose broker ended by itself.
    """

    took_s: float
    taken: dict[str, int]
    errors: dict[str, tuple[str, str]]
    processes: tuple[ProcessChange, ...]
    ended: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyEffect:
    """Read-only disks: brokers were stopped, and could not start again.

    Attributes:
        errors: The result of a test write before and after, by node: `["", "EROFS"]`.
        graceful: Nodes that ended by themselves within the limit. Others were killed after it.
        processes: The broker processes that were stopped.
        refused: The process that was started on the read-only disk and ended by itself, by node.
    """

    took_s: float
    errors: dict[str, tuple[str, str]]
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    refused: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRightEffect:
    """Disks that accept writes again, and brokers that are back.

    Attributes:
        took_s: Seconds from the heal to the registration.
        errors: The result of a test write now, by node. Empty if it succeeds.
        processes: The current broker processes.
    """

    took_s: float
    errors: dict[str, str]
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDiskEffect:
    """Slow disks, measured by the time to write and flush a test page.

    Attributes:
        flushes_s: The seconds before the fault and during it, by node.
    """

    took_s: float
    flushes_s: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickDiskEffect:
    """Disks that are as fast as before, measured as in `SlowDiskEffect`.

    Attributes:
        flushes_s: The seconds that the test page takes now, by node.
    """

    took_s: float
    flushes_s: dict[str, float]
