"""The end of a share group: a last member accepts what is left, until the group is done with all.

A group's coordinator tells how many records below the end of each partition are neither accepted,
rejected nor given up (KIP-1226). Only once there are none, what was never delivered is lost.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from results.record.clock import RunClock, stopwatch_s
from results.record.identities import groups
from results.record.plan import Plan
from results.record.terms import AssignmentKind, F, Outcome, Phase, ShareAct
from results.record.topics import CreatedTopic
from workloads.clients.sharer import ShareConsumer
from workloads.crew import WORKER_BITS
from workloads.protocol import Batch, Key, Sharer
from workloads.recorder import SHARED, STREAMS, Recorder
from workloads.sharer import ShareMember

DRAIN_WORKER = 1022
FIRST_PROCESS = 2_000_000
WRITER = "drain"
POLL_LIMIT = 100
_WAIT_S = 0.2
_ASK_S = 1.0

Lags = Callable[[str, Collection[Key]], Mapping[Key, int]]
"""Tells how many records of each partition a group is not done with, as far as is known."""


class Drain:
    """Takes what is left of a share group.

    Args:
        member: Makes the consumer of a process.
        topics: What the group reads.
        recorder: Gets the ops.
        clock: The run's.
    """

    def __init__(
        self,
        member: Callable[[int], Sharer],
        topics: Sequence[str],
        *,
        recorder: Recorder,
        clock: RunClock,
    ) -> None:
        self._made, self._topics = member, topics
        self._recorder, self._clock = recorder, clock
        self._process = FIRST_PROCESS
        self._next_op_id = DRAIN_WORKER << WORKER_BITS

    def drain(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        """Accept whatever comes, until the group is done with all; tell whether it came to that.

        Args:
            is_done: Is asked each second.
            timeout_s: The limit.
        """
        deadline_s, ask_at_s, done = stopwatch_s() + timeout_s, 0.0, False
        member = self._joined()
        while not done and (now_s := stopwatch_s()) < deadline_s:
            batch, error = self._taken(member)
            if error is not None:
                member.close()
                self._process += 1
                member = self._joined()
            elif batch.spans:
                self._accept(member, batch)
            if now_s >= ask_at_s:
                done, ask_at_s = is_done(), stopwatch_s() + _ASK_S
            self._recorder.flush()
        member.close()
        return done

    def _joined(self) -> Sharer:
        member = self._made(self._process)
        op_id = self._begin(F.SUBSCRIBE)
        error = member.subscribe(self._topics)
        self._recorder.assigned(
            op_id,
            process=self._process,
            at_ns=self._clock.now_ns(),
            starts=self._recorder.partitions_of(self._topics),
            kind=AssignmentKind.SUBSCRIBE,
        )
        self._end(op_id, error)
        return member

    def _taken(self, member: Sharer) -> tuple[Batch, str | None]:
        asked_ns, op_id = self._clock.now_ns(), self._begin(F.POLL)
        batch = member.poll(POLL_LIMIT, _WAIT_S)
        self._recorder.delivered(
            op_id, batch, process=self._process, asked_ns=asked_ns, at_ns=self._clock.now_ns()
        )
        self._end(op_id, batch.error)
        return batch, batch.error

    def _accept(self, member: Sharer, batch: Batch) -> None:
        op_id = self._begin(F.ACKNOWLEDGE)
        settled = member.acknowledge(batch, [ShareAct.ACCEPT])
        self._recorder.settled(op_id, batch, settled, process=self._process)
        self._end(op_id, None, told=settled.error)

    def _begin(self, f: F) -> int:
        op_id = self._next_op_id
        self._next_op_id += 1
        self._recorder.invoked(
            op_id, process=self._process, f=f, phase=Phase.FINAL, at_ns=self._clock.now_ns()
        )
        return op_id

    def _end(self, op_id: int, error: str | None, *, told: str | None = None) -> None:
        outcome = Outcome.OK if error is None else Outcome.INFO
        self._recorder.completed(
            op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error or told
        )


def drain_shares(
    plan: Plan,
    topics: Sequence[CreatedTopic],
    bootstrap: str,
    *,
    ends: Mapping[Key, int],
    lags: Lags,
    clock: RunClock,
    live: Path,
    timeout_s: float,
) -> bool:
    """Have a last member of the share group accept what is left; tell whether all is done.

    Args:
        plan: The run's.
        topics: As created.
        bootstrap: `host:port,...`.
        ends: Where each partition ends, by (topic, partition).
        lags: Asks the group's coordinator.
        clock: The run's.
        live: The folder of the live streams; the writer's name is `drain`.
        timeout_s: The limit.
    """
    (group,) = groups(plan)
    streams = [*(each for each in STREAMS if each not in {"arrivals", "reservations"}), SHARED]
    recorder = Recorder(
        live, WRITER, worker=DRAIN_WORKER, topics=topics, acks=plan.acks, streams=streams
    )

    def member(process: int) -> Sharer:
        client = ShareConsumer(
            plan, bootstrap=bootstrap, client_id=f"process-{process}", group=group
        )
        return ShareMember(client, group=group, clock=clock)

    written = [place for place, end in ends.items() if end > 0]

    def is_done() -> bool:
        told = lags(group, written)
        return all(told.get(place) == 0 for place in written)

    try:
        drain = Drain(member, plan.topic_names, recorder=recorder, clock=clock)
        return drain.drain(is_done, timeout_s)
    finally:
        recorder.close()
