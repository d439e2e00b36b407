"""The controlling side of the workers: start, steer, count, stop.

A worker that ends by itself makes the run's verdict unknown; `Fleet.died` says which, and why.
"""

import json
import os
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel

from results.record.clock import RunClock, WaitTimeoutError, stopwatch_s, wait_until
from results.record.identities import groups
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import new_lock
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.crashes import Crash, crash_of
from workloads.worker import READY_TIMEOUT_S, WorkerConfig

_START_TIMEOUT_S = READY_TIMEOUT_S * 2 + 10
_RECENT_S = 1.0
_EXIT_GRACE_S = 3.0
"""Between a worker's limit for ops in flight and SIGKILL."""

Touched = tuple[str, int] | tuple[str, str, int]
"""A partition; or a group, and a partition."""
OpCounts = Mapping[tuple[F, Outcome], int]


class FleetError(Exception):
    """The workers could not be started, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What happened within a stretch of time.

    Attributes:
        ops: Ended ops by f and outcome.
        offered: Arrivals.
        missed: Of them, those that found no free process.
    """

    ops: OpCounts = field(default_factory=dict)
    offered: int = 0
    missed: int = 0

    def of_outcome(self, outcome: Outcome) -> int:
        """Return how many ops ended so."""
        return sum(count for (_, ended), count in self.ops.items() if ended is outcome)

    def of_f(self, f: F) -> int:
        """Return how many ops of this kind ended."""
        return sum(count for (kind, _), count in self.ops.items() if kind is f)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounts:
    """The workers' counts, as they last told them.

    Attributes:
        total: Since the start.
        recent: Within the `recent_s` seconds before the last status.
        recent_s: About one second; 0 before there were two statuses.
        in_flight: Ops that have begun and not ended.
        latency_ms: Median and 99th percentile of sends that ended ok within the last 0.2 s, of
            the slowest worker, in milliseconds; None if there was none.
        age_s: Seconds since the worker that is silent for longest last told anything.
    """

    total: Counts
    recent: Counts
    recent_s: float
    in_flight: int
    latency_ms: tuple[float, float] | None
    age_s: float

    @property
    def sent_ok(self) -> int:
        """How many sends and transactions ended ok since the start."""
        return sum(self.total.ops.get((f, Outcome.OK), 0) for f in (F.SEND, F.TXN))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    at_s: float
    counts: Counts = Counts()
    in_flight: int = 0
    latency_ms: tuple[float, float] | None = None


class FleetWorker(Protocol):
    """One worker, as its fleet sees it.

    Attributes:
        number: Which.
        log: Where its last words are.
        stopping: Whether it was told to stop.
        told: What it has told of itself.
    """

    number: int
    log: Path
    stopping: bool
    told: "Told"

    def is_ready(self) -> bool:
        """Tell whether it is at work."""

    def ended(self) -> bool:
        """Tell whether it is gone."""

    def obituary(self) -> str:
        """Say of what it ended."""

    def exit_code(self) -> int | None:
        """Return how its process ended, as `Popen.returncode`; None: it goes on, or has none."""

    def tell(self, command: dict[str, object]) -> None:
        """Hand it a command, if it is there."""

    def end(self, deadline_s: float) -> bool:
        """Wait for its end; end it at the deadline, and tell whether it ended by itself."""


class Fleet:
    """The workers of a run.

    Args:
        plan: The run's.
        topics: As created.
        bootstrap: `host:port,...`.
        clock: The run's; workers share its zero.
        paths: Streams go to `live`, the workers' own words to `workers/worker-<i>.log`.
        worker: Starts a worker; it is told where words go. None: as a process.
        library: A folder that comes first on the path of such processes: another version of the
            client library. None: it is our own.
        java: Starts the JVM of Kafka's own clients; none: the clients are librdkafka's.
    """

    def __init__(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        bootstrap: str,
        *,
        clock: RunClock,
        paths: RunPaths,
        worker: Callable[[WorkerConfig, Path], FleetWorker] | None = None,
        library: Path | None = None,
        java: Sequence[str] = (),
    ) -> None:
        self._plan = plan
        self._topics = tuple(topics)
        self._bootstrap = bootstrap
        self._clock = clock
        self._paths = paths
        self._start = worker or partial(_Worker, library=library)
        self._java = tuple(java)
        self._workers: list[FleetWorker] = []

    def start(self) -> None:
        """Start the workers, in phase warmup; return when all are ready, and at work.

        Call it from a thread that lives as long as the run: Linux ends the workers with it.

        Raises:
            FleetError: A worker ended, or did not become ready in time.
        """
        self._paths.live.mkdir(parents=True, exist_ok=True)
        count = self._plan.crews
        self._workers = [
            self._start(self._config(number, count), self._paths.root / "workers")
            for number in range(count)
        ]
        for worker in self._workers:
            try:
                wait_until(
                    partial(_is_ready_or_ended, worker),
                    timeout_s=_START_TIMEOUT_S,
                    what=f"worker {worker.number} to be ready",
                    interval_s=0.05,
                )
            except WaitTimeoutError as late:
                self._abandon()
                raise FleetError(f"{late}; {worker.log} has its last words") from late
            if not worker.is_ready():
                self._abandon()
                raise FleetError(worker.obituary())

    def phase(self, phase: Phase) -> None:
        """Tell the workers in which phase the ops are that they invoke from now on."""
        for worker in self._workers:
            worker.told.enter()
            worker.tell({"phase": phase.value})

    def untouched(self) -> frozenset[Touched]:
        """Return what nothing came of since the recovery was entered last.

        Returns:
            Partitions that took no message; and with a group before them, those of which its
            members were given none.
        """
        places = self._plan.topic_partitions
        wanted: set[Touched] = {*places}
        inputs = {*self._plan.inputs}
        read = [place for place in places if place[0] in inputs]
        wanted |= {(group, *place) for group in groups(self._plan) for place in read}
        return frozenset(wanted.difference(*(worker.told.touched() for worker in self._workers)))

    def counts(self) -> FleetCounts:
        """Return what the workers have told of themselves so far."""
        now_s = stopwatch_s()
        pairs = [worker.told.statuses(now_s - _RECENT_S) for worker in self._workers]
        last = [new for _, new in pairs]
        latencies = [each.latency_ms for each in last if each.latency_ms is not None]
        return FleetCounts(
            total=_sum([each.counts for each in last]),
            recent=_sum([_difference(old.counts, new.counts) for old, new in pairs]),
            recent_s=max((new.at_s - old.at_s for old, new in pairs), default=0),
            in_flight=sum(each.in_flight for each in last),
            latency_ms=max(latencies, default=None),
            age_s=max((now_s - each.at_s for each in last), default=0),
        )

    def died(self) -> list[str]:
        """Return a sentence for each worker that ended without having been told to."""
        return [
            worker.obituary() for worker in self._workers if not worker.stopping and worker.ended()
        ]

    def crashes(self) -> list[Crash]:
        """Return which workers a crash has ended, also while they stopped."""
        found = [crash_of(each.number, each.exit_code(), each.log) for each in self._workers]
        return [each for each in found if each is not None]

    def stop(self, timeout_s: float) -> list[str]:
        """Start no new ops, wait for those in flight, and end the workers. Idempotent.

        Args:
            timeout_s: For ops in flight; what is open after it stays open in the record.

        Returns:
            A sentence for each worker that had to be killed, or had died before.
        """
        troubles = self.died()
        for worker in self._workers:
            worker.tell({"stop": timeout_s})
            worker.stopping = True
        deadline_s = stopwatch_s() + timeout_s + _EXIT_GRACE_S
        for worker in self._workers:
            if not worker.end(deadline_s):
                troubles.append(f"worker {worker.number} did not stop in time and was killed")
        return troubles

    def _config(self, number: int, count: int) -> WorkerConfig:
        return WorkerConfig(
            plan=self._plan,
            topics=self._topics,
            bootstrap=self._bootstrap,
            start_ns=self._clock.start_ns,
            live=self._paths.live.absolute(),
            worker=number,
            workers=count,
            parent=os.getpid(),
            java=self._java and self._with_room(self._java),
        )

    def _with_room(self, java: tuple[str, ...]) -> tuple[str, ...]:
        """Have a JVM unpack its libraries in the run's folder, where nothing of it is left over."""
        program, *rest = java
        return (program, f"-Djava.io.tmpdir={self._paths.root.absolute() / 'workers'}", *rest)

    def _abandon(self) -> None:
        for worker in self._workers:
            worker.stopping = True
            worker.end(stopwatch_s())


def _is_ready_or_ended(worker: FleetWorker) -> bool:
    return worker.is_ready() or worker.ended()


class Told:
    """What a worker has told of itself."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._phases = 0
        self._touched: set[Touched] = set()
        self._statuses: deque[_Status] = deque([_Status(at_s=stopwatch_s())])

    def enter(self) -> None:
        """Count what is touched anew: the worker is about to be told of another phase."""
        with self._lock:
            self._phases += 1
            self._touched.clear()

    def touched(self) -> frozenset[Touched]:
        """Return what its processes sent to, or read, since the recovery was entered last."""
        with self._lock:
            return frozenset(self._touched)

    def statuses(self, since_s: float) -> tuple[_Status, _Status]:
        """Return the last status that is not younger than `since_s`, and the newest one."""
        with self._lock:
            while len(self._statuses) > 1 and self._statuses[1].at_s <= since_s:
                self._statuses.popleft()
            return self._statuses[0], self._statuses[-1]

    def note(self, line: object) -> None:
        """Take a status line, as it was read."""
        told = _Line.model_validate(line)
        with self._lock:
            self._statuses.append(_status(told))
            if told.phases == self._phases:  # What was said before is of another phase.
                self._touched.update(told.taken, told.read)


def environment_with(library: Path | None) -> dict[str, str] | None:
    """Return what a worker's environment is, for another client library; None: ours as it is."""
    if library is None:
        return None
    rest = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), *([rest] if rest else [])])}


class _Worker:
    """One worker's process, its pipe, and the thread that reads what it tells."""

    def __init__(self, config: WorkerConfig, folder: Path, *, library: Path | None) -> None:
        self.number = config.worker
        self.stopping = False
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"worker-{self.number}.log"
        self.told = Told()
        self._ready = threading.Event()
        self._error: str | None = None
        path = folder / f"worker-{self.number}.json"
        path.write_text(config.model_dump_json(exclude_none=True), encoding="utf-8")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
                [sys.executable, "-P", "-m", "workloads.worker", str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=environment_with(library),
            )
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    def is_ready(self) -> bool:
        return self._ready.is_set()

    def ended(self) -> bool:
        return self._process.poll() is not None

    def obituary(self) -> str:
        self._ear.join(_EXIT_GRACE_S)
        status = self._process.poll()
        return self._error or (
            f"worker {self.number} ended by itself with status {status};"
            f" {self.log} has its last words"
        )

    def exit_code(self) -> int | None:
        return self._process.poll()

    def tell(self, command: dict[str, object]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        if self.stopping or self.ended():
            return
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return  # It has just ended; `died` tells.

    def end(self, deadline_s: float) -> bool:
        """Wait for the process; kill it at the deadline, and tell whether it ended by itself."""
        try:
            self._process.wait(max(0, deadline_s - stopwatch_s()))
            by_itself = True
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            by_itself = False
        self._ear.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return by_itself

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            if "ready" in line:
                self._ready.set()
            elif "error" in line:
                self._error = f"worker {self.number}: {line['error']}"
            else:
                self.told.note(line)


class _Line(BaseModel):
    """A status line of a worker."""

    ops: list[tuple[F, Outcome, int]]
    offered: int
    missed: int
    in_flight: int
    latency_ms: tuple[float, float] | None
    phases: int
    taken: list[tuple[str, int]]
    read: list[tuple[str, str, int]]


def _status(told: _Line) -> _Status:
    by_kind = {(f, outcome): count for f, outcome, count in told.ops}
    return _Status(
        at_s=stopwatch_s(),
        counts=Counts(ops=by_kind, offered=told.offered, missed=told.missed),
        in_flight=told.in_flight,
        latency_ms=told.latency_ms,
    )


def _sum(counts: Sequence[Counts]) -> Counts:
    ops: Counter[tuple[F, Outcome]] = Counter()
    for each in counts:
        ops.update(each.ops)
    return Counts(
        ops=ops,
        offered=sum(each.offered for each in counts),
        missed=sum(each.missed for each in counts),
    )


def _difference(old: Counts, new: Counts) -> Counts:
    return Counts(
        ops={key: count - old.ops.get(key, 0) for key, count in new.ops.items()},
        offered=new.offered - old.offered,
        missed=new.missed - old.missed,
    )
