"""Measures the CPU time of the watcher behind `--stop-on-violation`, in the first minute and later.

    python -m benchmarks.watching [--minutes 30] [--rate 500]           faster than real time
    python -m benchmarks.watching --real [--minutes 31] [--rate 500]    a run of Kafka, in real time

The first command writes the record of a correct default run (three nodes, eight partitions, the
given rate) step by step. The watcher checks it as often as in a real run. The cost of a check is
its CPU time. The second command executes a run with faults, and also prints the CPU time of all
other processes of the run. Both print the cost in the first and in the last minute, and the highest
memory use. The exit code is 1 if the watcher used more than a tenth of a core in any minute.
"""

import argparse
import json
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from harness.simulated.encoding import record_batch
from harness.watcher import INTERVAL_S, LOOKS, MOST_OF_A_CORE, Watcher
from results.record.clock import NS_PER_S, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import StreamWriter
from results.record.terms import F, Isolation, Outcome, Phase
from results.record.topics import CreatedTopic
from results.record.values import pack_value

_TICK_NS = NS_PER_S // 10
_READERS = 9
"""The number of readers of each record, as in a default run."""
_ID = "00000000-0000-0000-0000-00000000000{}"
_GOAL = 0.1
_WORKER = ("op_invocations", "op_completions", "send_invocations", "send_completions", "polled")
_OBSERVER = ("leadership", "quorum_states", "replica_states")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The cost of one check by the watcher.

    Attributes:
        at_s: Seconds from the watcher's start to this check.
        processor_ms: CPU milliseconds.
        rows: The number of rows that the watcher keeps in memory.
        memory_mib: The highest memory of its process so far, in MiB.
    """

    at_s: float
    processor_ms: float
    rows: int
    memory_mib: int


class Feed:
    """Writes the growing record of a correct run, with its replicas' logs.

    Args:
        root: An empty folder.
        rate: Operations a second. Half are sends of one message, half are polls.
    """

    def __init__(self, root: Path, rate: float) -> None:
        self.paths, self.plan = RunPaths(root), Plan(nemesis=())
        self.topics = [
            CreatedTopic(topic=name, topic_id=_ID.format(number), partitions=self.plan.partitions)
            for number, name in enumerate(self.plan.topic_names, start=1)
        ]
        self._ids = {each.topic: each.topic_id for each in self.topics}
        self._sends = round(rate / 2 * _TICK_NS / NS_PER_S)
        self._rng = Random(1)
        self._ends = dict.fromkeys(self.plan.topic_partitions, 0)
        self._now_ns, self._op = 0, 0
        self.paths.live.mkdir(parents=True)
        self._streams = {
            (table, writer): StreamWriter(self.paths.live, table, writer)
            for tables, writers in (
                (_WORKER, ("worker-0", "worker-1")),
                (_OBSERVER, ("observer-n1", "observer-n2", "observer-n3")),
                (("faults",), ("nemesis",)),
            )
            for table in tables
            for writer in writers
        }
        self.nodes = [f"n{number}" for number in range(1, self.plan.nodes + 1)]
        for place in self._ends:
            for node in self.nodes:
                self._log(node, place).parent.mkdir(parents=True)
                self._log(node, place).touch()

    def now_ns(self) -> int:
        """Return the time that the run has reached."""
        return self._now_ns

    def close(self) -> None:
        """Close the streams."""
        for stream in self._streams.values():
            stream.close()

    def pass_s(self, seconds: float) -> None:
        """Continue the run for some seconds."""
        for _ in range(round(seconds * NS_PER_S / _TICK_NS)):
            self._now_ns += _TICK_NS
            self._tick()

    def _tick(self) -> None:
        for number in range(self._sends):
            self._send(f"worker-{number % 2}")
            self._poll(f"worker-{number % 2}")
        if self._now_ns % (NS_PER_S // 2) == 0:
            for node in self.nodes:
                self._observe(node)
        for stream in self._streams.values():
            stream.flush()

    def _op_of(self, writer: str, f: F) -> int:
        self._op += 1
        begun_ns = self._now_ns - _TICK_NS // 2
        told = (self._op, self._op % 16, int(writer[-1]), f.value, Phase.MAIN.value, begun_ns)
        self._streams["op_invocations", writer].append(told)
        done = (self._op, self._now_ns, Outcome.OK.value, None)
        self._streams["op_completions", writer].append(done)
        return self._op

    def _send(self, writer: str) -> None:
        place = self._rng.choice(self.plan.topic_partitions)
        offset = self._ends[place]
        number = 1 + self.plan.topic_partitions.index(place)
        value, op_id = pack_value(number, offset + 1), self._op_of(writer, F.SEND)
        named = (place[0], self._ids[place[0]], place[1])
        self._streams["send_invocations", writer].append(
            (op_id, 0, *named, value, "all", None, None)
        )
        self._streams["send_completions", writer].append(
            (op_id, 0, offset, Outcome.OK.value, True, None)
        )
        batch = _batch(offset, value, self.plan.payload_bytes)
        for node in self.nodes:
            with self._log(node, place).open("ab") as file:
                file.write(batch)
        self._ends[place] += 1

    def _poll(self, writer: str) -> None:
        place = self._rng.choice(self.plan.topic_partitions)
        op_id, end = self._op_of(writer, F.POLL), self._ends[place]
        number = 1 + self.plan.topic_partitions.index(place)
        named = (place[0], self._ids[place[0]], place[1])
        isolation = Isolation.READ_UNCOMMITTED.value
        for pos, offset in enumerate(range(max(0, end - _READERS), end)):
            row = (op_id, 0, pos, *named, offset, pack_value(number, offset + 1), 1, isolation, 0)
            self._streams["polled", writer].append(row)

    def _observe(self, node: str) -> None:
        writer, broker = f"observer-{node}", int(node[1:])
        asked_ns = self._now_ns - 1_000_000
        for number, (place, end) in enumerate(self._ends.items()):
            named = (place[0], self._ids[place[0]], place[1])
            seen = (*named, asked_ns, self._now_ns)
            leader = 1 + number % self.plan.nodes
            if leader == broker:
                self._streams["leadership", writer].append(
                    (*seen, "list-offsets", node, 1, broker, 1, None, end, None, None)
                )
            if self._now_ns % (2 * NS_PER_S) == 0:
                self._streams["leadership", writer].append(
                    (*seen, "metadata", node, 1, leader, 1, [1, 2, 3], None, None, None)
                )
            state = (*named, self._now_ns, None, node, 1, 0, end, end, "fetch", self._now_ns, end)
            self._streams["replica_states", writer].append((*state, None))

    def _log(self, node: str, place: tuple[str, int]) -> Path:
        folder = self.paths.node(node) / "data" / f"{place[0]}-{place[1]}"
        return folder / "00000000000000000000.log"


def _batch(offset: int, value: int, payload_bytes: int) -> bytes:
    """Return a batch with one record of epoch 1, as Kafka writes it to disk."""
    sent = record_batch([value], payload_bytes=payload_bytes, producer=(0, 0, offset), at_ms=0)
    return struct.pack(">q", offset) + sent[8:12] + struct.pack(">i", 1) + sent[16:]


def fed(minutes: float, rate: float) -> list[Look]:
    """Return the watcher's checks of a record that is written faster than real time."""
    with ExitStack() as stack:
        feed = Feed(Path(stack.enter_context(tempfile.TemporaryDirectory())), rate)
        stack.callback(feed.close)
        folders = {node: feed.paths.node(node) for node in feed.nodes}
        watcher = Watcher(feed.paths, feed.plan, feed.topics, folders)
        looks, waits_s = list[Look](), INTERVAL_S
        while feed.now_ns() < minutes * 60 * NS_PER_S:
            feed.pass_s(waits_s)
            used_s = time.process_time()
            found = watcher.look(feed.now_ns)
            cost_s = time.process_time() - used_s
            if found is not None:
                raise SystemExit(f"a faithful record was stopped: {found.example.sentence}")
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            looks.append(
                Look(
                    at_s=feed.now_ns() / NS_PER_S,
                    processor_ms=1000 * cost_s,
                    rows=watcher.rows,
                    memory_mib=memory,
                )
            )
            waits_s = max(INTERVAL_S, cost_s / MOST_OF_A_CORE)
            if len(looks) > 1 and int(looks[-2].at_s / 60) < int(looks[-1].at_s / 60):
                minute, last = max(by_minute(looks[:-1]).items())
                print(f"minute {minute}: {_share(last):.1%} of a core", file=sys.stderr)
    return looks


def played(minutes: float, rate: float) -> tuple[list[Look], dict[int, float]]:
    """Return the watcher's checks of a real run, and the CPU time of all other processes.

    Returns:
        The checks, and the CPU seconds of the run's other processes, for each minute, counted from
        1.
    """
    with tempfile.TemporaryDirectory() as store:
        command = [
            sys.executable, "-m", "harness.cli", "run", "--stop-on-violation", "--seed", "1",
            "--time-limit", str(60 * minutes), "--rate", str(rate), "--store", store,
        ]  # fmt: skip
        run = subprocess.Popen(command)
        used: dict[int, float] = {}
        over = threading.Event()
        looker = threading.Thread(target=_sum_up, args=(run.pid, used, over))
        looker.start()
        run.wait()
        over.set()
        looker.join()
        (file,) = Path(store).glob(f"*/*/{LOOKS}")
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    begun_ns = lines[0]["at_ns"] if lines else 0
    looks = [
        Look(
            at_s=(line["at_ns"] - begun_ns) / NS_PER_S,
            processor_ms=line["processor_ms"],
            rows=line["rows"],
            memory_mib=line["memory_mib"],
        )
        for line in lines
    ]
    return looks, used


def _sum_up(pid: int, used: dict[int, float], over: threading.Event) -> None:
    """Add up, for each minute of the watcher, the CPU seconds of a run's other processes."""
    seen: dict[int, float] = {}
    begun_s: float | None = None
    while not pause_until(stopwatch_s() + 1, over):
        watchers = set()
        for process in psutil.Process(pid).children(recursive=True):
            try:
                if "harness.watcher" in process.cmdline():
                    watchers.add(process.pid)
                    continue
                times = process.cpu_times()
            except psutil.Error:
                continue
            now_s, before_s = times.user + times.system, seen.get(process.pid)
            seen[process.pid] = now_s
            if begun_s is not None and before_s is not None:
                minute = 1 + int((stopwatch_s() - begun_s) / 60)
                used[minute] = used.get(minute, 0) + now_s - before_s
        if watchers and begun_s is None:
            begun_s = stopwatch_s()


def _share(looks: Sequence[Look]) -> float:
    """Return the share of a core that the checks of a minute used."""
    return sum(look.processor_ms for look in looks) / 60_000


def _speed_s() -> float:
    """Return the CPU seconds of ten million additions, which take half a second on a fast CPU."""
    used_s, number = time.process_time(), 0
    for each in range(10_000_000):
        number += each
    return time.process_time() - used_s


def by_minute(looks: Sequence[Look]) -> dict[int, list[Look]]:
    """Return the checks of each minute, from 1."""
    minutes: dict[int, list[Look]] = {}
    for look in looks:
        minutes.setdefault(1 + int(look.at_s / 60), []).append(look)
    return minutes


def main() -> None:
    """Measure, and print a line for the first two minutes, each fifth minute, and the last."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--real", action="store_true", help="play a run of Kafka")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=500)
    chosen = parser.parse_args()
    way = played if chosen.real else fed
    told = way(chosen.minutes, chosen.rate)
    looks, others = told if isinstance(told, tuple) else (told, {})
    minutes = by_minute(looks)
    print("minute  looks  longest look  of a core  the rest of the run  rows kept  memory")
    worst = 0.0
    for minute, each in sorted(minutes.items()):
        share = _share(each)
        worst = max(worst, share)
        if minute in {1, 2, max(minutes)} or minute % 5 == 0:
            rest = f"{others[minute] / 60:.2f} cores" if minute in others else "-"
            print(
                f"{minute:6}  {len(each):5}  {max(look.processor_ms for look in each):9.0f} ms"
                f"  {share:9.1%}  {rest:>19}  {each[-1].rows:9,}  {each[-1].memory_mib} MiB"
            )
    print(f"ten million additions take {_speed_s():.2f} s of a processor here, now")
    print(f"at most {worst:.1%} of a core in a minute; the goal is {_GOAL:.0%}")
    sys.exit(worst > _GOAL)


if __name__ == "__main__":
    main()
