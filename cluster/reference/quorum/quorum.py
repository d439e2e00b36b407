"""The quorum as a part of a node: events come in, effects and committed batches go out.

Every voter has this part. A broker that is not a voter also has it, as an observer.
"""

from collections.abc import Iterator, Mapping, Sequence

from cluster.reference.log.batches import Batch
from cluster.reference.log.log import Log
from cluster.reference.machine import (
    Answered,
    Arrived,
    Effect,
    Event,
    Fired,
    Hung,
    Nanoseconds,
)
from cluster.reference.messages.data import FetchRequest
from cluster.reference.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from cluster.reference.quorum.elections import Elections
from cluster.reference.quorum.following import Following, replaced
from cluster.reference.quorum.member import (
    BEGIN,
    PARKED,
    RETRY,
    TIMEOUT,
    Identity,
    Member,
    Snapshot,
)
from cluster.reference.quorum.records import metadata_batch
from cluster.reference.quorum.serving import Serving
from cluster.reference.quorum.state import FOLDER, ElectionState, Role
from cluster.reference.settings import Settings

QUORUM_REQUESTS = (
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    DescribeQuorumRequest,
)
"""The types of requests that the quorum handles, besides fetches of the metadata log."""


class Quorum:
    """A member of the quorum, or an observer.

    After each call, `committed` returns newly committed data. The quorum handles requests of the
    types in `QUORUM_REQUESTS`, and fetches of the metadata topic. The names of the quorum's timers
    begin with `quorum-`.

    Args:
        identity: The member's identity.
        settings: The node's settings.
        log: The log of `__cluster_metadata-0`, with the valid batches from the files.
        state: The content of `quorum-state` (`state.election_state`).
        snapshot: The latest valid snapshot among the files.
        numbers: The counter for request numbers, which all parts of a node share.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        settings: Settings,
        log: Log,
        state: ElectionState,
        snapshot: Snapshot | None,
        numbers: Iterator[int],
    ) -> None:
        self._member = Member(
            identity,
            settings=settings,
            log=log,
            state=state,
            snapshot=snapshot,
            numbers=numbers,
        )
        self._elections = Elections(self._member)
        self._serving = Serving(self._member)
        self._following = Following(self._member, self._elections)
        self._applied = 0
        self._unread: Snapshot | None = snapshot

    @property
    def role(self) -> Role:
        """The member's present role."""
        return self._member.role

    @property
    def epoch(self) -> int:
        """The quorum's epoch, as far as this member knows."""
        return self._member.state.epoch

    @property
    def leader(self) -> int:
        """The leader of the epoch; -1 if unknown or resigned."""
        return self._member.known_leader

    @property
    def state(self) -> ElectionState:
        """Epoch, leader and vote."""
        return self._member.state

    @property
    def log(self) -> Log:
        """The metadata log."""
        return self._member.log

    @property
    def high_watermark(self) -> int:
        """The offset before which all records are committed; -1: not known yet."""
        return self._member.high_watermark

    @property
    def may_write(self) -> bool:
        """Whether a majority has this leader's first record.

        Then the leader knows all committed records.
        """
        leading = self._member.leading
        return leading is not None and leading.high_watermark > leading.epoch_start

    @property
    def has_ended(self) -> bool:
        """Whether this member shuts down and no longer waits for a response from a voter."""
        return self._member.closing and not self._member.round.unanswered

    def start(self, now: Nanoseconds) -> Sequence[Effect]:
        """Start with the content of the files.

        If a crash interrupted the installation of a snapshot, the log may end before the snapshot's
        end, or in an earlier epoch. Then the log restarts at the snapshot's end. This empty log
        gets the snapshot's epoch, because voters compare the epochs of logs. A killed process may
        have left unflushed batches. They are flushed now, because the next fetch reports them as
        stored.
        """
        member = self._member
        member.begin(now)
        log, snapshot = member.log, member.snapshot
        if snapshot is not None and (log.last_epoch, log.end_offset) < (
            snapshot.epoch,
            snapshot.end_offset,
        ):
            log.restart_at(snapshot.end_offset, out=member.out)
            log.begin_epoch(snapshot.epoch, out=member.out)
        else:
            log.mend(member.out)
        log.flush(member.out)
        self._elections.start()
        return self._settled()

    def on(self, now: Nanoseconds, event: Event) -> Sequence[Effect]:
        """Handle an event for the quorum (`concerns`); return the effects."""
        self._member.begin(now)
        match event:
            case Arrived():
                self._on_request(event)
            case Answered(request=number, message=message):
                self._on_answer(number, message)
            case Fired(timer=timer):
                self._on_timer(timer)
            case Hung(connection=connection):
                if self._member.leading is not None:
                    self._member.leading.unpark(connection)
            case _:
                pass
        return self._settled()

    def owns(self, request: int) -> bool:
        """Return whether the quorum sent the request with this number."""
        return request in self._member.asked

    def append(self, now: Nanoseconds, values: Sequence[bytes]) -> tuple[int, Sequence[Effect]]:
        """Append metadata records as the leader. The records become valid when they are committed.

        Returns:
            The first record's offset, and the effects.
        """
        member = self._member
        assert member.leading is not None, "only the leader appends"
        member.begin(now)
        offset = member.log.end_offset
        batch = metadata_batch(
            values, base_offset=offset, epoch=member.state.epoch, time_ms=member.time_ms
        )
        member.log.append_as_leader(batch, epoch=member.state.epoch, out=member.out)
        member.log.flush(member.out)
        return offset, self._settled()

    def committed(self) -> tuple[Snapshot | None, list[Batch]]:
        """Return the snapshot and the batches that were committed since the last call.

        Returns:
            A snapshot that must be loaded first, or None; and, in order, the batches after it.
        """
        member = self._member
        snapshot = self._following.loaded or self._unread
        self._following.loaded = self._unread = None
        if snapshot is not None:
            self._applied = snapshot.end_offset
        if member.high_watermark <= self._applied:
            return snapshot, []
        end = member.high_watermark
        batches = [
            each
            for each in member.log.batches(self._applied)
            if self._applied <= each.base_offset and each.end_offset <= end
        ]
        if batches:
            self._applied = batches[-1].end_offset
        return snapshot, batches

    def keep_snapshot(self, data: bytes, *, end_offset: int, epoch: int) -> Sequence[Effect]:
        """Store a snapshot of all committed records before an offset (KIP-630).

        In memory, the log then begins where the previous snapshot ended. So if a replica lags only
        a little, it need not fetch a snapshot.
        """
        member, before = self._member, self._member.snapshot
        if before is not None:
            member.log.delete_before(before.end_offset)
        member.snapshot = Snapshot(end_offset=end_offset, epoch=epoch, data=data)
        return replaced(before, member.snapshot)

    def shut_down(self, now: Nanoseconds) -> Sequence[Effect]:
        """Shut down. A leader first resigns, so that its successor need not wait (KIP-595)."""
        self._member.begin(now)
        if self._member.leading is not None:
            self._member.resign()
            self._elections.ask_due()
        self._member.closing = True
        return self._settled()

    def resign(self, now: Nanoseconds) -> Sequence[Effect]:
        """Resign, because a committed record could not be replayed or written."""
        self._member.begin(now)
        if self._member.leading is not None:
            self._member.resign()
            self._elections.ask_due()
        return self._settled()

    def _on_request(self, event: Arrived) -> None:
        asker = event.asker
        match event.message:
            case FetchRequest() as request:
                self._serving.on_fetch(asker, request)
            case VoteRequest() as request:
                self._elections.on_vote(asker, request)
            case BeginQuorumEpochRequest() as request:
                self._elections.on_begin_epoch(asker, request)
            case EndQuorumEpochRequest() as request:
                self._elections.on_end_epoch(asker, request)
            case FetchSnapshotRequest() as request:
                self._serving.on_fetch_snapshot(asker, request)
            case DescribeQuorumRequest() as request:
                self._serving.on_describe(asker, request)
            case _:
                raise AssertionError(f"{event.message} is not a request for the quorum")

    def _on_answer(self, number: int, message: object | None) -> None:
        asked = self._member.asked.pop(number, None)
        if asked is None:
            return
        if number == self._member.fetch:
            self._following.on_answer(message)
        elif not isinstance(asked.message, FetchRequest | FetchSnapshotRequest):
            self._elections.on_answer(asked, message)

    def _on_timer(self, timer: str) -> None:
        match timer:
            case _ if timer == TIMEOUT:
                self._elections.on_timeout()
            case _ if timer == RETRY:
                self._member.retrying = False
                self._elections.ask_due()
            case _ if timer == PARKED:
                self._serving.on_timer()
            case _ if timer == BEGIN:
                self._elections.begin_again()
            case _:
                raise AssertionError(f"the quorum has no timer {timer}")

    def _settled(self) -> Sequence[Effect]:
        """After an event, take the steps that are now possible; return all effects."""
        self._serving.release()
        self._serving.advance()
        self._following.fetch()
        return self._member.out


def voters_of(text: str) -> Mapping[int, tuple[str, int]]:
    """Read `controller.quorum.voters`: `1@host:9093,2@host:9093`.

    Returns:
        The address of each voter by its id, in the order of ids.

    Raises:
        ValueError: A voter is not `ID@HOST:PORT`.
    """
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        node, _, place = each.partition("@")
        host, _, port = place.rpartition(":")
        if not (node.isdecimal() and host and port.isdecimal()):
            raise ValueError(
                f"controller.quorum.voters: {each!r} does not have the form ID@HOST:PORT"
            )
        found[int(node)] = (host, int(port))
    return dict(sorted(found.items()))


__all__ = ["FOLDER", "QUORUM_REQUESTS", "Quorum", "voters_of"]
