"""What faults did to disks and what lies there, as measured: like `effects`, of which these are."""

from dataclasses import dataclass

from nemesis.broker_effects import ProcessChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCut:
    """What a power loss took from one replica.

    Attributes:
        topic, partition: Whose.
        recovery_point: Below it everything was on disk, by the checkpoint or the flush interval.
        log_end_before, log_end_after: Offset behind the last record.
        bytes_cut: How many bytes of its segments are gone.
    """

    topic: str
    partition: int
    recovery_point: int
    log_end_before: int
    log_end_after: int
    bytes_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLossEffect:
    """Brokers that are gone without warning, and with them what was in memory only."""

    took_s: float
    processes: tuple[ProcessChange, ...]
    replicas: tuple[ReplicaCut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWiped:
    """What a wipe took from one replica.

    Attributes:
        topic, partition: Whose.
        log_start, log_end: What its log held before: the first offset, and the one behind the last.
        files, bytes_wiped: How many files were removed, and their sizes together.
    """

    topic: str
    partition: int
    log_start: int
    log_end: int
    files: int
    bytes_wiped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeEffect:
    """Brokers that were stopped, and whose replicas are gone from the disk.

    Attributes:
        graceful: Nodes that ended by themselves within the limit; others were killed after it.
        replicas: What was there before; afterwards none of their files was left, as listed.
        removed: Files of the log folder itself that went, too: checkpoints, by node.
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
        took_s: From the heal on, the wait for the replicas included.
        processes: As they run now.
        refetched: Partitions whose replica is in the ISR again, as the leader says: its log reaches
            the leader's end.
        missing: Partitions whose replica is not, so far; that is the brokers' affair, and judged.
        log_ends: By partition: the end of the replica's log, as its files have it.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    refetched: tuple[str, ...]
    missing: tuple[str, ...]
    log_ends: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedBit:
    """One bit of one batch in a segment of a replica.

    Attributes:
        node: Whose replica.
        topic, partition: Of which partition.
        segment: The file, in the node's folder.
        position: Of the batch in it, in bytes.
        byte, bit: Which bit: the byte's place in the file, and the bit's in it (0: the lowest).
        base_offset, end_offset: Of the batch: its first offset, and the one behind its last.
        log_end: Behind the last record of the log then.
        recovery_point: Below it Kafka looks at nothing when it recovers a log.
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
    """Bits that were flipped, by what an independent reader finds: the batch's sum is wrong.

    Attributes:
        latent: Whether the broker was stopped in order, so that it looks at no batch when it
            starts; otherwise it was killed, and reads the last segments to recover them.
        found: What the reader said of each segment afterwards.
        ran_s: How long before the confirmation the brokers were started again.
    """

    took_s: float
    latent: bool
    processes: tuple[ProcessChange, ...]
    flips: tuple[FlippedBit, ...]
    found: tuple[str, ...]
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsRightEffect:
    """Bits that are as they were, or gone with what the broker itself cut off.

    Attributes:
        took_s: From the heal on.
        processes: The brokers as they run now.
        flipped_back: Partitions whose bit was still there, and was put right.
        gone: Partitions where the batch was gone: the broker had noticed, and fetched it again.
        sound: How many batches of the replicas were read afterwards; the sum of each was right.
    """

    took_s: float
    processes: tuple[ProcessChange, ...]
    flipped_back: tuple[str, ...]
    gone: tuple[str, ...]
    sound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFullEffect:
    """Disks without room, as a page of our own found that could not be written.

    Attributes:
        taken: By node: how many bytes a ballast took.
        errors: By node: what a write from outside got before and after it, `["", "ENOSPC"]`.
        processes: The brokers; what became of them within a few seconds.
        ended: Nodes whose broker ended by itself.
    """

    took_s: float
    taken: dict[str, int]
    errors: dict[str, tuple[str, str]]
    processes: tuple[ProcessChange, ...]
    ended: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyEffect:
    """Disks that cannot be written to: brokers that were stopped, and could not start again.

    Attributes:
        errors: By node: what a write from outside got before and after it, `["", "EROFS"]`.
        graceful: Nodes that ended by themselves within the limit; others were killed after it.
        processes: The brokers that were stopped.
        refused: By node: the process that was started on the disk, and ended by itself.
    """

    took_s: float
    errors: dict[str, tuple[str, str]]
    graceful: tuple[str, ...]
    processes: tuple[ProcessChange, ...]
    refused: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRightEffect:
    """Disks that take writes again, and brokers that are back.

    Attributes:
        took_s: From the heal to the registration.
        errors: By node: what a write from outside gets now; empty: it works.
        processes: The brokers as they run now.
    """

    took_s: float
    errors: dict[str, str]
    processes: tuple[ProcessChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDiskEffect:
    """Disks that take long, by what a flushed page of our own took.

    Attributes:
        flushes_s: By node: how long it took before the fault, and then.
    """

    took_s: float
    flushes_s: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickDiskEffect:
    """Disks that are as quick as before, by the same measurement.

    Attributes:
        flushes_s: By node: how long that page takes now.
    """

    took_s: float
    flushes_s: dict[str, float]
