"""A simulated consumer of one process: it fetches what it is assigned, and keeps it for polls."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from kio.schema.errors import ErrorCode

from cluster.reference.machine import Answered, Effect, Event, Fired, Request, SetTimer
from cluster.reference.messages.data import FetchPartition, FetchRequest, FetchResponse
from harness.simulated.encoding import end_of, fetched_records
from harness.simulated.leaders import REFRESH_NS, Leaders
from workloads.protocol import Batch, Key

MS = 1_000_000
WORK = "work"
MAX_WAIT_MS, MIN_BYTES, MOST_BYTES = 300, 65_536, 1 << 20
"""As the real clients' (`workloads.clients.settings`), but for the wait, which is thrice as long:
with theirs, fetches that find hardly anything are two thirds of all that happens in a run."""
FETCH_TIMEOUT_NS = 10_000 * MS
BACKOFF_NS = 100 * MS
KEPT_RECORDS = 20_000


@dataclass(slots=True)
class _Reading:
    """One assigned partition."""

    position: int
    rests_until_ns: int = 0
    stopped: bool = False
    end: int | None = None


class Consumer:
    """The machine; assigned by hand, commits nothing, and never jumps: no reset of offsets.

    Args:
        leaders: Who leads.
        wake: Has `Fired(timer=WORK)` come at once.

    Attributes:
        end: Ends its machine.
    """

    def __init__(self, leaders: Leaders, *, wake: Callable[[], None]) -> None:
        self._leaders, self._wake = leaders, wake
        self.end: Callable[[], None] = lambda: None
        self._readings: dict[Key, _Reading] = {}
        self._kept: deque[tuple[Key, int, int | None, int, int]] = deque()
        self._errors: list[str] = []
        self._asked: dict[int, tuple[int, dict[Key, int]] | None] = {}
        self._busy: dict[int, int] = {}
        self._last = 0

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Read these partitions from now on; what was fetched before is forgotten."""
        self._readings = {key: _Reading(offset or 0) for key, offset in starts.items()}
        self._kept.clear()
        self._errors.clear()
        self._wake()
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:  # noqa: ARG002 - time is virtual
        """Return what was fetched; errors of a partition end the poll as a whole."""
        kept = self._kept
        taken = [kept.popleft() for _ in range(min(limit, len(kept)))]
        error = "; ".join(self._errors) or None
        self._errors.clear()
        spans: list[tuple[Key, int]] = []
        for key, *_ in taken:
            if spans and spans[-1][0] == key:
                spans[-1] = (key, spans[-1][1] + 1)
            else:
                spans.append((key, 1))
        return Batch(
            spans=spans,
            offsets=np.array([record[1] for record in taken], np.int64),
            values=_values([record[2] for record in taken]),
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
        """Transactions are not simulated."""
        raise AssertionError("no transaction is simulated")

    def close(self) -> None:
        """Have its machine end, if it was made to.

        A crew closes clients from a thread aside, which virtual time knows nothing of: there,
        whoever makes the next consumer of the thread ends this one.
        """
        self.end()

    def start(self, now: int) -> Sequence[Effect]:
        """Begin."""
        return [*self._work(now), _timer("refresh", REFRESH_NS)]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        """Take an event."""
        match event:
            case Answered(request=number, message=message):
                asked = self._asked.pop(number)
                if asked is None:
                    self._leaders.told(now, message)
                else:
                    del self._busy[asked[0]]
                    self._fetched(now, asked[1], message)
            case Fired(timer="refresh"):
                # A paused leader does not answer, and so cannot say that it leads no more.
                return [*self._refresh(now), *self._work(now), _timer("refresh", REFRESH_NS)]
            case Fired():
                pass
            case _:
                return []
        return self._work(now)

    def _work(self, now: int) -> list[Effect]:
        """Ask every leader that is not asked already for what is wanted of it."""
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
            out += self._refresh(now)
        if rests or len(self._kept) >= KEPT_RECORDS:
            out.append(_timer(WORK, BACKOFF_NS))
        return out

    def _refresh(self, now: int) -> list[Request]:
        if not self._leaders.outdated(now):
            return []
        to, question = self._leaders.question()
        return [self._request(to, question, None, 1000 * MS)]

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
        asked = self._request(leader, question, (leader, positions), FETCH_TIMEOUT_NS)
        self._busy[leader] = asked.number
        return asked

    def _request(
        self, to: int, message: object, purpose: tuple[int, dict[Key, int]] | None, limit_ns: int
    ) -> Request:
        self._last += 1
        self._asked[self._last] = purpose
        return Request(number=self._last, to=to, message=message, timeout_ns=limit_ns)

    def _fetched(self, now: int, positions: dict[Key, int], message: object) -> None:
        if not isinstance(message, FetchResponse) or message.error_code is not ErrorCode.none:
            for key in positions:
                self._rest(now, key)
            return
        for each in message.partitions:
            key = (each.topic, each.partition)
            reading = self._readings.get(key)
            if reading is None or reading.position != positions.get(key):
                continue  # It was assigned anew meanwhile.
            if each.error_code is ErrorCode.offset_out_of_range:
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
        self._kept.extend(
            (key, *record) for record in fetched_records(data, offset=reading.position)
        )
        behind = end_of(data)
        if behind is not None:
            reading.position = max(reading.position, behind)

    def _rest(self, now: int, key: Key) -> None:
        self._leaders.forget(key)
        if (reading := self._readings.get(key)) is not None:
            reading.rests_until_ns = now + BACKOFF_NS


def _timer(name: str, after_ns: int) -> SetTimer:
    return SetTimer(timer=name, after_ns=after_ns, at_most_ns=after_ns)


def _values(values: Sequence[int | None]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([-1 if value is None else value for value in values], np.int64)
