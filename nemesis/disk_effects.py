"""The measured effects of faults on disks and files. `effects` lists these classes, too."""

from dataclasses import dataclass

from nemesis.broker_effects import ProcessChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCut:
    """The loss of one replica by a power loss or by lost flushes.

    Attributes:
        topic, partition: The partition.
        recovery_point: All records below this offset were on disk. The offset comes from the
            checkpoint, from the flush interval, or from the hosts' record of flushed bytes.
        log_end_before, log_end_after: The offset after the last record, before and after the fault.
        bytes_cut: The number of bytes that the replica's segments lost.
    """

    topic: str
    partition: int
    recovery_point: int
    log_end_before: int
    log_end_after: int
    bytes_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLossEffect:
    """Brokers that were killed and lost data that was not flushed: all of it, or a random part."""

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
        graceful: Nodes whose broker ended by itself within the limit. The other targets were killed
            later.
        replicas: The replicas before the fault. After the fault, none of their files existed.
        removed: For each node, the deleted files that were directly in the log folder, such as
            checkpoints.
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
        took_s: Seconds since the heal, including the wait for the replicas.
        processes: The current processes.
        refetched: Partitions that have a replica on disk again, except those of `missing`.
        missing: Partitions of the targets that have no leader or no full ISR, according to the
            cluster's metadata. The replica outside of the ISR may be another broker's. The checkers
            decide whether this is a failure.
        log_ends: For each partition, the end offset of the replica's log, read from its files.
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
        log_end: The offset after the last record of the log when the bit was flipped.
        recovery_point: When Kafka recovers a log, it checks no segment that ends at or below this
            offset. The offset comes from the checkpoint when the bit was chosen.
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
        latent: True if the broker was stopped in order. At its next start, such a broker checks no
            batch. False if the broker was killed. Then it reads the last segments to recover them.
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
        gone: Partitions whose damaged batch no longer existed. Usually the broker had noticed the
            damage and fetched the batch again.
        sound: The number of batches in these replicas after the heal. Each batch matched its CRC.
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
        taken: For each node, the size of the ballast file in bytes.
        errors: For each node, the error of a test write before and after: `["", "ENOSPC"]`.
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
        errors: For each node, the error of a test write before and after: `["", "EROFS"]`.
        graceful: Nodes whose broker ended by itself within the limit. The other targets were killed
            later.
        processes: The broker processes that were stopped.
        refused: For each node, the process that was started on the read-only disk. It ended by
            itself.
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
        errors: For each node, the error of a test write now. Empty if the write succeeds.
        processes: The current broker processes.
    """

    took_s: float
    errors: dict[str, str]
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDiskEffect:
    """Slow disks in virtual time, measured by the time to write and flush a test page.

    Attributes:
        flushes_s: For each node, the seconds before and during the fault.
    """

    took_s: float
    flushes_s: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickDiskEffect:
    """Disks that are about as fast as before, measured in the same way as during the fault.

    Attributes:
        flushes_s: For each node, the seconds that the test page takes now.
    """

    took_s: float
    flushes_s: dict[str, float]
