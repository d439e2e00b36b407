"""The end of a share group's run: a last member accepts the remaining records.

The group's coordinator reports the lag (KIP-1226): for each partition, how many records are not yet
accepted, rejected or given up. If the lag is 0, a record that was never delivered is lost.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.identities import groups
from results.record.plan import Plan
from results.record.runtime import Event
from results.record.terms import AssignmentKind, F, Outcome, Phase, ShareAct
from results.record.topics import CreatedTopic
from workloads.clients.settings import for_librdkafka
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
REST_S = 0.25
"""Pause in seconds after an error."""
MOST_ERRORS = 8
"""The maximum number of successive errors of a member. After that, a new member replaces it. When a
member is replaced, the group may lose a record."""


class Drain:
    """The last member of a share group, and its successors after errors.

    Args:
        member: Creates the consumer of a process.
        topics: The topics that the group reads.
        recorder: Gets the ops.
        clock: The run's clock.
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
        self._process, self._errors = FIRST_PROCESS, 0
        self._next_op_id = DRAIN_WORKER << WORKER_BITS

    def drain(
        self, is_done: Callable[[], bool], timeout_s: float, stop: Event | None = None
    ) -> bool:
        """Accept records until the group has finished all records; return whether it has.

        Args:
            is_done: A function, called every second, that returns whether the group has finished.
            timeout_s: The time limit.
            stop: An event that ends the draining early.
        """
        deadline_s, ask_at_s, done = stopwatch_s() + timeout_s, 0.0, False
        member, self._errors = self._joined(), 0
        try:
            while not done and (now_s := stopwatch_s()) < deadline_s:
                if self._errors > MOST_ERRORS:
                    member.close()
                    self._process += 1
                    member, self._errors = self._joined(), 0
                self._take(member)
                if now_s >= ask_at_s:
                    done, ask_at_s = is_done(), stopwatch_s() + _ASK_S
                self._recorder.flush()
                rest_s = REST_S if self._errors else 0.0
                if pause_until(min(deadline_s, stopwatch_s() + rest_s), stop):
                    break
        finally:
            member.close()
        return done

    def _take(self, member: Sharer) -> None:
        """Accept the records of one poll. After too many successive errors, the process ends."""
        asked_ns, op_id = self._clock.now_ns(), self._begin(F.POLL)
        batch = member.poll(POLL_LIMIT, _WAIT_S)
        self._recorder.delivered(
            op_id, batch, process=self._process, asked_ns=asked_ns, at_ns=self._clock.now_ns()
        )
        self._errors = self._errors + 1 if batch.error is not None else 0
        self._end(op_id, batch.error, last=self._errors > MOST_ERRORS)
        if batch.spans and self._errors <= MOST_ERRORS:
            self._accept(member, batch)

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

    def _accept(self, member: Sharer, batch: Batch) -> None:
        op_id = self._begin(F.ACKNOWLEDGE)
        settled = member.acknowledge(batch, [ShareAct.ACCEPT])
        self._recorder.settled(op_id, batch, settled, process=self._process)
        self._end(op_id, settled.error)

    def _begin(self, f: F) -> int:
        op_id = self._next_op_id
        self._next_op_id += 1
        self._recorder.invoked(
            op_id, process=self._process, f=f, phase=Phase.FINAL, at_ns=self._clock.now_ns()
        )
        return op_id

    def _end(self, op_id: int, error: str | None, *, last: bool = False) -> None:
        """Record an op's end. Only the last op of a process ends as `info`."""
        outcome = Outcome.INFO if last else Outcome.OK
        self._recorder.completed(op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error)


def drain_recorder(plan: Plan, topics: Sequence[CreatedTopic], live: Path) -> Recorder:
    """Return the recorder of the last member. Its streams are named `drain`."""
    streams = [*(each for each in STREAMS if each not in {"arrivals", "reservations"}), SHARED]
    return Recorder(
        live, WRITER, worker=DRAIN_WORKER, topics=topics, acks=plan.acks, streams=streams
    )


def last_member(plan: Plan, bootstrap: str, clock: RunClock) -> Callable[[int], Sharer]:
    """Return a function that creates a last member for a process number, with librdkafka."""
    (group,) = groups(plan)

    def member(process: int) -> Sharer:
        client = ShareConsumer(
            for_librdkafka(plan), bootstrap=bootstrap, client_id=f"process-{process}", group=group
        )
        return ShareMember(client, group=group, clock=clock)

    return member


def done_with(
    places: Collection[Key],
    ends: Mapping[Key, int],
    lags: Callable[[Collection[Key]], Mapping[Key, int]],
) -> Callable[[], bool]:
    """Return a function with which callers ask whether a group has finished all records.

    Args:
        places: All partitions that the group reads. If a partition's end is unknown, the group
            never counts as finished.
        ends: The end offset of each partition.
        lags: A function that returns the number of unfinished records of each partition, if known.
    """
    written = [place for place in places if ends.get(place) != 0]

    def is_done() -> bool:
        told = lags(written) if ends.keys() >= set(written) else {}
        return all(told.get(place) == 0 for place in written)

    return is_done
