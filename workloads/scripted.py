"""The sends and reads of a scenario's steps: a few named messages, through separate clients.

The code runs in the stage's process. Each call returns as soon as every message has a response or
was given up. Ops are recorded as a worker records them, so that checkers see no difference. Record
k of the scenario's partition has the value `(1 << 32) | k`. The payload is the value and the
record's name, `message<k>`, in ASCII.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.contents import message_name, message_payload
from results.record.plan import Plan, PlanError
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from results.record.values import SEQUENCE_BITS, pack_value
from workloads.clients.producer import SharedProducer
from workloads.final_reads import final_reader
from workloads.protocol import Batch, Key, LoneSender, Reader, Reservation, Send, SendResult
from workloads.recorder import STREAMS, TRANSACTIONS, Recorder

PARTITION_NUMBER = 1
WORKER = 0
TOGETHER_LINGER_MS = 500
"""`linger.ms` that is long enough to collect some hundred messages into one batch."""
POLL_LIMIT = 10_000
POLL_S = 0.1
REST_S = 0.1
REPORT_GRACE_S = 5.0
"""Additional seconds to wait, because librdkafka looks for timed-out messages only once a
second."""
METADATA_LIMIT_S = 2.0
_IMPATIENT = {
    # Errors are in the delivery reports. The console is for the scenario's output.
    "log_level": "2",
    # So a newly elected leader is found soon.
    "topic.metadata.refresh.interval.ms": "1000",
    "topic.metadata.refresh.fast.interval.ms": "50",
    "retry.backoff.ms": "50",
    "retry.backoff.max.ms": "200",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "200",
    # A paused broker's kernel accepts connections, but no process answers on them.
    "api.version.request.timeout.ms": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOutcome:
    """The result of one message.

    Attributes:
        name: Its name, such as `message1`.
        value: Its value, unique in the run.
        offset: Its offset; None if unknown.
        outcome: `ok` if it was acknowledged (or sent, with acks=0).
        error: The error; None if the outcome is ok.
    """

    name: str
    value: int
    offset: int | None
    outcome: Outcome
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """One record that a reader got.

    Attributes:
        offset: Its offset.
        value: Its value; None if Logquake did not send it.
        name: Its name, such as `message1`; an empty string if Logquake did not send it.
        leader_epoch: The epoch of its batch; None if the format has no epoch.
    """

    offset: int
    value: int | None
    name: str
    leader_epoch: int | None


def script_sender(plan: Plan, bootstrap: str) -> LoneSender:
    """Return a producer of named messages."""
    return SharedProducer(plan, bootstrap=bootstrap, worker=WORKER, payload=message_payload)


class Script:
    """The clients of a scripted run, one op at a time.

    Args:
        plan: The plan, whose client settings apply.
        topic: The scenario's topic, with one partition.
        bootstrap: The addresses `host:port,...` of n1, n2, ...
        clock: The run's clock.
        live: The folder of the live streams; writers are named `script`, `script-acks-1`, ...
        sender: Creates a producer for a plan and addresses.
        reader: For a plan and addresses, returns a function that creates a process's consumer.
    """

    def __init__(
        self,
        plan: Plan,
        topic: CreatedTopic,
        bootstrap: str,
        *,
        clock: RunClock,
        live: Path,
        sender: Callable[[Plan, str], LoneSender] = script_sender,
        reader: Callable[[Plan, str], Callable[[int], Reader]] = final_reader,
    ) -> None:
        self.phase = Phase.MAIN
        self._plan, self._topic, self._clock, self._live = plan, topic, clock, live
        self.key: Key = (topic.topic, 0)
        self._sender, self._reader = sender, reader
        self._addresses = bootstrap.split(",")
        self._recorders: dict[str, Recorder] = {}
        self._next_sequence = 1
        self._next_op_id = WORKER
        self._next_process = 0

    @property
    def transaction_timeout_s(self) -> float:
        """The plan's transaction timeout, for transactions sent by hand."""
        return self._plan.transaction_timeout_s

    def send(
        self,
        count: int,
        *,
        acks: str = "all",
        together: bool = False,
        within_s: float = 30.0,
        only_to: str | None = None,
    ) -> list[SendOutcome]:
        """Send the next messages, and wait until each is answered or given up.

        Args:
            count: The number of messages.
            acks: `0`, `1` or `all`.
            together: Whether to send one batch. Otherwise each message waits for the response to
                the previous one.
            within_s: The time after which a message is given up, for each message alone.
            only_to: The node (`n2`) that clients contact first. It reports the other brokers.
        """
        plan = self._plan_of_sends(acks, together=together, within_s=within_s)
        # Each call uses a new client, which knows no old leader and does not wait for a paused
        # broker.
        sender = self._sender(plan, self._bootstrap(only_to))
        outcomes: list[SendOutcome] = []
        with closing(sender):
            if together:
                self._make_ready(sender)
            for size in [count] if together else [1] * count:
                outcomes += self._send(sender, self.next_values(size), plan)
        return outcomes

    def read(self, within_s: float = 10.0) -> list[ReadRecord]:
        """Read the partition from its start to the high watermark with a new consumer.

        Args:
            within_s: The time limit; the records read until then are returned.
        """
        plan = self._plan.model_copy(update={"client": _IMPATIENT | self._plan.client})
        reader = self._reader(plan, ",".join(self._addresses))
        return list(_Reading(self, reader).records(within_s))

    def close(self) -> None:
        """Close the streams. Idempotent."""
        for recorder in self._recorders.values():
            recorder.close()
        self._recorders.clear()

    def recorder(self, acks: str) -> Recorder:
        """Return the recorder of sends with the given acks. Reads use the recorder of `all`."""
        if acks not in self._recorders:
            writer = "script" if acks == "all" else f"script-acks-{acks}"
            self._live.mkdir(parents=True, exist_ok=True)
            self._recorders[acks] = Recorder(
                self._live, writer, worker=WORKER, topics=[self._topic], acks=acks,
                streams=(*STREAMS, TRANSACTIONS) if self._plan.transactional else STREAMS,
            )  # fmt: skip
        return self._recorders[acks]

    def new_process(self) -> int:
        """Return the number of a new logical process."""
        self._next_process += 1
        return self._next_process - 1

    def begin(self, recorder: Recorder, f: F, process: int) -> int:
        """Record that an op begins; return its id."""
        self._next_op_id += 1
        now_ns = self._clock.now_ns()
        recorder.invoked(self._next_op_id, process=process, f=f, phase=self.phase, at_ns=now_ns)
        return self._next_op_id

    def end(self, recorder: Recorder, op_id: int, outcome: Outcome, error: str | None) -> None:
        """Record the end of an op, and write everything to disk."""
        recorder.completed(op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error)
        recorder.flush()

    def start_reading(self, recorder: Recorder, client: Reader, process: int) -> str | None:
        """Assign the partition from its start to a process's consumer, and record this."""
        starts: dict[Key, int | None] = {self.key: None}
        op_id = self.begin(recorder, F.ASSIGN, process)
        error = client.assign(starts)
        now_ns = self._clock.now_ns()
        recorder.assigned(op_id, process=process, at_ns=now_ns, starts=starts)
        self.end(recorder, op_id, Outcome.INFO if error else Outcome.OK, error)
        return error

    def _send(self, sender: LoneSender, values: Sequence[int], plan: Plan) -> list[SendOutcome]:
        recorder, results = self.recorder(plan.acks), list[SendResult]()
        recorder.reserve(Reservation(value_from=values[0], value_to=values[-1] + 1))
        op = Send(key=self.key, values=np.array(values, dtype=np.int64))
        op_id = self.begin(recorder, F.SEND, self.new_process())
        recorder.sending(op_id, op)
        recorder.flush()
        sender.send(op, results.append)
        deadline_s = stopwatch_s() + plan.delivery_timeout_s + REPORT_GRACE_S
        while not results and stopwatch_s() < deadline_s:
            sender.serve(POLL_S)
        result = results[0] if results else _unreported(len(values))
        recorder.sent(op_id, result)
        self.end(recorder, op_id, result.worst, result.error)
        return _outcomes_of(values, result)

    def next_values(self, count: int) -> list[int]:
        """Return the values of the next messages."""
        first, self._next_sequence = self._next_sequence, self._next_sequence + count
        return [pack_value(PARTITION_NUMBER, first + step) for step in range(count)]

    def _make_ready(self, sender: LoneSender) -> None:
        """Let a producer look up the partition's leader, so that messages are sent together."""
        try:
            sender.check_reachable(self._topic.topic, timeout_s=METADATA_LIMIT_S)
        except ConnectionError:
            return  # The messages wait in the client until a broker answers, as single ones do.

    def _plan_of_sends(self, acks: str, *, together: bool, within_s: float) -> Plan:
        return self._plan.model_copy(update={
            "acks": acks,
            # Idempotence, whether requested or by default, applies only to sends with acks=all.
            "idempotence": self._plan.idempotence if acks == "all" else False,
            "delivery_timeout_s": within_s,
            "linger_ms": TOGETHER_LINGER_MS if together else 0,
            "client": _IMPATIENT | self._plan.client,
        })  # fmt: skip

    def _bootstrap(self, only_to: str | None) -> str:
        if only_to is None:
            return ",".join(self._addresses)
        place = int(only_to.removeprefix("n")) - 1
        if not 0 <= place < len(self._addresses):
            raise PlanError(f"a step sends to {only_to}, but there is no such broker")
        return self._addresses[place]


class _Reading:
    """One read of a partition. After an error, another process continues the read."""

    def __init__(self, script: Script, reader: Callable[[int], Reader]) -> None:
        self._script, self._reader = script, reader
        self._recorder = script.recorder("all")

    def records(self, within_s: float) -> Iterator[ReadRecord]:
        """Yield the new records, in the order of offsets, up to the end or the time limit."""
        deadline_s, position, done = stopwatch_s() + within_s, 0, False
        while not done and stopwatch_s() < deadline_s:
            for batch in self._one_process(deadline_s):
                for record in _records(batch):
                    if record.offset >= position:
                        position = record.offset + 1
                        yield record
                done = bool(batch.ends)

    def _one_process(self, deadline_s: float) -> Iterator[Batch]:
        """Yield one consumer's batches until the end, an error, or the time limit."""
        process = self._script.new_process()
        client = self._reader(process)
        try:
            failed = self._script.start_reading(self._recorder, client, process) is not None
            while not failed and stopwatch_s() < deadline_s:
                op_id = self._script.begin(self._recorder, F.POLL, process)
                batch = client.poll(POLL_LIMIT, POLL_S)
                self._recorder.polled(op_id, batch)
                failed = batch.error is not None
                outcome = Outcome.INFO if failed else Outcome.OK
                self._script.end(self._recorder, op_id, outcome, batch.error)
                yield batch
                if batch.ends:
                    return
        finally:
            client.close()
        pause_until(min(deadline_s, stopwatch_s() + REST_S))


def _unreported(count: int) -> SendResult:
    return SendResult(
        offsets=np.full(count, -1, dtype=np.int64),
        outcomes=[Outcome.INFO] * count,
        errors=["the client returned no delivery report in time"] * count,
    )


def _outcomes_of(values: Sequence[int], result: SendResult) -> list[SendOutcome]:
    outcomes = result.outcomes or [Outcome.OK] * len(values)
    errors = result.errors or [None] * len(values)
    rows = zip(values, result.offsets.tolist(), outcomes, errors, strict=True)
    return [
        SendOutcome(
            name=message_name(value),
            value=value,
            offset=offset if offset >= 0 else None,
            outcome=outcome,
            error=error,
        )
        for value, offset, outcome, error in rows
    ]


def _records(batch: Batch) -> Iterator[ReadRecord]:
    for offset, value, epoch in zip(batch.offsets, batch.values, batch.leader_epochs, strict=True):
        ours = value is not None and int(value) >> SEQUENCE_BITS == PARTITION_NUMBER
        yield ReadRecord(
            offset=int(offset),
            value=None if value is None else int(value),
            name=message_name(int(value)) if ours else "",
            leader_epoch=None if epoch is None or epoch < 0 else int(epoch),
        )
