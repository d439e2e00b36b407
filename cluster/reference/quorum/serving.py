"""The responses of the quorum's leader: records, snapshots, and the progress of all members.

A fetch does three things at once: it is a heartbeat, it reports what the replica has stored, and it
asks for more. If the logs diverge, the response reports where they diverge (KIP-595). If the
leader's log no longer has the requested records, the response names a snapshot (KIP-630).
"""

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Asker, CancelTimer, Reply, SetTimer
from cluster.reference.messages.data import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from cluster.reference.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaState,
)
from cluster.reference.quorum.leading import Leading, ParkedFetch, Progress
from cluster.reference.quorum.member import PARKED, Member
from cluster.reference.quorum.state import Role
from cluster.reference.settings import NANOSECONDS_A_MS

_MAX_WAIT_MS = 500


class Serving:
    """Handles fetches, and questions about the quorum.

    Args:
        member: The member that answers.
    """

    def __init__(self, member: Member) -> None:
        self._member = member

    def on_fetch(self, asker: Asker, request: FetchRequest) -> None:
        """Answer a fetch, or let it wait."""
        member, wanted = self._member, request.partitions[0]
        error = self._refusal(request.cluster_id, wanted.current_leader_epoch)
        leading = member.leading
        if error is not ErrorCode.none or leading is None:
            self._reply(asker, self._answer(wanted, error=error))
            return
        if request.replica_id >= 0:
            leading.note_connection(request.replica_id, asker.connection)
            if leading.has_majority(request.replica_id):
                member.set_check_timeout()
        answer = self._departure(wanted)
        if answer is not None:
            self._reply(asker, answer)
            return
        if request.replica_id >= 0:
            self._note_stored(leading, request.replica_id, wanted.fetch_offset)
        wait = min(request.max_wait_ms, _MAX_WAIT_MS) * NANOSECONDS_A_MS
        fetch = ParkedFetch(
            asker=asker,
            replica=request.replica_id,
            partition=wanted,
            deadline=member.now + wait,
        )
        if not self._answered(leading, fetch, at_once=wait <= 0):
            leading.parked.append(fetch)
            self._wake_up_in_time(leading)

    def on_timer(self) -> None:
        """Answer the fetches that have waited long enough."""
        leading = self._member.leading
        if leading is not None:
            self.resolve(leading, now=self._member.now)

    def resolve(self, leading: Leading, *, now: int = -1) -> None:
        """Answer the waiting fetches for which there are new data, or whose time is over."""
        if not leading.parked:
            return
        leading.parked = [
            each
            for each in leading.parked
            if not self._answered(leading, each, at_once=each.deadline <= now)
        ]
        self._wake_up_in_time(leading)

    def release(self) -> None:
        """Answer the waiting fetches of a member that no longer leads."""
        member = self._member
        for each in member.abandoned:
            answer = self._answer(each.partition, error=ErrorCode.not_leader_or_follower)
            self._reply(each.asker, answer)
        member.abandoned = []

    def on_fetch_snapshot(self, asker: Asker, request: FetchSnapshotRequest) -> None:
        """Send a piece of the latest snapshot (KIP-630)."""
        member, snapshot = self._member, self._member.snapshot
        error = self._refusal(request.cluster_id, request.current_leader_epoch)
        data, size = b"", 0
        if error is ErrorCode.none and member.leading is not None:
            if member.leading.has_majority(request.replica_id):
                member.set_check_timeout()  # Fetching a snapshot counts, too.
            wanted = request.end_offset, request.epoch
            if snapshot is None or wanted != (snapshot.end_offset, snapshot.epoch):
                error = ErrorCode.snapshot_not_found
            elif not 0 <= request.position < len(snapshot.data):
                error = ErrorCode.position_out_of_range
            else:
                size = len(snapshot.data)
                end = request.position + max(request.max_bytes, 1)
                data = snapshot.data[request.position : end]
        response = FetchSnapshotResponse(
            error_code=error,
            end_offset=request.end_offset,
            epoch=request.epoch,
            leader_id=member.known_leader,
            leader_epoch=member.state.epoch,
            size=size,
            position=request.position,
            unaligned_records=data,
        )
        member.out.append(Reply(asker=asker, message=response))

    def on_describe(self, asker: Asker, _request: DescribeQuorumRequest) -> None:
        """Answer with the progress of all members; only the leader can (KIP-595, KIP-836)."""
        member, leading = self._member, self._member.leading
        if leading is None:
            response = DescribeQuorumResponse(error_code=ErrorCode.not_leader_or_follower)
        else:
            observers = [each for each in leading.progress if each not in member.voters]
            response = DescribeQuorumResponse(
                error_code=ErrorCode.none,
                leader_id=member.node,
                leader_epoch=member.state.epoch,
                high_watermark=leading.high_watermark,
                current_voters=tuple(self._state(leading, each) for each in member.voters),
                observers=tuple(self._state(leading, each) for each in sorted(observers)),
            )
        member.out.append(Reply(asker=asker, message=response))

    def advance(self) -> None:
        """Commit the records that a majority has stored. Answer fetches that wait for new data."""
        member, leading = self._member, self._member.leading
        if leading is not None:
            if leading.advance(member.log.end_offset):
                member.raise_high_watermark(leading.high_watermark)
            self.resolve(leading)

    def _refusal(self, cluster_id: str | None, epoch: int) -> ErrorCode:
        member = self._member
        if cluster_id is not None and cluster_id != member.identity.cluster_id:
            return ErrorCode.inconsistent_cluster_id
        if 0 <= epoch < member.state.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > member.state.epoch:
            return ErrorCode.unknown_leader_epoch
        if member.role is not Role.LEADER:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.none

    def _departure(self, wanted: FetchPartition) -> FetchedPartition | None:
        """Return a response that makes a replica truncate (KIP-595) or load a snapshot (KIP-630).

        The result is None if the replica can read on.
        """
        log, snapshot = self._member.log, self._member.snapshot
        offset, epoch = wanted.fetch_offset, max(wanted.last_fetched_epoch, 0)
        if offset == 0 and log.start_offset == 0 and epoch == 0:
            return None
        if snapshot is not None and (offset < log.start_offset or self._predates(wanted)):
            return self._answer(
                wanted, snapshot_end_offset=snapshot.end_offset, snapshot_epoch=snapshot.epoch
            )
        known, end = log.end_of(epoch)
        if known == epoch and offset <= end:
            return None
        if known < 0:  # That epoch is newer than this log, so compare with this log's last epoch.
            known, end = log.end_of(log.last_epoch) if log.last_epoch >= 0 else (0, 0)
        return self._answer(wanted, diverging_epoch=known, diverging_end_offset=end)

    def _predates(self, wanted: FetchPartition) -> bool:
        """Return whether a replica's last epoch is older than the first epoch that this log knows.

        If the log begins at the end of the snapshot, it knows the snapshot's epoch. The result is
        False if the log begins at offset 0.
        """
        log, snapshot = self._member.log, self._member.snapshot
        first = log.epochs.lines[0].epoch if log.epochs.lines else 0
        if snapshot is not None and snapshot.end_offset == log.start_offset:
            first = snapshot.epoch
        return log.start_offset > 0 and max(wanted.last_fetched_epoch, 0) < first

    def _note_stored(self, leading: Leading, replica: int, offset: int) -> None:
        member = self._member
        leading.note_fetch(replica, offset, end=member.log.end_offset, now=member.now)
        if leading.advance(member.log.end_offset):
            member.raise_high_watermark(leading.high_watermark)
            self.resolve(leading)

    def _answered(self, leading: Leading, fetch: ParkedFetch, *, at_once: bool) -> bool:
        """Answer a fetch if there are records or a new high watermark, or if the wait is over.

        A new high watermark is enough to answer (KIP-1166). So followers can apply committed
        records one round trip later, without waiting for the next record.
        """
        member = self._member
        behind = fetch.partition.fetch_offset < member.log.end_offset
        progress = leading.progress.get(fetch.replica) or Progress()
        told = progress.told >= leading.high_watermark or fetch.replica < 0
        if not behind and told and not at_once:
            return False
        records = b""
        if behind:
            most = fetch.partition.partition_max_bytes
            records = member.log.read(
                fetch.partition.fetch_offset, max_bytes=most, at_least_one=True
            )
        progress.told = leading.high_watermark
        self._reply(fetch.asker, self._answer(fetch.partition, records=records))
        return True

    def _wake_up_in_time(self, leading: Leading) -> None:
        if not leading.parked:
            self._member.out.append(CancelTimer(timer=PARKED))
            return
        after = max(min(each.deadline for each in leading.parked) - self._member.now, 0)
        self._member.out.append(SetTimer(timer=PARKED, after_ns=after, at_most_ns=after))

    def _answer(
        self,
        wanted: FetchPartition,
        *,
        error: ErrorCode = ErrorCode.none,
        records: bytes = b"",
        diverging_epoch: int = -1,
        diverging_end_offset: int = -1,
        snapshot_end_offset: int = -1,
        snapshot_epoch: int = -1,
    ) -> FetchedPartition:
        member = self._member
        return FetchedPartition(
            topic=wanted.topic,
            partition=wanted.partition,
            topic_id=wanted.topic_id,
            error_code=error,
            high_watermark=member.leading.high_watermark if member.leading else -1,
            log_start_offset=member.log.start_offset,
            records=records,
            diverging_epoch=diverging_epoch,
            diverging_end_offset=diverging_end_offset,
            current_leader=member.known_leader,
            current_leader_epoch=member.state.epoch,
            snapshot_end_offset=snapshot_end_offset,
            snapshot_epoch=snapshot_epoch,
        )

    def _reply(self, asker: Asker, answer: FetchedPartition) -> None:
        error = answer.error_code
        above = error if error is ErrorCode.inconsistent_cluster_id else ErrorCode.none
        response = FetchResponse(partitions=(answer,), error_code=above)
        self._member.out.append(Reply(asker=asker, message=response))

    def _state(self, leading: Leading, replica: int) -> ReplicaState:
        member = self._member
        if replica == member.node:
            now = member.time_ms
            return ReplicaState(
                replica_id=replica,
                replica_directory_id=member.identity.directory,
                log_end_offset=member.log.end_offset,
                last_fetch_timestamp=now,
                last_caught_up_timestamp=now,
            )
        known = leading.progress.get(replica) or Progress()
        return ReplicaState(
            replica_id=replica,
            replica_directory_id=None,
            log_end_offset=known.end_offset,
            last_fetch_timestamp=_ms(known.fetched_at),
            last_caught_up_timestamp=_ms(known.caught_up_at),
        )


def _ms(time_ns: int) -> int:
    return time_ns if time_ns < 0 else time_ns // NANOSECONDS_A_MS
