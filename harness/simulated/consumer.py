"""A simulated consumer: it fetches its assigned partitions, and keeps the records for polls."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np
from kio.schema.errors import ErrorCode

from cluster.reference.machine import Answered, Effect, Event, Fired, Request, timer
from cluster.reference.messages.data import FetchPartition, FetchRequest, FetchResponse
from harness.simulated.asking import BACKOFF_NS, WORK, Questions
from harness.simulated.encoding import fetched_records
from harness.simulated.leaders import REFRESH_NS, Leaders
from results.record.clock import pause_until, stopwatch_s
from workloads.protocol import Batch, Key

MAX_WAIT_MS, MIN_BYTES, MOST_BYTES = 100, 65_536, 1 << 20
"""These fetch settings are equal to those of real clients (`workloads.clients.settings`)."""
KEPT_RECORDS = 20_000
LOOK_EVERY_S = 0.01
"""How long it takes, at most, until a waiting poll returns new records."""


@dataclass(slots=True)
class _Reading:
    """The state of one assigned partition."""

    position: int
    rests_until_ns: int = 0
    stopped: bool = False
    end: int | None = None


class Consumer:
    """The machine of a consumer that never commits. It implements `workloads.protocol.Reader`.

    Args:
        leaders: The known leaders.
        wake: The function that triggers the timer `WORK` at once.
        questions: This machine's requests.
        restarts: Whether to read a partition again from offset 0 if the fetch offset is out of
            range. By default this is an error, because a reader must not skip records unnoticed.

    Attributes:
        end: The function that ends the machine.
    """

    def __init__(
        self,
        leaders: Leaders,
        *,
        wake: Callable[[], None],
        questions: Questions | None = None,
        restarts: bool = False,
    ) -> None:
        self._leaders, self._wake = leaders, wake
        self._questions, self._restarts = questions or Questions(), restarts
        self.end: Callable[[], None] = lambda: None
        self._readings: dict[Key, _Reading] = {}
        self._kept: deque[tuple[Key, int, int | None, int, int]] = deque()
        self._errors: list[str] = []
        self._busy: set[int] = set()
        """The leaders with a fetch in flight."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Read these partitions from now on, and drop all records fetched before."""
        self._readings = {key: _Reading(offset or 0) for key, offset in starts.items()}
        self._kept.clear()
        self._errors.clear()
        self._wake()
        return None

    def add(self, starts: Mapping[Key, int]) -> None:
        """Read these partitions, too."""
        self._readings |= {key: _Reading(offset) for key, offset in starts.items()}
        self._wake()

    def drop(self, keys: Iterable[Key]) -> None:
        """Stop reading these partitions, and drop their fetched records."""
        gone = {*keys}
        for key in gone:
            self._readings.pop(key, None)
        self._kept = deque(each for each in self._kept if each[0] not in gone)

    @property
    def has_news(self) -> bool:
        """Whether the next poll would return something."""
        return bool(self._kept or self._errors)

    def reads(self, key: Key) -> bool:
        """Return whether a partition is being read."""
        return key in self._readings

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return fetched records, partition ends or an error; wait for them up to the timeout."""
        deadline_s = stopwatch_s() + timeout_s if timeout_s else 0
        while True:
            batch = self._polled(limit)
            came = len(batch.offsets) or batch.ends or batch.error
            if came or not timeout_s or (now_s := stopwatch_s()) >= deadline_s:
                return batch
            pause_until(min(deadline_s, now_s + LOOK_EVERY_S))

    def _polled(self, limit: int) -> Batch:
        """Return the fetched records and ends. An error of any partition fails the whole poll."""
        kept = self._kept
        taken = [kept.popleft() for _ in range(min(limit, len(kept)))]
        error = "; ".join(self._errors) or None
        self._errors.clear()
        return Batch(
            spans=[(key, len([*those])) for key, those in groupby(taken, itemgetter(0))],
            offsets=np.array([record[1] for record in taken], np.int64),
            values=np.array([-1 if record[2] is None else record[2] for record in taken], np.int64),
            leader_epochs=np.array([record[3] for record in taken], np.int32),
            ends={
                key: each.end
                for key, each in self._readings.items()
                if each.end is not None and each.end <= each.position and not kept
            },
            error=error,
            damage=np.array([record[4] for record in taken], np.int8),
        )

    def membership(self) -> object:
        """Raise an error: transactions are not simulated."""
        raise AssertionError("no transaction is simulated")

    def close(self) -> None:
        """End the consumer's machine."""
        self.end()

    def start(self, now: int) -> Sequence[Effect]:
        """Start to fetch."""
        return [*self._work(now), timer("refresh", REFRESH_NS)]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        """Handle an event."""
        match event:
            case Answered(request=number, message=message):
                self._questions.answered(now, number, message)
            case Fired(timer="refresh"):
                # A paused leader cannot answer that it no longer leads.
                return [*self.refreshed(now), *self._work(now), timer("refresh", REFRESH_NS)]
            case Fired():
                pass
            case _:
                return []
        return self._work(now)

    def _work(self, now: int) -> list[Effect]:
        """Send a fetch to every leader that has no fetch in flight."""
        out: list[Effect] = []
        if not self._readings:
            return out
        wanted: dict[int, dict[Key, int]] = {}
        rests = False
        for key, reading in self._readings.items():
            if reading.stopped or len(self._kept) >= KEPT_RECORDS:
                continue
            leader = self._leaders.of(key)
            if reading.rests_until_ns > now or leader is None:
                rests = True
            elif leader[0] not in self._busy:
                wanted.setdefault(leader[0], {})[key] = reading.position
        for leader_id, positions in wanted.items():
            out.append(self._fetch(leader_id, positions))
        if rests:
            out += self.refreshed(now)
        if rests or len(self._kept) >= KEPT_RECORDS:
            out.append(timer(WORK, BACKOFF_NS))
        return out

    def refreshed(self, now: int) -> list[Request]:
        """Return a metadata request if the known leaders may be outdated, else an empty list."""
        return self._leaders.refreshed(now, self._questions)

    def _fetch(self, leader: int, positions: dict[Key, int]) -> Request:
        partitions = []
        for (topic, partition), position in positions.items():
            told = self._leaders.of((topic, partition))
            partitions.append(
                FetchPartition(
                    topic=topic,
                    partition=partition,
                    fetch_offset=position,
                    partition_max_bytes=MOST_BYTES,
                    current_leader_epoch=told[1] if told else -1,
                )
            )
        question = FetchRequest(
            partitions=tuple(partitions),
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=MIN_BYTES,
            max_bytes=50 * MOST_BYTES,
        )
        self._busy.add(leader)
        return self._questions.ask(leader, question, partial(self._fetched, leader, positions))

    def _fetched(self, leader: int, positions: dict[Key, int], now: int, message: object) -> None:
        self._busy.remove(leader)
        if not isinstance(message, FetchResponse) or message.error_code is not ErrorCode.none:
            for key in positions:
                self._rest(now, key)
            return
        for each in message.partitions:
            key = (each.topic, each.partition)
            reading = self._readings.get(key)
            if reading is None or reading.position != positions.get(key):
                continue  # The assignment has changed meanwhile.
            if each.error_code is ErrorCode.offset_out_of_range and self._restarts:
                reading.position = 0
                self._rest(now, key)
            elif each.error_code is ErrorCode.offset_out_of_range:
                reading.stopped = True
                self._errors.append(
                    f"{each.topic}-{each.partition}: _AUTO_OFFSET_RESET: fetch offset"
                    f" {reading.position} is out of range"
                )
            elif each.error_code is not ErrorCode.none:
                self._rest(now, key)
            else:
                self._keep(key, reading, each.records)
                reading.end = each.high_watermark

    def _keep(self, key: Key, reading: _Reading, data: bytes) -> None:
        if not data:
            return
        records, reading.position = fetched_records(data, offset=reading.position)
        self._kept.extend((key, *record) for record in records)

    def _rest(self, now: int, key: Key) -> None:
        self._leaders.forget(key)
        if (reading := self._readings.get(key)) is not None:
            reading.rests_until_ns = now + BACKOFF_NS
