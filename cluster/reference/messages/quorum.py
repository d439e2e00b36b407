"""The messages between members of the quorum (KIP-595, KIP-630, KIP-853, KIP-996).

Kafka's schemas nest each message in lists of topics and partitions. There is only one partition,
`__cluster_metadata-0`, so the nesting is left out here. The fetch messages are those of
`messages.data`.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

from cluster.reference.messages.data import Epoch


class VoteRequest(Struct, frozen=True, kw_only=True):
    """A request for a vote, by a candidate or by a node that may become one.

    Attributes:
        cluster_id: The asking node's cluster id; None if it has none.
        voter_id: The node that should vote.
        voter_directory_id: The id of that node's log dir; None if unknown (KIP-853).
        replica_epoch: The epoch in which the candidate wants to lead. If `pre_vote` is true, it is
            the asking node's present epoch.
        replica_id: The asking node.
        replica_directory_id: The id of the asking node's log dir.
        last_offset_epoch: The epoch of the last record in the asking node's log.
        last_offset: The asking node's log end offset.
        pre_vote: Whether this is a pre-vote. A pre-vote only asks how the voter would vote
            (KIP-996).
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
    """The response to `VoteRequest`: a vote, or a refusal.

    Attributes:
        error_code: The error if the request was invalid.
        leader_id: The leader that the voter knows, or -1.
        leader_epoch: The voter's epoch.
        vote_granted: Whether the voter votes, or would vote, for the asking node.
    """

    error_code: ErrorCode
    leader_id: int
    leader_epoch: Epoch
    vote_granted: bool


class BeginQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A new leader's announcement to the voters that do not yet fetch from this leader."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None
    leader_id: int
    leader_epoch: Epoch


class BeginQuorumEpochResponse(Struct, frozen=True, kw_only=True):
    """The response to `BeginQuorumEpochRequest`: the leader and the epoch that the voter knows."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: Epoch


class EndQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A leader announces that it resigns, and which successors it prefers.

    Attributes:
        cluster_id: The leader's cluster id.
        leader_id: The node that resigns.
        leader_epoch: The epoch that ends.
        preferred_candidates: Voters, and the ids of their log dirs. The voter with the longest log
            comes first.
    """

    cluster_id: str | None
    leader_id: int
    leader_epoch: Epoch
    preferred_candidates: tuple[tuple[int, UUID | None], ...]


class EndQuorumEpochResponse(Struct, frozen=True, kw_only=True):
    """The response to `EndQuorumEpochRequest`: the leader and the epoch that the voter knows."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: Epoch


class FetchSnapshotRequest(Struct, frozen=True, kw_only=True):
    """A request for a piece of a snapshot: the leader's log begins after the replica's log ends.

    Attributes:
        cluster_id: The replica's cluster id.
        replica_id: The asking replica.
        replica_directory_id: The id of its log dir.
        max_bytes: The most bytes to send.
        current_leader_epoch: The replica's epoch.
        end_offset: The snapshot's end offset. The snapshot replaces all records before this offset.
        epoch: The epoch of the record before the end offset.
        position: The first requested byte.
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
        error_code: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, or an error about epochs.
        end_offset: The snapshot's end offset.
        epoch: The snapshot's epoch.
        leader_id: The leader that the answering node knows, or -1.
        leader_epoch: The answering node's epoch.
        size: The size of the whole file in bytes.
        position: The position of this piece's first byte.
        unaligned_records: The piece's bytes. These bytes may begin and end inside a batch.
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
    """A request to the leader for the progress of all members (KIP-595, KIP-836)."""


class ReplicaState(Struct, frozen=True, kw_only=True):
    """The state of a member of the quorum, as the quorum's leader knows it.

    Attributes:
        replica_id: The member's node id.
        replica_directory_id: The id of its log dir.
        log_end_offset: The offset of the member's last fetch; -1 if there was none.
        last_fetch_timestamp: The time of the member's last fetch, in milliseconds of the leader's
            clock, or -1.
        last_caught_up_timestamp: The last time at which the member had all records, or -1.
    """

    replica_id: int
    replica_directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class DescribeQuorumResponse(Struct, frozen=True, kw_only=True):
    """The response to `DescribeQuorumRequest`: the quorum as its leader knows it.

    Other nodes answer NOT_LEADER_OR_FOLLOWER.
    """

    error_code: ErrorCode
    leader_id: int = -1
    leader_epoch: Epoch = -1
    high_watermark: int = -1
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()
