"""The observer's repeated requests to a separate controller, about the leader that it knows."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.fetch.v13.response import FetchResponse

from cluster.kafka import questions, rows
from cluster.kafka.broker_rounds import QUORUM_EVERY
from cluster.kafka.lines import dialogue_with
from cluster.kafka.observed import Observed
from cluster.kafka.questioner import Questioner
from cluster.kafka.rows import QuorumState, RowMaker
from cluster.kafka.watching import Write
from cluster.kafka.wire import WireError
from results.record.clock import RunClock
from results.record.nodes import node_id

log = logging.getLogger(__name__)


class ControllerRounds:
    """The observer's requests to one separate controller; implements `Rounds`.

    In every round the controller reports which leader it knows. That leader then reports the log
    end offset and the high watermark of the controller.

    Args:
        node: The controller's name.
        cluster: The controller's cluster.
        clock: The run's clock.
    """

    tables: Sequence[str] = ("quorum_states",)

    def __init__(self, node: str, cluster: Observed, *, clock: RunClock) -> None:
        self._node = node
        self._answers = cluster.answers
        self._maker = RowMaker(node, {})
        self._questioner = Questioner(node, cluster.incarnation, clock=clock)
        self._own = dialogue_with(node, cluster.endpoints[node])
        self._all = {
            node_id(each): (each, dialogue_with(each, cluster.endpoints[each]))
            for each in cluster.controllers
        }
        self._told: QuorumState | None = None
        self._turn = 0

    def look(self, snapshot: str | None, write: Write) -> None:
        """Ask the controller which leader it knows, and write a row; see `Rounds`.

        In every fourth round, or for a snapshot, this leader is asked for the log ends, too.
        """
        with_leader = self._turn % QUORUM_EVERY == 0 or snapshot is not None
        self._turn += 1
        answer, at = self._questioner.ask(
            self._own, questions.quorum_belief(), FetchResponse, snapshot=snapshot
        )
        believed = rows.quorum_belief(answer, self._node)
        if believed is None:
            return
        if with_leader:
            self._ask_leader(believed.leader)
        told = self._told
        if told and (told.leader, told.epoch) == (believed.leader, believed.epoch):
            believed = replace(
                believed, high_watermark=told.high_watermark, log_end_offset=told.log_end_offset
            )
        write("quorum_states", [self._maker.quorum(believed, at)])

    def close(self) -> None:
        """Close all connections."""
        self._own.close()
        for _node, dialogue in self._all.values():
            dialogue.close()

    def _ask_leader(self, leader: int) -> None:
        node, dialogue = self._all.get(leader, (self._node, self._own))
        self._told = None
        if not self._answers(node):
            return
        try:
            answer, _at = self._questioner.ask(
                dialogue, questions.quorum(), DescribeQuorumResponse, snapshot=None
            )
        except WireError as silent:
            log.debug("%s", silent)
            return
        self._told = rows.quorum_state(answer, self._node)
