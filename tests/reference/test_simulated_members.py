"""How a simulated group member goes on when answers come in an unusual order."""

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Request
from cluster.reference.messages.clients import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from harness.simulated.asking import MS, Questions
from harness.simulated.leaders import Leaders
from harness.simulated.membership import GroupSettings, Membership
from harness.simulated.wishes import Commit, Wish

SETTINGS = GroupSettings(
    group="g", client_id="c", session_ns=6000 * MS, heartbeat_ns=1000 * MS, poll_ns=30_000 * MS,
    assignors=("range",), incremental=False,
)  # fmt: skip
METADATA = MetadataResponse(
    brokers=(),
    cluster_id=None,
    controller_id=1,
    topics=(
        MetadataResponseTopic(
            name="t",
            partitions=(
                MetadataResponsePartition(
                    partition_index=0,
                    leader_id=1,
                    leader_epoch=0,
                    replica_nodes=(1,),
                    isr_nodes=(1,),
                ),
            ),
        ),
    ),
)
REFUSED = OffsetCommitResponse(
    topics=(
        OffsetCommitResponseTopic(
            name="t",
            partitions=(
                OffsetCommitResponsePartition(
                    partition_index=0, error_code=ErrorCode.not_coordinator
                ),
            ),
        ),
    )
)


def test_a_member_whose_coordinator_moved_while_it_joined_joins_the_next_one() -> None:
    questions, leaders = Questions(), Leaders(["t"], [1, 2])
    (asked,) = leaders.refreshed(0, questions)
    questions.answered(0, asked.number, METADATA)
    member = Membership(SETTINGS, leaders, questions)

    def work(now_ms: int) -> Request:
        (request,) = member.work(now_ms * MS)
        assert isinstance(request, Request)
        return request

    member.subscribe(["t"])
    questions.answered(0, work(0).number, FindCoordinatorResponse(node_id=1))
    join = work(1)
    assert isinstance(join.message, JoinGroupRequest)
    what = Commit(positions={("t", 0): 5}, metadata="", patience_ns=6000 * MS)
    member.want(Wish(what=what, ended=lambda _error, _answers: None))
    questions.answered(2 * MS, work(2).number, REFUSED)
    joined = JoinGroupResponse(generation_id=1, member_id="m", leader="x")
    questions.answered(3 * MS, join.number, joined)
    find = work(2000)
    assert isinstance(find.message, FindCoordinatorRequest)
    questions.answered(2001 * MS, find.number, FindCoordinatorResponse(node_id=2))
    messages = [each for each in member.work(20_000 * MS) if isinstance(each, Request)]
    joins = [(each.to, each.message.member_id) for each in messages
             if isinstance(each.message, JoinGroupRequest)]  # fmt: skip
    assert joins == [(2, "m")]
