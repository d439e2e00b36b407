"""The logical processes of one worker. A process executes one op at a time and has no own thread.

When an op ends as `info`, the process ends, too. The thread of the op continues as the next process
(`process = thread + k * concurrency`), with a new consumer. All processes share a producer, but
each thread has its own transactional producer. Calls that wait for a broker run in separate tasks
(`aside.py`).
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from results.record.clock import NS_PER_S, RunClock
from results.record.runtime import start
from results.record.terms import AssignmentKind, F, Outcome, Phase, TransactionOutcome
from workloads.aside import Aside
from workloads.protocol import (
    Acknowledge,
    Assign,
    Batch,
    Commit,
    Crash,
    End,
    Generator,
    Key,
    Member,
    Observed,
    Op,
    Poll,
    Reader,
    Seek,
    Send,
    Sender,
    SendResult,
    Settled,
    Sharer,
    Sought,
    Subscribe,
    Transactor,
    Txn,
    TxnResult,
)
from workloads.recorder import Recorder

WORKER_BITS = 40
MEMBER_WAIT_S = 0.005
"""Seconds that a group member's poll waits for records. This avoids a busy loop."""
REST_NS = 250_000_000
"""The pause after a failed poll. Without the pause, an error that lasts would cause a new consumer
for each op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Creates the clients of a crew.

    Attributes:
        reader: Creates the consumer of a process.
        sender: Creates the shared producer. None if there are only transactions.
        transactor: Creates a thread's transactional producer. None without transactions.
    """

    reader: Callable[[int], Reader]
    sender: Callable[[], Sender] | None = None
    transactor: Callable[[int], Transactor] | None = None


@dataclass(slots=True, kw_only=True)
class _Thread:
    number: int
    process: int
    reader: Reader
    transactor: Transactor | None = None
    member: Member | None = None
    """The consumer of the process, if this consumer has joined a group."""
    assigned: bool = False
    rest_until_ns: int = 0
    starts: dict[Key, int | None] = field(default_factory=dict)
    """The offset of each partition in the process's manual assignment."""
    positions: dict[Key, int] = field(default_factory=dict)
    unhandled: Batch | None = None
    """The records that a group member has read, but has not yet acknowledged or handled in a
    transaction."""


class Crew:
    """The threads of a worker, and the ops that they have in flight.

    Args:
        threads: The threads' numbers, below the plan's concurrency.
        concurrency: The run's concurrency. The number of a thread's next process is higher by this.
        worker: The worker's number, which is also in the high bits of op ids.
        generator: The workload's generator.
        clients: Creates clients.
        recorder: Gets each invocation before its request is sent, and each completion.
        clock: The run's clock.
    """

    def __init__(
        self,
        threads: range,
        *,
        concurrency: int,
        worker: int,
        generator: Generator,
        clients: Clients,
        recorder: Recorder,
        clock: RunClock,
    ) -> None:
        self._concurrency = concurrency
        self._generator = generator
        self._clients = clients
        self._recorder = recorder
        self._clock = clock
        self._next_op_id = worker << WORKER_BITS
        self._sender = clients.sender() if clients.sender else None
        self._replaced: list[Sender] = []
        self._threads = [
            _Thread(
                number=number,
                process=number,
                reader=clients.reader(number),
                transactor=clients.transactor(number) if clients.transactor else None,
            )
            for number in threads
        ]
        self._free = deque(self._threads)
        self._resting: deque[_Thread] = deque()
        self._aside = Aside(len(threads))
        self._in_flight: Counter[Key] = Counter()
        self._transacting = 0
        self.in_flight = 0
        """Number of ops that have begun and not ended."""
        self.ops: Counter[tuple[F, Outcome]] = Counter()
        self.latencies_ns: list[int] = []
        """Latencies of successful sends and transactions. The worker takes them and empties the
        list."""
        self.taken: set[Key] = set()
        """The partitions in which a message was acknowledged since the set was last emptied."""
        self.read: set[tuple[str, Key]] = set()
        """(group, partition) for each partition that a member has read since the set was last
        emptied."""
        self.unended: set[str] = set()
        """The transactional ids whose last transaction has an unknown end, except after a crash on
        purpose."""

    @property
    def free(self) -> int:
        """Number of processes without an op in flight."""
        return len(self._free)

    def invoke(self, phase: Phase) -> bool:
        """Start the next op of the process that has been free longest.

        Returns:
            False for a poll that found nothing, otherwise True.
        """
        thread = self._free.popleft()
        op = self._generator.next_op(self._observed(thread, phase))
        op_id = self._next_op_id
        self._next_op_id += 1
        invoked_ns = self._clock.now_ns()
        self.in_flight += 1
        self._recorder.invoked(
            op_id, process=thread.process, f=_F[type(op)], phase=phase, at_ns=invoked_ns
        )
        return self._carry_out(thread, op_id, op, invoked_ns)

    def serve(self, timeout_s: float) -> None:
        """Wait for reports and results, at most until the timeout; replace a broken producer."""
        if self._sender is None:
            self._aside.serve(timeout_s)
        else:
            self._serve(self._sender, timeout_s)
            self._aside.serve(0)
        now_ns = self._clock.now_ns()
        while self._resting and self._resting[0].rest_until_ns <= now_ns:
            self._resting[0].rest_until_ns = 0
            self._free.append(self._resting.popleft())

    def end(self) -> None:
        """Record the requests of group members to which no response came."""
        for thread in self._threads:
            self._note_group_offsets(thread, self._next_op_id, last=True)

    def _serve(self, sender: Sender, timeout_s: float) -> None:
        sender.serve(timeout_s)
        for each in self._replaced:
            each.serve(0)
        self._replaced = [each for each in self._replaced if each.waiting()]
        if sender.fatal and self._clients.sender is not None:
            self._replaced.append(sender)
            self._sender = self._clients.sender()

    def _observed(self, thread: _Thread, phase: Phase) -> Observed:
        return Observed(
            now_ns=self._clock.now_ns(),
            phase=phase,
            thread=thread.number,
            assigned=thread.assigned,
            positions=thread.positions,
            in_flight=self._in_flight,
            transacting=self._transacting,
            unhandled=0 if thread.unhandled is None else len(thread.unhandled.offsets),
        )

    def _carry_out(self, thread: _Thread, op_id: int, op: Op, invoked_ns: int) -> bool:
        match op:
            case Send():
                self._send(thread, op_id, op, invoked_ns)
            case Txn():
                self._transact(thread, op_id, op, invoked_ns)
            case Poll():
                return self._poll(thread, op_id, op, invoked_ns)
            case Assign():
                self._assign(thread, op_id, op)
            case Subscribe():
                self._subscribe(thread, op_id, op)
            case Seek():
                self._seek(thread, op_id, op)
            case Acknowledge():
                self._acknowledge(thread, op_id, op)
            case Crash():
                why = "thrown away on purpose"
                self._end(thread, op_id, F.CRASH, Outcome.INFO, error=why, leave=op.leave)
        return True

    def _send(self, thread: _Thread, op_id: int, op: Send, invoked_ns: int) -> None:
        assert self._sender is not None, "only workloads with a shared producer use this method"
        if op.reserved is not None:
            self._recorder.reserve(op.reserved)
        self._recorder.sending(op_id, op)
        self._in_flight[op.key] += 1

        def done(result: SendResult) -> None:
            self._in_flight[op.key] -= 1
            self._recorder.sent(op_id, result)
            if result.outcomes is None or Outcome.OK in result.outcomes:
                self.taken.add(op.key)
            if result.outcomes is None:
                self.latencies_ns.append(self._clock.now_ns() - invoked_ns)
            self._end(thread, op_id, F.SEND, result.worst, error=result.error)

        self._sender.send(op, done)

    def _transact(self, thread: _Thread, op_id: int, op: Txn, invoked_ns: int) -> None:
        transactor = thread.transactor
        assert transactor is not None, "only workloads with transactions use this method"
        for send in op.sends:
            if send.reserved is not None:
                self._recorder.reserve(send.reserved)
        self._recorder.transacting(op_id, op, transactor.transactional_id)
        starts = dict(thread.positions)
        if op.handles and thread.unhandled is not None:
            self._recorder.transforming(op_id, op, thread.unhandled)
            starts, thread.unhandled = thread.unhandled.positions, None
        keys = [send.key for send in op.sends]
        self._in_flight.update(keys)
        self._transacting += 1

        def done(result: TxnResult) -> None:
            self._in_flight.subtract(keys)
            self._transacting -= 1
            self._recorder.transacted(op_id, op, transactor.transactional_id, result)
            self._note_end(op, transactor.transactional_id, result)
            if result.outcome is Outcome.OK:
                self.taken.update(keys)
                took_ns = self._clock.now_ns() - invoked_ns
                self.latencies_ns.append(took_ns - round(op.pause_s * NS_PER_S))
            self._settle(thread, result)
            self._end(thread, op_id, F.TXN, _outcome(op, result), error=result.error)

        work = partial(transactor.transact, op, thread.reader, starts)
        self._aside.do(work, done)

    def _note_end(self, op: Txn, transactional_id: str, result: TxnResult) -> None:
        if result.ended is not TransactionOutcome.UNKNOWN:
            self.unended.discard(transactional_id)
        elif op.end is not End.CRASH:
            self.unended.add(transactional_id)

    def _settle(self, thread: _Thread, result: TxnResult) -> None:
        """After a transaction, move a process's position forward; after an abort, move it back.

        The reads of an aborted transaction do not count. So the reader returns to the position
        before the transaction, as applications do that read, process and write in transactions.
        """
        if any(batch.error is not None for _, batch in result.batches):
            self._fail_to_read(thread)
        elif result.outcome is Outcome.FAIL and any(batch.spans for _, batch in result.batches):
            error = thread.reader.assign({**thread.starts, **thread.positions})
            # If the reader failed to go back, only a new recorded assignment defines its position.
            thread.assigned = error is None
        elif result.outcome is Outcome.OK:
            for _, batch in result.batches:
                thread.positions.update(batch.positions)

    def _poll(self, thread: _Thread, op_id: int, op: Poll, invoked_ns: int) -> bool:
        if thread.member is not None:
            # This poll may wait for the group's committed offsets, if the group assigns partitions.
            work = partial(_poll_and_commit, thread.member, op, op_id)
            self._aside.do(work, partial(self._polled, thread, op_id, invoked_ns))
            return True
        batch = thread.reader.poll(op.limit)
        self._polled(thread, op_id, invoked_ns, batch)
        return len(batch.offsets) > 0

    def _polled(self, thread: _Thread, op_id: int, invoked_ns: int, batch: Batch) -> None:
        if batch.delivery_counts is None:
            self._recorder.polled(op_id, batch)
        else:
            times = {"asked_ns": invoked_ns, "at_ns": self._clock.now_ns()}
            self._recorder.delivered(op_id, batch, process=thread.process, **times)
            thread.unhandled = batch if batch.spans else None
        if thread.member is not None:
            self.read.update((thread.member.group_id, key) for key, _ in batch.spans)
        for each in batch.rebalances:
            self._recorder.assigned(
                op_id,
                process=thread.process,
                at_ns=each.at_ns,
                starts=each.starts,
                kind=each.kind,
            )
        self._note_group_offsets(thread, op_id)
        thread.positions.update(batch.positions)
        error = batch.error
        if thread.member is not None and thread.transactor is not None and batch.spans:
            thread.unhandled = batch
            error = error or _taken_meanwhile(batch)
        outcome = Outcome.OK if error is None else Outcome.INFO
        if error is not None:
            self._fail_to_read(thread)
        self._end(thread, op_id, F.POLL, outcome, error=error or batch.commit_error)

    def _acknowledge(self, thread: _Thread, op_id: int, op: Acknowledge) -> None:
        sharer, held = cast("Sharer", thread.member), thread.unhandled
        assert held is not None, "only a process that holds records acknowledges records"
        thread.unhandled = None

        def done(settled: Settled) -> None:
            self._recorder.settled(op_id, held, settled, process=thread.process)
            # If a broker refuses or does not respond, the group delivers the record again.
            self._end(thread, op_id, F.ACKNOWLEDGE, Outcome.OK, error=settled.error)

        self._aside.do(partial(sharer.acknowledge, held, op.acts), done)

    def _note_group_offsets(self, thread: _Thread, op_id: int, *, last: bool = False) -> None:
        if thread.member is not None:
            told = thread.member.told(last=last)
            self._recorder.group_offsets(op_id, process=thread.process, offsets=told)

    def _fail_to_read(self, thread: _Thread) -> None:
        """Let a thread pause, and forget the thread's positions.

        Otherwise the next process would repeat the error, for example after a truncation of the
        log.
        """
        thread.positions.clear()
        thread.rest_until_ns = self._clock.now_ns() + REST_NS

    def _assign(self, thread: _Thread, op_id: int, op: Assign) -> None:
        error = thread.reader.assign(op.starts)
        self._recorder.assigned(
            op_id, process=thread.process, at_ns=self._clock.now_ns(), starts=op.starts
        )
        thread.starts = dict(op.starts)
        thread.positions = {key: offset for key, offset in op.starts.items() if offset is not None}
        self._attached(thread, op_id, F.ASSIGN, error)

    def _subscribe(self, thread: _Thread, op_id: int, op: Subscribe) -> None:
        thread.member = cast("Member", thread.reader)
        error = thread.member.subscribe(op.topics)
        self._recorder.assigned(
            op_id,
            process=thread.process,
            at_ns=self._clock.now_ns(),
            starts=self._recorder.partitions_of(op.topics),
            kind=AssignmentKind.SUBSCRIBE,
        )
        thread.positions.clear()
        self._attached(thread, op_id, F.SUBSCRIBE, error)

    def _seek(self, thread: _Thread, op_id: int, op: Seek) -> None:
        assert thread.member is not None, "only a member of a group seeks"
        # The call may have to ask for the group's committed offsets.
        work = partial(thread.member.seek, op.back)
        self._aside.do(work, partial(self._sought, thread, op_id))

    def _sought(self, thread: _Thread, op_id: int, sought: Sought) -> None:
        self._recorder.assigned(
            op_id,
            process=thread.process,
            at_ns=sought.at_ns,
            starts=sought.starts,
            kind=AssignmentKind.SEEK,
        )
        self._note_group_offsets(thread, op_id)
        thread.positions.update(sought.starts)
        outcome = Outcome.INFO if sought.error else Outcome.OK
        self._end(thread, op_id, F.SEEK, outcome, error=sought.error)

    def _attached(self, thread: _Thread, op_id: int, f: F, error: str | None) -> None:
        thread.assigned = True
        if error:
            thread.rest_until_ns = self._clock.now_ns() + REST_NS
        outcome = Outcome.INFO if error else Outcome.OK
        self._end(thread, op_id, f, outcome, error=error)

    def _end(
        self,
        thread: _Thread,
        op_id: int,
        f: F,
        outcome: Outcome,
        *,
        error: str | None,
        leave: bool = True,
    ) -> None:
        self._recorder.completed(op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error)
        self.in_flight -= 1
        self.ops[f, outcome] += 1
        if outcome is Outcome.INFO:
            self._note_group_offsets(thread, op_id, last=True)
            self._retire(thread, leave=leave)
        (self._resting if thread.rest_until_ns else self._free).append(thread)

    def _retire(self, thread: _Thread, *, leave: bool) -> None:
        reader = thread.reader
        # Close in a separate task: a close that hangs would keep the next members from their
        # groups.
        start(reader.close if leave else cast("Member", reader).abandon, "closing")
        thread.process += self._concurrency
        thread.reader, thread.member = self._clients.reader(thread.process), None
        thread.assigned, thread.unhandled = False, None


_F: dict[type[Op], F] = {
    Send: F.SEND,
    Txn: F.TXN,
    Poll: F.POLL,
    Assign: F.ASSIGN,
    Subscribe: F.SUBSCRIBE,
    Seek: F.SEEK,
    Acknowledge: F.ACKNOWLEDGE,
    Crash: F.CRASH,
}


def _taken_meanwhile(batch: Batch) -> str | None:
    """Return why a member must not process the records that it has read, or None if it may.

    If a partition was revoked during the poll, another member may read the same records.
    """
    read = {key for key, _ in batch.spans}
    taken = {
        key
        for each in batch.rebalances
        if each.kind is AssignmentKind.REBALANCE_REVOKED
        for key in each.starts
    }
    return "a partition of this poll was revoked during the poll" if read & taken else None


def _outcome(op: Txn, result: TxnResult) -> Outcome:
    """Return the outcome of a transaction; `info` if its input records must be read again.

    If the transaction of a group member fails, the group's committed offset is still before the
    records that the member has read. With the outcome `info`, the member's process ends, and the
    next process reads the records again.
    """
    return Outcome.INFO if op.handles and result.outcome is Outcome.FAIL else result.outcome


def _poll_and_commit(member: Member, op: Poll, op_id: int) -> Batch:
    batch = member.poll(op.limit, MEMBER_WAIT_S)
    if op.commit is Commit.NONE or not batch.spans or batch.error is not None:
        return batch
    error = member.commit(batch.positions, op_id=op_id, wait=op.commit is Commit.SYNC)
    return replace(batch, commit_error=error)
