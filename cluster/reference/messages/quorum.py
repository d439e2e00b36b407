"""What the members of the quorum say to each other (KIP-595, 630, 853, 996).

Kafka's schemas nest each of these in a list of topics and partitions, of which there is one:
`__cluster_metadata-0`. The nesting is left out here. Fetches are those of `messages.data`.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

from cluster.reference.messages.data import Epoch


class VoteRequest(Struct, frozen=True, kw_only=True):
    """A candidate, or who would like to become one, asks for a vote.

    Attributes:
        cluster_id: The asker's, None if it has none.
        voter_id: Who is asked.
        voter_directory_id: The log folder of who is asked, as far as known (KIP-853).
        replica_epoch: In which the candidate wants to lead; with `pre_vote` its present epoch.
        replica_id: Who asks.
        replica_directory_id: Its log folder.
        last_offset_epoch: Of the last record in its log.
        last_offset: Its log end offset.
        pre_vote: Whether it only asks what would be answered (KIP-996).
    """

    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None
    replica_epoch: Epoch
    replica_id: int
    replica_directory_id: UUID | None
    last_offset_epoch: Epoch
    last_offset: int
    pre_vote: bool


class VoteResponse(Struct, frozen=True, kw_only=True):
    """A vote, or none.

    Attributes:
        error_code: Why the request was not looked at.
        leader_id: Whom the voter takes for the leader, or -1.
        leader_epoch: The voter's epoch.
        vote_granted: Whether it votes for the asker, or would.
    """

    error_code: ErrorCode
    leader_id: int
    leader_epoch: Epoch
    vote_granted: bool


class BeginQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A new leader makes itself known to who does not fetch from it yet."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None
    leader_id: int
    leader_epoch: Epoch


class BeginQuorumEpochResponse(Struct, frozen=True, kw_only=True):
    """What the voter takes for the leader and the epoch."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: Epoch


class EndQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A leader resigns, and names who should follow it.

    Attributes:
        cluster_id: The leader's.
        leader_id: Who resigns.
        leader_epoch: From which.
        preferred_candidates: Voters and their log folders, the longest log first.
    """

    cluster_id: str | None
    leader_id: int
    leader_epoch: Epoch
    preferred_candidates: tuple[tuple[int, UUID | None], ...]


class EndQuorumEpochResponse(Struct, frozen=True, kw_only=True):
    """What the voter takes for the leader and the epoch."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: Epoch


class FetchSnapshotRequest(Struct, frozen=True, kw_only=True):
    """A replica whose next record is no longer in the leader's log asks for a piece of a snapshot.

    Attributes:
        cluster_id: The replica's.
        replica_id: Who asks.
        replica_directory_id: Its log folder.
        max_bytes: How much it takes.
        current_leader_epoch: The replica's epoch.
        end_offset: Of the snapshot, which stands for all records below.
        epoch: Of the record before that.
        position: From which byte on.
    """

    cluster_id: str | None
    replica_id: int
    replica_directory_id: UUID | None
    max_bytes: int
    current_leader_epoch: Epoch
    end_offset: int
    epoch: Epoch
    position: int


class FetchSnapshotResponse(Struct, frozen=True, kw_only=True):
    """A piece of a snapshot.

    Attributes:
        error_code: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, or of epochs.
        end_offset: Of the snapshot.
        epoch: Of the snapshot.
        leader_id: Whom the answerer takes for the leader, or -1.
        leader_epoch: The answerer's.
        size: Of the whole file, in bytes.
        position: Of the first byte here.
        unaligned_records: Bytes of the file; they may begin and end within a batch.
    """

    error_code: ErrorCode
    end_offset: int
    epoch: Epoch
    leader_id: int
    leader_epoch: Epoch
    size: int
    position: int
    unaligned_records: bytes


class DescribeQuorumRequest(Struct, frozen=True, kw_only=True):
    """Ask the leader how far everybody has come (KIP-595, 836)."""


class ReplicaState(Struct, frozen=True, kw_only=True):
    """A member of the quorum, as its leader sees it.

    Attributes:
        replica_id: Its node id.
        replica_directory_id: Its log folder.
        log_end_offset: Where it fetched last; -1 if it did not.
        last_fetch_timestamp: In milliseconds of the leader's clock, or -1.
        last_caught_up_timestamp: When it last had everything, or -1.
    """

    replica_id: int
    replica_directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class DescribeQuorumResponse(Struct, frozen=True, kw_only=True):
    """The quorum, as its leader sees it; NOT_LEADER_OR_FOLLOWER from anybody else."""

    error_code: ErrorCode
    leader_id: int = -1
    leader_epoch: Epoch = -1
    high_watermark: int = -1
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()
