"""Copy the leader's log: fetches, truncation where the logs diverge, and snapshots.

Records are flushed before the next fetch: by its offset, that fetch reports to the leader that
these records are stored.
"""

from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from cluster.files.metadata import METADATA_TOPIC
from cluster.reference.log.batches import BadBatchError
from cluster.reference.log.log import MisplacedBatchError
from cluster.reference.machine import Effect, RemoveFile, WriteFile
from cluster.reference.messages.data import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from cluster.reference.messages.quorum import FetchSnapshotRequest, FetchSnapshotResponse
from cluster.reference.quorum.elections import Elections
from cluster.reference.quorum.member import Member, Snapshot
from cluster.reference.quorum.state import FOLDER, Role

_MAX_WAIT_MS = 500
_MAX_BYTES = 8 << 20


@dataclass(slots=True)
class _Download:
    """A snapshot that this member is fetching from the leader."""

    end_offset: int
    epoch: int
    leader_epoch: int
    data: bytearray = field(default_factory=bytearray)


class Following:
    """Sends fetches whenever there is a node that this member can fetch from.

    Args:
        member: The member that fetches.
        elections: Records the leaders and epochs in responses.
    """

    def __init__(self, member: Member, elections: Elections) -> None:
        self._member = member
        self._elections = elections
        self._download: _Download | None = None
        self._next_voter = 0
        self.loaded: Snapshot | None = None
        """A fetched snapshot that the node has not read yet."""

    def fetch(self) -> None:
        """Send a fetch if one is needed and none is open."""
        member = self._member
        if member.fetch is not None or member.retrying or member.closing:
            return
        if member.role is Role.FOLLOWER:
            member.fetch = member.ask(member.state.leader, self._request())
        elif member.role is Role.UNATTACHED and member.others:
            # Any voter can name the leader, so ask the voters in turn.
            target = member.others[self._next_voter % len(member.others)]
            self._next_voter += 1
            member.fetch = member.ask(target, self._fetch_request())

    def on_answer(self, response: object | None) -> None:
        """Handle the response to the open fetch."""
        self._member.fetch = None
        match response:
            case FetchResponse():
                self._on_records(response)
            case FetchSnapshotResponse():
                self._on_piece(response)
            case _:
                self._member.retry_later()

    def _request(self) -> object:
        member, download = self._member, self._download
        if download is None or download.leader_epoch != member.state.epoch:
            self._download = None
            return self._fetch_request()
        return FetchSnapshotRequest(
            cluster_id=member.identity.cluster_id,
            replica_id=member.node,
            replica_directory_id=member.identity.directory,
            max_bytes=_MAX_BYTES,
            current_leader_epoch=member.state.epoch,
            end_offset=download.end_offset,
            epoch=download.epoch,
            position=len(download.data),
        )

    def _fetch_request(self) -> FetchRequest:
        member = self._member
        wanted = FetchPartition(
            topic=METADATA_TOPIC,
            partition=0,
            fetch_offset=member.log.end_offset,
            partition_max_bytes=_MAX_BYTES,
            current_leader_epoch=member.state.epoch,
            last_fetched_epoch=member.last_epoch,
            log_start_offset=member.log.start_offset,
        )
        return FetchRequest(
            partitions=(wanted,),
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=0,
            max_bytes=_MAX_BYTES,
            replica_id=member.node,
            cluster_id=member.identity.cluster_id,
        )

    def _on_records(self, response: FetchResponse) -> None:
        member = self._member
        if not response.partitions:
            member.retry_later()
            return
        answer = response.partitions[0]
        if self._changes_leader(answer.current_leader, answer.current_leader_epoch):
            return
        if answer.error_code is not ErrorCode.none or member.role is not Role.FOLLOWER:
            member.retry_later()
            return
        self._heard()
        if answer.diverging_epoch >= 0:
            self._truncate(answer)
        elif answer.snapshot_end_offset >= 0:
            self._download = _Download(
                answer.snapshot_end_offset, answer.snapshot_epoch, member.state.epoch
            )
        elif self._append(answer.records):
            member.raise_high_watermark(answer.high_watermark)

    def _changes_leader(self, leader: int, epoch: int) -> bool:
        """Record the leader and epoch of a response; return whether that changed anything."""
        member = self._member
        before = member.state, member.role
        possible = self._elections.learn(leader, epoch)
        if not possible:
            member.retry_later()
        return not possible or (member.state, member.role) != before

    def _heard(self) -> None:
        member = self._member
        member.has_fetched = True
        member.failures = 0
        member.set_fetch_timeout()

    def _append(self, records: bytes) -> bool:
        member = self._member
        if not records:
            return True
        try:
            member.log.append_as_follower(records, out=member.out)
        except (BadBatchError, MisplacedBatchError) as wrong:
            member.say(f"A fetch from leader {member.state.leader} cannot be appended: {wrong}")
            member.retry_later()
            return False
        member.log.flush(member.out)
        return True

    def _truncate(self, answer: FetchedPartition) -> None:
        """Truncate the log to where it diverges from the leader's (KIP-595, with KIP-279's rule).

        The response names the leader's largest epoch that is not above this log's last epoch, and
        where this epoch ends in the leader's log. If this log has the epoch, too, the logs agree up
        to the smaller of the two ends. If not, the next fetch names an earlier epoch, which the
        logs may share.
        """
        member = self._member
        known, end = member.log.end_of(answer.diverging_epoch)
        offset = min(end, answer.diverging_end_offset) if known == answer.diverging_epoch else end
        offset = max(offset, 0)
        if offset < member.high_watermark:
            member.say(
                f"Cannot truncate to offset {offset} below the high watermark"
                f" {member.high_watermark} as leader {member.state.leader} told"
                " (org.apache.kafka.raft.KafkaRaftClient)"
            )
            member.retry_later()
            return
        member.log.truncate(offset, out=member.out)
        member.log.flush(member.out)
        member.say(
            f"Truncated to offset {member.log.end_offset} from Fetch response from leader"
            f" {member.state.leader} (org.apache.kafka.raft.KafkaRaftClient)"
        )

    def _on_piece(self, response: FetchSnapshotResponse) -> None:
        member, download = self._member, self._download
        if self._changes_leader(response.leader_id, response.leader_epoch) or download is None:
            return
        wrong_place = response.position != len(download.data)
        if response.error_code is not ErrorCode.none or wrong_place:
            self._download = None  # The next fetch may name another snapshot.
            member.retry_later()
            return
        self._heard()
        download.data += response.unaligned_records
        if len(download.data) >= response.size:
            self._install(download)

    def _install(self, download: _Download) -> None:
        """Store a fetched snapshot. It replaces the whole log (KIP-630)."""
        member = self._member
        self._download = None
        snapshot = Snapshot(
            end_offset=download.end_offset, epoch=download.epoch, data=bytes(download.data)
        )
        written, *removed = replaced(member.snapshot, snapshot)
        member.out.append(written)
        member.log.restart_at(snapshot.end_offset, out=member.out)
        member.log.begin_epoch(snapshot.epoch, out=member.out)
        member.out += removed
        member.snapshot = self.loaded = snapshot
        member.raise_high_watermark(snapshot.end_offset)


def replaced(before: Snapshot | None, snapshot: Snapshot) -> list[Effect]:
    """Return the effects that replace an older snapshot. The new snapshot is written first."""
    path = snapshot_path(snapshot)
    effects: list[Effect] = [WriteFile(path=path, data=snapshot.data)]
    if before is not None and snapshot_path(before) != path:
        effects.append(RemoveFile(path=snapshot_path(before)))
    return effects


def snapshot_path(snapshot: Snapshot) -> str:
    """Return the path of a snapshot in the log dir."""
    return f"{FOLDER}/{snapshot.end_offset:020}-{snapshot.epoch:010}.checkpoint"
