"""Start, control, count and stop the workers, from the harness's side.

If a worker ends by itself, the run's verdict is unknown. `Fleet.died` reports which worker and why.
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
"""A worker that stops has a time limit for ops in flight. After so many more seconds, it gets
SIGKILL."""

Touched = tuple[str, int] | tuple[str, str, int]
"""A partition, or a group with a partition."""
OpCounts = Mapping[tuple[F, Outcome], int]


class FleetError(Exception):
    """The workers could not be started. The message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of ops and arrivals in a period of time.

    Attributes:
        ops: The number of ended ops of each kind (f) and outcome.
        offered: Arrivals, i.e. ops that were due at the plan's rate.
        missed: Arrivals at which no process was free.
    """

    ops: OpCounts = field(default_factory=dict)
    offered: int = 0
    missed: int = 0

    def of_outcome(self, outcome: Outcome) -> int:
        """Return the number of ended ops with an outcome."""
        return sum(count for (_, ended), count in self.ops.items() if ended is outcome)

    def of_f(self, f: F) -> int:
        """Return the number of ended ops of a kind."""
        return sum(count for (kind, _), count in self.ops.items() if kind is f)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounts:
    """The counts of all workers, from the last report of each worker.

    Attributes:
        total: The counts since the start.
        recent: The counts of the `recent_s` seconds before the last status.
        recent_s: The length of that period: about one second, or 0 before the second status.
        in_flight: Number of ops that have begun and not ended.
        latency_ms: The median and the 99th percentile of the latency, in milliseconds, of
            successful sends in the last 0.2 s. Both are from the slowest worker. None if there was
            no such send.
        age_s: Seconds since the last report of that worker which has been silent longest.
    """

    total: Counts
    recent: Counts
    recent_s: float
    in_flight: int
    latency_ms: tuple[float, float] | None
    age_s: float

    @property
    def sent_ok(self) -> int:
        """Number of successful sends and transactions since the start."""
        return sum(self.total.ops.get((f, Outcome.OK), 0) for f in (F.SEND, F.TXN))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    at_s: float
    counts: Counts = Counts()
    in_flight: int = 0
    latency_ms: tuple[float, float] | None = None


class FleetWorker(Protocol):
    """One worker, from the point of view of the fleet.

    Attributes:
        number: The worker's number.
        log: The file with the worker's output.
        stopping: Whether the fleet asked the worker to stop.
        told: The reports of the worker so far.
    """

    number: int
    log: Path
    stopping: bool
    told: "Told"

    def is_ready(self) -> bool:
        """Return whether the worker has started its work."""

    def ended(self) -> bool:
        """Return whether the worker has ended."""

    def obituary(self) -> str:
        """Return a sentence about why the worker ended."""

    def exit_code(self) -> int | None:
        """Return the worker's exit code, as in `Popen.returncode`.

        Return None if the worker still runs or has no process.
        """

    def tell(self, command: dict[str, object]) -> None:
        """Send a command to the worker, if the worker still runs."""

    def end(self, deadline_s: float) -> bool:
        """Wait for the worker, or kill it at the deadline. Return whether it ended by itself."""


class Fleet:
    """The workers of a run.

    Args:
        plan: The run's plan.
        topics: The created topics.
        bootstrap: The addresses `host:port,...`.
        clock: The run's clock. The clocks of workers have the same zero.
        paths: The run's paths. Streams go to `live`, workers' output to `workers/worker-<i>.log`.
        worker: A function that starts a worker, given an output folder. None means that each worker
            is a process.
        library: A folder with another version of the client library. Worker processes have it first
            on their Python path. None means the installed version.
        java: The command line of the JVM with Kafka's own clients. Empty for librdkafka.
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
        """Start the workers in phase warmup, and wait until all of them work.

        Call this from a thread that lives as long as the run, because Linux kills the workers when
        the thread ends.

        Raises:
            FleetError: A worker ended, or was not ready in time.
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
                raise FleetError(f"{late}; see its last output in {worker.log}") from late
            if not worker.is_ready():
                self._abandon()
                raise FleetError(worker.obituary())

    def phase(self, phase: Phase) -> None:
        """Set the phase of the ops that workers begin from now on."""
        for worker in self._workers:
            worker.told.enter()
            worker.tell({"phase": phase.value})

    def untouched(self) -> frozenset[Touched]:
        """Return the partitions that have shown no activity since the recovery phase began.

        Returns:
            Partitions in which no message was acknowledged, and pairs of a group and a partition
            from which the group's members got no record.
        """
        places = self._plan.topic_partitions
        wanted: set[Touched] = {*places}
        inputs = {*self._plan.inputs}
        read = [place for place in places if place[0] in inputs]
        wanted |= {(group, *place) for group in groups(self._plan) for place in read}
        return frozenset(wanted.difference(*(worker.told.touched() for worker in self._workers)))

    def unended(self) -> frozenset[str]:
        """Return the transactional ids whose last transaction has an unknown end.

        The next transaction with such an id needs a new producer.
        """
        return frozenset[str]().union(*(worker.told.unended() for worker in self._workers))

    def counts(self) -> FleetCounts:
        """Return the workers' last reported counts."""
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
        """Return a sentence for each worker that ended without a command to stop."""
        return [
            worker.obituary() for worker in self._workers if not worker.stopping and worker.ended()
        ]

    def crashes(self) -> list[Crash]:
        """Return the workers' crashes, including crashes during the stop."""
        found = [crash_of(each.number, each.exit_code(), each.log) for each in self._workers]
        return [each for each in found if each is not None]

    def stop(self, timeout_s: float) -> list[str]:
        """Start no new ops, wait for ops in flight, and end the workers. A second call is harmless.

        Args:
            timeout_s: The time limit for ops in flight. Ops still in flight after this limit stay
                open in the record.

        Returns:
            A sentence for each worker that had to be killed, or that had died before.
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
        """Let a JVM unpack native libraries in the run's folder, so that no file stays in /tmp."""
        program, *rest = java
        return (program, f"-Djava.io.tmpdir={self._paths.root.absolute() / 'workers'}", *rest)

    def _abandon(self) -> None:
        for worker in self._workers:
            worker.stopping = True
            worker.end(stopwatch_s())


def _is_ready_or_ended(worker: FleetWorker) -> bool:
    return worker.is_ready() or worker.ended()


class Told:
    """The reports of a worker."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._phases = 0
        self._touched: set[Touched] = set()
        self._unended: frozenset[str] = frozenset()
        self._statuses: deque[_Status] = deque([_Status(at_s=stopwatch_s())])

    def enter(self) -> None:
        """Clear the set of active partitions, because a new phase begins for the worker."""
        with self._lock:
            self._phases += 1
            self._touched.clear()

    def touched(self) -> frozenset[Touched]:
        """Return the partitions in which the worker was active since the recovery phase began."""
        with self._lock:
            return frozenset(self._touched)

    def unended(self) -> frozenset[str]:
        """Return the transactional ids whose end was unknown in the worker's last report."""
        with self._lock:
            return self._unended

    def statuses(self, since_s: float) -> tuple[_Status, _Status]:
        """Return the newest status from before `since_s`, and the newest status of all."""
        with self._lock:
            while len(self._statuses) > 1 and self._statuses[1].at_s <= since_s:
                self._statuses.popleft()
            return self._statuses[0], self._statuses[-1]

    def note(self, line: object) -> None:
        """Record a status line."""
        told = _Line.model_validate(line)
        with self._lock:
            self._statuses.append(_status(told))
            self._unended = frozenset(told.unended)
            if told.phases == self._phases:  # Earlier reports belong to another phase.
                self._touched.update(told.taken, told.read)


def environment_with(library: Path | None) -> dict[str, str] | None:
    """Return the environment of a worker with another client library. None means no change."""
    if library is None:
        return None
    rest = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), *([rest] if rest else [])])}


class _Worker:
    """A worker's process, its pipe, and the thread that reads its reports."""

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
            f"worker {self.number} exited by itself with status {status}; see its last output in"
            f" {self.log}"
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
            return  # The worker has just ended; `died` reports it.

    def end(self, deadline_s: float) -> bool:
        """Wait for the process, or kill it at the deadline. Return whether it ended by itself."""
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
    unended: list[str] = []


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
