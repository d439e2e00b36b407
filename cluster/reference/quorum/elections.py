"""Elections of the quorum: pre-votes, votes, and the begin and end of epochs.

KIP-595 defines which candidates may get a vote. By KIP-996, a node first asks whether it would win,
and only then raises the epoch. By KIP-853, votes name a log dir, so a voter that lost its disk
counts as another voter.
"""

from kio.schema.errors import ErrorCode

from cluster.reference.bugs import Bug
from cluster.reference.machine import Asker, Reply, SetTimer
from cluster.reference.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from cluster.reference.quorum.member import BEGIN, Asked, Member, kafka_uuid
from cluster.reference.quorum.state import FOLDER, Role
from cluster.reference.settings import NANOSECONDS_A_MS

_BASE_BACKOFF_MS = 100
_TOPIC = FOLDER.rpartition("-")[0]


class Elections:
    """Elects leaders and ends leaderships.

    Args:
        member: The member that takes part in the elections.
    """

    def __init__(self, member: Member) -> None:
        self._member = member

    def on_vote(self, asker: Asker, request: VoteRequest) -> None:
        """Answer a request for a vote. Before a vote is sent, it is made durable."""
        member = self._member
        error = self._refusal(request.cluster_id, request.replica_epoch)
        granted = False
        if error is ErrorCode.none:
            if request.replica_epoch > member.state.epoch:
                member.become_unattached(request.replica_epoch)
            if self._is_another_folder(request.voter_directory_id):
                error = ErrorCode.invalid_voter_key
            else:
                granted = self._may_grant(request)
        if granted and not request.pre_vote:
            self._vote_for(request)
        self._say_vote(request, granted=granted)
        response = VoteResponse(
            error_code=error,
            leader_id=member.known_leader,
            leader_epoch=member.state.epoch,
            vote_granted=granted,
        )
        member.out.append(Reply(asker=asker, message=response))

    def on_begin_epoch(self, asker: Asker, request: BeginQuorumEpochRequest) -> None:
        """Handle the announcement of a new leader."""
        error = self._refusal(request.cluster_id, request.leader_epoch)
        if error is ErrorCode.none and self._is_another_folder(request.voter_directory_id):
            error = ErrorCode.invalid_voter_key
        if error is ErrorCode.none and not self.learn(request.leader_id, request.leader_epoch):
            error = ErrorCode.invalid_request
        state = self._member.state
        response = BeginQuorumEpochResponse(
            error_code=error, leader_id=self._member.known_leader, leader_epoch=state.epoch
        )
        self._member.out.append(Reply(asker=asker, message=response))

    def on_end_epoch(self, asker: Asker, request: EndQuorumEpochRequest) -> None:
        """Handle a leader's resignation. The first preferred successor starts an election at once.

        The other voters first wait: the later a voter is in the list, the longer (KIP-595). They
        may now grant pre-votes, because there is no leader to protect (KIP-996).
        """
        member = self._member
        error = self._refusal(request.cluster_id, request.leader_epoch)
        if error is ErrorCode.none and not self.learn(request.leader_id, request.leader_epoch):
            error = ErrorCode.invalid_request
        response = EndQuorumEpochResponse(
            error_code=error, leader_id=member.known_leader, leader_epoch=member.state.epoch
        )
        member.out.append(Reply(asker=asker, message=response))
        if (
            error is ErrorCode.none
            and member.role is Role.FOLLOWER
            and member.state.leader == request.leader_id
        ):
            member.has_fetched = False
            self._stand_soon([each for each, _ in request.preferred_candidates])

    def on_timeout(self) -> None:
        """Handle the timeout of the present state."""
        member = self._member
        if member.closing:
            return
        match member.role:
            case Role.FOLLOWER if not member.is_voter:
                member.become_unattached(member.state.epoch)
            case Role.UNATTACHED | Role.FOLLOWER | Role.RESIGNED:
                self._stand()
            case Role.PROSPECTIVE:
                self._give_up()
            case Role.CANDIDATE:
                self._lose()
            case Role.LEADER:
                # KIP-595's check-quorum: a leader without a majority resigns.
                member.resign()
                self.ask_due()

    def on_answer(self, asked: Asked, response: object | None) -> None:
        """Handle the response to a vote request, or to a notice that an epoch begins or ends."""
        member = self._member
        if asked.epoch != member.state.epoch or not self._is_current(asked):
            if isinstance(response, VoteResponse):
                self.learn(response.leader_id, response.leader_epoch)
            return
        if response is None:
            self._ask_again(asked.to)
            return
        match response:
            case VoteResponse():
                self._count(asked.to, response)
            case BeginQuorumEpochResponse() if member.leading is not None:
                member.leading.begun.answered(asked.to)
                self._learn_newer(response.leader_id, response.leader_epoch)
            case EndQuorumEpochResponse():
                member.round.answered(asked.to)
                self._learn_newer(response.leader_id, response.leader_epoch)
            case _:
                pass

    def ask_due(self) -> None:
        """Send requests to the voters that were not asked yet, or that did not answer."""
        member = self._member
        round_ = member.leading.begun if member.leading else member.round
        if member.ballot is not None and member.ballot.lost:
            return
        for voter in round_.due():
            round_.asked(voter, member.ask(voter, self._question(voter)))

    def begin_again(self) -> None:
        """Announce the epoch to voters that have not fetched for half a fetch timeout (KIP-853)."""
        member = self._member
        if member.leading is None or not member.others:
            return
        half = member.settings.controller_quorum_fetch_timeout_ms * NANOSECONDS_A_MS // 2
        for voter in member.others:
            progress = member.leading.progress.get(voter)
            if progress is None or member.now - progress.fetched_at >= half:
                member.leading.begun.unanswered.setdefault(voter, None)
        member.out.append(SetTimer(timer=BEGIN, after_ns=half, at_most_ns=half))
        self.ask_due()

    def start(self) -> None:
        """Start with the content of the files. If this is the only voter, begin an election."""
        self._member.restore()
        self.ask_due()
        if self._member.voters == (self._member.node,):
            self._stand()

    def learn(self, leader: int, epoch: int) -> bool:
        """Record a leader and an epoch that another node reports.

        Returns:
            False if the report contradicts this member's knowledge of the same epoch.
        """
        member = self._member
        mine = member.state
        if epoch > mine.epoch:
            if leader < 0 or leader == member.node:
                member.become_unattached(epoch)
            else:
                member.become_follower(leader, epoch)
            return True
        if epoch < mine.epoch or leader in (-1, mine.leader, member.node):
            return True
        if mine.leader >= 0:
            member.say(
                f"Received request or response with leader {leader} and epoch {epoch} which is"
                f" inconsistent with current leader {mine.leader} and epoch {mine.epoch}"
                " (org.apache.kafka.raft.KafkaRaftClient)"
            )
            return False
        member.become_follower(leader, epoch)
        return True

    def _learn_newer(self, leader: int, epoch: int) -> None:
        if epoch > self._member.state.epoch:
            self.learn(leader, epoch)

    def _refusal(self, cluster_id: str | None, epoch: int) -> ErrorCode:
        member = self._member
        if cluster_id is not None and cluster_id != member.identity.cluster_id:
            return ErrorCode.inconsistent_cluster_id
        if epoch < member.state.epoch:
            return ErrorCode.fenced_leader_epoch
        if member.closing:
            return ErrorCode.broker_not_available
        return ErrorCode.none

    def _is_another_folder(self, directory: object) -> bool:
        """Return whether a request is for a log dir that this member does not have (KIP-853)."""
        mine = self._member.identity.directory
        return directory is not None and mine is not None and directory != mine

    def _may_grant(self, request: VoteRequest) -> bool:
        """Return whether to grant a vote (KIP-595), or a pre-vote (KIP-996)."""
        member = self._member
        theirs = (request.last_offset_epoch, request.last_offset)
        up_to_date = theirs >= (member.last_epoch, member.log.end_offset)
        if not member.is_voter or member.role is Role.LEADER:
            return False
        if request.pre_vote:
            # A member in contact with its leader does not help to replace the leader.
            return up_to_date and not (member.role is Role.FOLLOWER and member.has_fetched)
        if member.role not in (Role.UNATTACHED, Role.PROSPECTIVE):
            return False
        if member.state.voted >= 0:
            same = member.state.voted_directory in (None, request.replica_directory_id)
            return member.state.voted == request.replica_id and same
        return up_to_date and member.state.leader < 0

    def _vote_for(self, request: VoteRequest) -> None:
        """Vote once in an epoch. The vote is durable before the response is sent (KIP-595)."""
        member = self._member
        if member.state.voted == request.replica_id:
            return
        before = member.described()
        member.state = member.state.voting_for(request.replica_id, request.replica_directory_id)
        if Bug.VOTE_NOT_PERSISTED not in member.settings.bugs:
            member.persist()
        member.say_transition(before)
        if member.role is Role.UNATTACHED:
            member.set_election_timeout()

    def _stand(self) -> None:
        self._member.become_prospective()
        self._tally()
        self.ask_due()

    def _count(self, voter: int, response: VoteResponse) -> None:
        member = self._member
        before = member.state, member.role
        self.learn(response.leader_id, response.leader_epoch)
        if (member.state, member.role) != before or member.ballot is None:
            return
        if response.error_code is ErrorCode.broker_not_available:
            self._ask_again(voter)  # The node is ending, so this is not a refusal.
            return
        member.round.answered(voter)
        if response.leader_epoch == member.state.epoch:
            granted = response.vote_granted and response.error_code is ErrorCode.none
            member.ballot.record(voter, granted=granted)
        self._tally()

    def _tally(self) -> None:
        """Check whether an election is decided."""
        member, ballot = self._member, self._member.ballot
        if ballot is None or ballot.lost:
            return
        voters = len(member.voters)
        if ballot.is_won(voters) and member.role is Role.PROSPECTIVE:
            member.become_candidate()
            self._tally()
            self.ask_due()
        elif ballot.is_won(voters):
            member.become_leader(ballot.granted)
            self.begin_again()
        elif ballot.is_lost(voters):
            if member.role is Role.PROSPECTIVE:
                self._give_up()
            else:
                self._lose()

    def _give_up(self) -> None:
        """Give up after a pre-vote, because too few voters would grant a vote.

        If the member knows a leader, it follows this leader again: the leader may still lead.
        """
        member = self._member
        if member.state.leader >= 0:
            member.become_follower(member.state.leader, member.state.epoch)
        else:
            member.become_unattached(member.state.epoch)

    def _lose(self) -> None:
        """After a lost election, wait for a random time, then try again.

        With each loss, the limit of this random time grows.
        """
        member = self._member
        assert member.ballot is not None
        if member.ballot.lost:
            self._stand()
            return
        member.ballot.lost = True
        member.lost_elections += 1
        most = member.settings.controller_quorum_election_backoff_max_ms
        grown = _BASE_BACKOFF_MS << min(member.lost_elections, most.bit_length())
        member.set_timeout(0, min(grown, most))

    def _is_current(self, asked: Asked) -> bool:
        """Return whether a response belongs to a request that was sent in the present state."""
        member = self._member
        match asked.message:
            case VoteRequest(pre_vote=pre_vote):
                wanted = Role.PROSPECTIVE if pre_vote else Role.CANDIDATE
                return member.role is wanted
            case BeginQuorumEpochRequest():
                return member.role is Role.LEADER
            case _:
                return member.role is Role.RESIGNED

    def _stand_soon(self, successors: list[int]) -> None:
        member = self._member
        most = member.settings.controller_quorum_election_backoff_max_ms
        if not successors:  # A restarted leader does not know which voters were up to date.
            member.set_timeout(0, most)
            return
        place = successors.index(member.node) if member.node in successors else len(successors)
        # The first successor waits until the others know of the resignation, too. They grant no
        # pre-vote as long as they have a leader.
        soon = member.settings.controller_quorum_retry_backoff_ms
        wait = most >> (len(successors) - place) if place else soon
        member.set_timeout(wait, wait)

    def _ask_again(self, voter: int) -> None:
        member = self._member
        (member.leading.begun if member.leading else member.round).failed(voter)
        member.retry_later()

    def _question(self, voter: int) -> object:
        member = self._member
        if member.role is Role.LEADER:
            return BeginQuorumEpochRequest(
                cluster_id=member.identity.cluster_id,
                voter_id=voter,
                voter_directory_id=None,
                leader_id=member.node,
                leader_epoch=member.state.epoch,
            )
        if member.role is Role.RESIGNED:
            return EndQuorumEpochRequest(
                cluster_id=member.identity.cluster_id,
                leader_id=member.node,
                leader_epoch=member.state.epoch,
                preferred_candidates=tuple((each, None) for each in member.successors),
            )
        return VoteRequest(
            cluster_id=member.identity.cluster_id,
            voter_id=voter,
            voter_directory_id=None,
            replica_epoch=member.state.epoch,
            replica_id=member.node,
            replica_directory_id=member.identity.directory,
            last_offset_epoch=member.last_epoch,
            last_offset=member.log.end_offset,
            pre_vote=member.role is Role.PROSPECTIVE,
        )

    def _say_vote(self, request: VoteRequest, *, granted: bool) -> None:
        answer = "granted" if granted else "rejected"
        self._member.say(
            f"Vote request VoteRequestData(clusterId='{request.cluster_id}',"
            f" voterId={request.voter_id}, topics=[TopicData(topicName='{_TOPIC}',"
            f" partitions=[PartitionData(partitionIndex=0, replicaEpoch={request.replica_epoch},"
            f" replicaId={request.replica_id},"
            f" replicaDirectoryId={kafka_uuid(request.replica_directory_id)},"
            f" voterDirectoryId={kafka_uuid(request.voter_directory_id)},"
            f" lastOffsetEpoch={request.last_offset_epoch}, lastOffset={request.last_offset},"
            f" preVote={str(request.pre_vote).lower()})])]) with epoch {request.replica_epoch} is"
            f" {answer} (org.apache.kafka.raft.KafkaRaftClient)"
        )
