"""The clients of a faithful run: processes that send, and that read what they were assigned.

A process reads a partition from where its assignment says, record by record; an assignment keeps
what it names and the process reads already, starts others at the beginning or somewhere, and
forgets what it leaves out. An op of unknown outcome ends its process. Two sends may be under way
at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from results.record.values import pack_value

Row = dict[str, Any]
Rows = dict[str, list[Row]]
TOPIC_ID = "00000000-0000-0000-0000-00000000000"
THREADS, CONCURRENCY = 3, 16
FINAL_PROCESS = 1_000_000
MOST_READ = 4


@dataclass
class Partition:
    topic: str
    partition: int
    number: int
    logs: dict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: {1: [], 2: [], 3: []}
    )  # (epoch, value) by broker
    isr: set[int] = field(default_factory=lambda: {1, 2, 3})
    leader: int = 1
    epoch: int = 0
    high_watermark: int = 0
    marks: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0, 3: 0})
    """Each broker's own high watermark: as of the last time that it followed, or led."""

    @property
    def place(self) -> Row:
        topic_id = f"{TOPIC_ID}{self.topic[-1]}"
        return {"topic": self.topic, "topic_id": topic_id, "partition": self.partition}

    @property
    def leaders_log(self) -> list[tuple[int, int]]:
        return self.logs[self.leader]


@dataclass
class Clients:
    """Draws what clients do, and records it.

    `add` takes a table and a row, `tick` gives the time, `replicate` commits a leader's log.
    """

    random: Random
    partitions: list[Partition]
    add: Callable[..., None]
    tick: Callable[[], int]
    replicate: Callable[[Partition], None]
    next_op: int = 0
    processes: dict[int, int] = field(default_factory=dict)
    """By thread."""
    positions: dict[int, dict[int, int]] = field(default_factory=dict)
    """By process: the next offset to read, by partition's number."""
    sequence: dict[int, int] = field(default_factory=dict)

    def send(self, each: Partition) -> None:
        self._answer(each, *self._begin_send(self._thread(), each))

    def send_acknowledged(self, each: Partition) -> None:
        """Send what the partition takes, as it must once all is healed."""
        self._answer(each, *self._begin_send(self._thread(), each), fate="ok")

    def send_together(self, each: Partition) -> None:
        """Two processes send at once; whose records come first is anybody's guess."""
        threads = self.random.sample(range(THREADS), 2)
        under_way = [self._begin_send(thread, each) for thread in threads]
        self.random.shuffle(under_way)
        for one in under_way:
            self._answer(each, *one)

    def poll(self, each: Partition) -> None:
        """Have some process read, among others, this partition."""
        thread = self._thread()
        known = self.positions.get(self._process(thread))
        if known is None or each.number not in known or self.random.random() < 0.2:
            self._assign(thread, each)
        op_id = self._begin("poll", thread, "main")
        named = list(self.positions[self._process(thread)])
        self.random.shuffle(named)
        pos = 0
        for number in named:
            pos = self._read(op_id, thread, self.partitions[number - 1], pos)
        self._finish(op_id, thread, self.random.choice(("ok",) * 6 + ("info",)))

    def read_to_end(self, each: Partition) -> None:
        """Read a partition from its beginning, with a process of its own and some polls."""
        thread = FINAL_PROCESS + each.number
        self._place(thread, {each.number: None}, "final")
        while True:
            op_id = self._begin("poll", thread, "final")
            self._read(op_id, thread, each, 0)
            self._finish(op_id, thread, "ok")
            if self.positions[thread][each.number] == each.high_watermark:
                return

    def _thread(self) -> int:
        return self.random.randrange(THREADS)

    def _process(self, thread: int) -> int:
        return self.processes.setdefault(thread, thread)

    def _begin(self, f: str, thread: int, phase: str) -> int:
        self.next_op += 1
        self.add(
            "op_invocations",
            op_id=self.next_op,
            process=self._process(thread),
            worker=0,
            f=f,
            phase=phase,
            invoke_ns=self.tick(),
        )
        return self.next_op

    def _finish(self, op_id: int, thread: int, outcome: str) -> None:
        self.add("op_completions", op_id=op_id, complete_ns=self.tick(), outcome=outcome)
        if outcome == "info":
            self.processes[thread] += CONCURRENCY

    def _begin_send(self, thread: int, each: Partition) -> tuple[int, int, list[int]]:
        op_id = self._begin("send", thread, "main")
        values = []
        for mop in range(self.random.randrange(1, 4)):
            self.sequence[each.number] = self.sequence.get(each.number, 0) + 1
            value = pack_value(each.number, self.sequence[each.number])
            values.append(value)
            self.add(
                "send_invocations", op_id=op_id, mop=mop, **each.place, value=value, acks="all"
            )
        return op_id, thread, values

    def _answer(
        self, each: Partition, op_id: int, thread: int, values: list[int], *, fate: str = ""
    ) -> None:
        fates = ("ok", "ok", "ok", "lost", "unanswered", "uncommitted", "fail")
        fate = fate or self.random.choice(fates)
        base = len(each.leaders_log)
        if fate in {"ok", "unanswered", "uncommitted"}:
            each.leaders_log.extend((each.epoch, value) for value in values)
        if fate in {"ok", "unanswered"}:
            self.replicate(each)
        outcome = {"ok": "ok", "fail": "fail"}.get(fate, "info")
        for mop in range(len(values)):
            self.add(
                "send_completions",
                op_id=op_id,
                mop=mop,
                outcome=outcome,
                offset=base + mop if fate == "ok" else None,
                acked=fate == "ok",
            )
        self._finish(op_id, thread, outcome)

    def _assign(self, thread: int, wanted: Partition) -> None:
        kept = self.positions.get(self._process(thread), {})
        starts: dict[int, int | None] = {}
        for each in self.partitions:
            if each is wanted or self.random.random() < 0.5:
                somewhere = self.random.choice((None, self.random.randint(0, each.high_watermark)))
                starts[each.number] = kept.get(each.number, somewhere)
        self._place(thread, starts, "main")

    def _place(self, thread: int, starts: dict[int, int | None], phase: str) -> None:
        op_id = self._begin("assign", thread, phase)
        process = self._process(thread)
        for number, offset in starts.items():
            self.add(
                "assignments",
                op_id=op_id,
                process=process,
                kind="assign",
                time_ns=self.tick(),
                **self.partitions[number - 1].place,
                offset=offset,
            )
        self.positions[process] = {number: offset or 0 for number, offset in starts.items()}
        self._finish(op_id, thread, "ok")

    def _read(self, op_id: int, thread: int, each: Partition, pos: int) -> int:
        """Read on, up to the high watermark; return the next place in the op."""
        positions = self.positions[self._process(thread)]
        start = positions[each.number]
        end = min(each.high_watermark, start + self.random.randint(0, MOST_READ))
        for offset in range(start, end):
            epoch, value = each.leaders_log[offset]
            self.add(
                "polled",
                op_id=op_id,
                mop=0,
                pos=pos + offset - start,
                **each.place,
                offset=offset,
                value=value,
                leader_epoch=epoch,
                isolation="read_uncommitted",
                damage=0,
            )
        positions[each.number] = max(start, end)
        return pos + end - start
