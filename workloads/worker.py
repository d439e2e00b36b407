"""One worker, `python -m workloads.worker CONFIG.json`: many logical processes in one thread.

Standard input has JSON lines as commands:

- `{"phase": "main"}` sets the phase. Each such command clears the set of partitions that were
  active in the recovery, even if the phase is the same.
- `{"stop": 10.0}` means: start no new ops, and wait 10 seconds for the ops in flight.

If standard input ends, the controller (the main process of the run) has died. The worker then
finishes its record and ends within a second. The worker writes a JSON line to standard output when
it is ready, and then five lines a second with the counts of ops. `workloads.fleet` controls the
workers.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from statistics import quantiles
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from results.record.clock import NS_PER_S, RunClock, stopwatch_s
from results.record.identities import group_of, groups
from results.record.loads import Load
from results.record.plan import Plan
from results.record.shares import has_shares
from results.record.terms import Isolation, Phase
from results.record.topics import CreatedTopic
from workloads.clients.kinds import LIBRDKAFKA, Kind, java
from workloads.clients.producer import UnreachableError
from workloads.clients.sharer import set_up_share_group
from workloads.crew import Clients, Crew
from workloads.member import GroupMember
from workloads.pacing import Arrivals
from workloads.protocol import LoneSender, Reader
from workloads.recorder import COMMITS, SHARED, STREAMS, TRANSACTIONS, TRANSFORMS, Recorder
from workloads.registry import WORKLOADS
from workloads.sharer import ShareMember
from workloads.txn import isolation_of

FLUSH_S = 0.05
STATUS_S = 0.2
READY_TIMEOUT_S = 15.0
_TICK_S = 0.02
"""The longest wait for reports. A command or a flush is delayed by at most this time."""
_SHORTEST_WAIT_S = 0.002
"""The shortest wait. librdkafka counts in milliseconds, so a shorter wait would be a busy loop."""
_HEAVY_PAUSE_S = 0.004
"""Under heavy load, the pause between ops. Meanwhile readers fetch and writers fill batches."""
_PR_SET_PDEATHSIG = 1
_COLLECT_EVERY = 100_000
"""The number of new objects until the next garbage collection. About fifty polls create so many."""
_LAST_SECONDS = 3
"""If the controller has died and the worker's loop hangs, the worker is killed after so many
seconds."""


class WorkerConfig(BaseModel):
    """The configuration of a worker at its start.

    Attributes:
        plan: The run's plan.
        topics: The created topics.
        bootstrap: The addresses `host:port,...`.
        start_ns: The zero of the run's clock.
        live: The folder of the live streams.
        worker: This worker's number.
        workers: The number of workers.
        parent: The pid of the controller.
        java: The command line of the JVM with Kafka's own clients. Empty for librdkafka.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Plan
    topics: tuple[CreatedTopic, ...]
    bootstrap: str
    start_ns: int
    live: Path
    worker: int
    workers: int
    parent: int
    java: tuple[str, ...] = ()


class Order(Enum):
    """The commands that end a worker."""

    STOP = "stop"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to a worker: begin a new phase, or end within `limit_s` seconds."""

    phase: Phase | None = None
    order: Order | None = None
    limit_s: float = 0


class Control(Protocol):
    """The controller's commands."""

    def commands(self) -> list[Command]:
        """Return the commands since the last call, without waiting."""


class Pipe:
    """The commands of a controller in another process.

    Args:
        fd: The reading end of a pipe.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        os.set_blocking(fd, False)

    def commands(self) -> list[Command]:
        """Return the commands since the last call; the end of the pipe is a command, too."""
        try:
            data = os.read(self._fd, 65_536)
        except BlockingIOError:
            return []
        if not data:
            return [Command(order=Order.ABANDONED)]
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [command_of(json.loads(line)) for line in lines if line.strip()]


def command_of(line: Mapping[str, object]) -> Command:
    """Return the command in a line."""
    if "phase" in line:
        return Command(phase=Phase(str(line["phase"])))
    return Command(order=Order.STOP, limit_s=float(str(line["stop"])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment of a worker.

    Attributes:
        clients: Creates the worker's clients, given the run's clock.
        say: Sends a report to the controller.
        flush_s: Seconds between two writes of the worker's record. If a worker may be killed, it
            writes often.
    """

    clients: Callable[[WorkerConfig, RunClock], Clients]
    say: Callable[[dict[str, object]], None]
    flush_s: float = FLUSH_S


class Worker:
    """The loop that starts ops, handles reports, writes the record and reports counts.

    Args:
        config: The worker's configuration.
        control: The commands to the worker.
        around: The worker's environment.
    """

    def __init__(self, config: WorkerConfig, control: Control, around: Surroundings) -> None:
        plan = config.plan
        self._config = config
        self._control = control
        self._say, self._flush_s = around.say, around.flush_s
        self._clock = RunClock(start_ns=config.start_ns)
        self._recorder = Recorder(
            config.live,
            f"worker-{config.worker}",
            worker=config.worker,
            topics=config.topics,
            acks=plan.acks,
            streams=_streams(plan),
        )
        generator = WORKLOADS[plan.workload].generator
        self._crew = Crew(
            range(config.worker, plan.concurrency, config.workers),
            concurrency=plan.concurrency,
            worker=config.worker,
            generator=generator(plan, worker=config.worker, workers=config.workers),
            clients=around.clients(config, self._clock),
            recorder=self._recorder,
            clock=self._clock,
        )
        self._heavy = plan.load is Load.HEAVY
        self._phase, self._phases = Phase.WARMUP, 0
        self._flush_at_s = self._status_at_s = 0.0

    def run(self) -> None:
        """Work until a stop command or the controller's death; the record is then complete."""
        self._say({"ready": True})
        rate = self._config.plan.rate / self._config.workers
        self._arrivals = Arrivals(rate, start_ns=self._clock.now_ns())
        command = self._work()
        self._arrivals.give_up()
        if command.order is Order.STOP:
            self._wait_for_flights(command.limit_s)
        self._recorder.arrived(self._arrivals.closed())
        self._crew.end()
        self._recorder.close()
        self._tell()

    def _work(self) -> Command:
        while True:
            for command in self._control.commands():
                if command.order is not None:
                    return command
                self._phase = command.phase or self._phase
                self._phases += 1
                self._crew.taken.clear()
                self._crew.read.clear()
            self._serve(self._pause_s(busy=self._start_ops()))
            self._housekeep()

    def _serve(self, pause_s: float) -> None:
        """Wait for reports. Under heavy load, handle all reports that come within the pause."""
        until_ns = self._clock.now_ns() + round(pause_s * NS_PER_S)
        self._crew.serve(pause_s)
        while self._heavy and (left_ns := until_ns - self._clock.now_ns()) > 0:
            self._crew.serve(left_ns / NS_PER_S)

    def _start_ops(self) -> bool:
        """Start ops for waiting arrivals in free processes; return whether an op did anything."""
        busy = False
        self._arrivals.offer(self._clock.now_ns(), self._phase)
        for _ in range(self._crew.free):
            if not self._arrivals.take(self._clock.now_ns(), self._phase):
                break
            busy = self._crew.invoke(self._phase) or busy
        return busy

    def _pause_s(self, *, busy: bool) -> float:
        if self._heavy and self._crew.free:
            return _HEAVY_PAUSE_S
        if self._config.plan.rate == 0:
            return 0 if busy and self._crew.free else _SHORTEST_WAIT_S
        until_next_s = (self._arrivals.next_ns() - self._clock.now_ns()) / NS_PER_S
        return min(_TICK_S, max(_SHORTEST_WAIT_S, until_next_s))

    def _wait_for_flights(self, limit_s: float) -> None:
        deadline_s = stopwatch_s() + limit_s
        while self._crew.in_flight and stopwatch_s() < deadline_s:
            if any(each.order is Order.ABANDONED for each in self._control.commands()):
                return
            self._crew.serve(_TICK_S)
            self._housekeep()

    def _housekeep(self) -> None:
        now_s = stopwatch_s()
        if now_s >= self._flush_at_s:
            self._flush_at_s = now_s + self._flush_s
            self._recorder.arrived(self._arrivals.closed(self._clock.now_ns()))
            self._recorder.flush()
        if now_s >= self._status_at_s:
            self._status_at_s = now_s + STATUS_S
            self._tell()

    def _tell(self) -> None:
        latencies_ms = [each / 1e6 for each in self._crew.latencies_ns]
        self._crew.latencies_ns.clear()
        cuts = quantiles(latencies_ms, n=100) if len(latencies_ms) > 1 else latencies_ms * 99
        recovering = self._phase is Phase.RECOVERY
        taken = sorted(self._crew.taken) if recovering else []
        read = [(group, *key) for group, key in sorted(self._crew.read) if recovering]
        self._crew.taken.clear()
        self._crew.read.clear()
        self._say({
            "ops": [[f, outcome, count] for (f, outcome), count in self._crew.ops.items()],
            "offered": self._arrivals.offered,
            "missed": self._arrivals.missed,
            "in_flight": self._crew.in_flight,
            "latency_ms": [cuts[49], cuts[98]] if cuts else None,
            "phases": self._phases,
            "taken": taken,
            "read": read,
            "unended": sorted(self._crew.unended),
        })  # fmt: skip


def _streams(plan: Plan) -> tuple[str, ...]:
    more = {
        TRANSACTIONS: plan.transactional,
        COMMITS: plan.is_grouped,
        TRANSFORMS: plan.workload == "pipeline",
        SHARED: has_shares(plan),
    }
    return (*STREAMS, *(name for name, has in more.items() if has))


def _clients(config: WorkerConfig, clock: RunClock) -> Clients:
    plan, bootstrap = config.plan, config.bootstrap
    kind = java(config.java) if config.java else LIBRDKAFKA
    first = kind.sender(plan, bootstrap=bootstrap, worker=config.worker)
    for topic in config.topics:
        first.check_reachable(topic.topic, timeout_s=READY_TIMEOUT_S)
    for group in groups(plan) if has_shares(plan) else ():
        set_up_share_group(plan, bootstrap=bootstrap, group=group)
    made = [first]

    def sender() -> LoneSender:
        return made.pop() if made else kind.sender(
            plan, bootstrap=bootstrap, worker=config.worker
        )  # fmt: skip

    clients = Clients(
        sender=sender,
        reader=lambda process: _reader(kind, config, process, clock),
        transactor=lambda thread: kind.transactor(plan, bootstrap=bootstrap, thread=thread),
    )
    if not plan.transactional:
        return replace(clients, transactor=None)
    if plan.keys:  # If there is a sender, the workload has plain sends, too.
        return clients
    first.close()
    return replace(clients, sender=None)


def _reader(kind: Kind, config: WorkerConfig, process: int, clock: RunClock) -> Reader:
    plan, client_id = config.plan, f"process-{process}"
    thread = process % plan.concurrency
    isolation = Isolation.READ_UNCOMMITTED
    if plan.transactional:
        isolation = isolation_of(thread, workers=config.workers)
    group = group_of(thread, plan, workers=config.workers)
    if group is None:
        return kind.reader(
            plan, bootstrap=config.bootstrap, client_id=client_id, isolation=isolation
        )
    if has_shares(plan):
        sharer = kind.sharer(plan, bootstrap=config.bootstrap, client_id=client_id, group=group)
        return ShareMember(sharer, group=group, clock=clock)
    client = kind.member(
        plan, bootstrap=config.bootstrap, client_id=client_id, group=group, isolation=isolation
    )
    return GroupMember(client, group=group, clock=clock)


def _say(line: dict[str, object]) -> None:
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The controller has died. The end of standard input reports that too, and ends the loop.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the exit


def _outlive_nobody(parent: int) -> None:
    """Let the kernel kill a worker that hangs after the controller's death.

    Normally, the worker ends because the pipe is closed. Linux sends the death signal at the same
    time, so this signal only sets an alarm. The alarm gives the loop some seconds to end by itself.
    """
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.alarm(_LAST_SECONDS))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)


def collect_seldom() -> None:
    """Collect garbage only seldom, because polled messages are never part of a reference cycle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)


def main(config_path: str) -> None:
    """Run the worker that a config file describes. Then end without waiting for its clients."""
    # The controller decides when to stop, but Ctrl-C in a terminal reaches all processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = WorkerConfig.model_validate_json(Path(config_path).read_text(encoding="utf-8"))
    _outlive_nobody(config.parent)
    status = 0
    try:
        around = Surroundings(clients=_clients, say=_say)
        worker = Worker(config, Pipe(sys.stdin.fileno()), around)
        collect_seldom()
        worker.run()
    except UnreachableError as unreachable:
        _say({"error": str(unreachable)})
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # librdkafka's handles wait for their connections at their destruction, which is not needed.
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
