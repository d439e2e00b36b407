"""The watcher: a process that judges a run in progress, for `logquake run --stop-on-violation`.

`harness.watching` starts `python -m harness.watcher RUN_FOLDER START_NS FOLDERS`. Each round of the
watcher is called a look. A look reads the new rows of the record's live streams, then the new
batches of the replicas' logs. Then the kernels of `checkers.live` check both. A violation is
written to standard output as one JSON object, and ends the process. Each look adds a line to
`looks.jsonl`: when the look ended, how long it took, and how many rows the watcher keeps.

A look begins `INTERVAL_S` after the begin of the previous look. It begins later if the watcher
would otherwise use more than `MOST_OF_A_CORE` of a processor. So a slow machine or much data delays
the detection, but does not disturb the brokers.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from checkers.changes import disturbances
from checkers.disk_losses import disk_losses
from checkers.facts import RunFacts
from checkers.folder import read_declared, read_milestones, read_plan, read_topics
from checkers.ingest import writer_of
from checkers.live.look import Looks, Violation
from checkers.live.window import STREAMS, Window
from checkers.unclean_orders import unclean_orders
from checkers.weakest import as_weakest
from cluster.log_tail import LogTail, Parsed
from cluster.replica_rows import rows_of
from harness.interrupt import die_with_parent
from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import STREAM_SUFFIX, StreamTail, table_of
from results.record.topics import CreatedTopic

INTERVAL_S = 2.5
AGAIN_S = 1.0
"""The pause after a look (a check round) that found a violation. The next look must confirm
the violation."""
MOST_OF_A_CORE = 0.09
READ_BYTES = 8 << 20
"""How many bytes of a stream or a log one look (a check round) reads at most."""
NICE = 5
LOOKS = "looks.jsonl"


class Watcher:
    """The data that one run's watcher has read so far.

    Args:
        paths: The run's folder.
        plan: The plan that is played.
        topics: The created topics.
        folders: The folder of each node whose files this machine can read.
    """

    def __init__(
        self,
        paths: RunPaths,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        folders: Mapping[str, Path],
    ) -> None:
        self._paths, self._plan, self._topics = paths, plan, topics
        self._declared = read_declared(paths, plan)[0]
        self._window = Window(plan, topics)
        self._looks = Looks(self._window)
        self._streams: dict[Path, StreamTail] = {}
        self._logs = {
            place: {
                node: LogTail(folder / "data" / f"{place[0]}-{place[1]}")
                for node, folder in folders.items()
            }
            for place in plan.topic_partitions
        }

    @property
    def rows(self) -> int:
        """The number of rows that the watcher keeps."""
        return self._window.rows

    @property
    def suspects(self) -> bool:
        """Whether the last look found a violation that the next look must still confirm."""
        return self._looks.suspects

    def look(self, now_ns: Callable[[], int]) -> Violation | None:
        """Read the new data, and check it.

        The streams are read before the logs. So if a stream reports a message as acknowledged, the
        message must already be in a log.

        Args:
            now_ns: The function that returns the nanoseconds since the start of the run.
        """
        self._read_streams()
        self._read_logs()
        return self._looks.look(self._facts(), now_ns())

    def _read_streams(self) -> None:
        for path in sorted(self._paths.live.glob(f"*{STREAM_SUFFIX}")):
            table = table_of(path)
            if table in STREAMS:
                tail = self._streams.setdefault(path, StreamTail(path))
                batches, _ = tail.read(READ_BYTES)
                self._window.add(writer_of(path), table, batches)

    def _read_logs(self) -> None:
        for place, tails in self._logs.items():
            low, copies = self._window.low[place], self._window.copies[place]
            parsed = Parsed()
            read = {node: tail.read(low, READ_BYTES, parsed) for node, tail in tails.items()}
            # A log that never existed is not a replica.
            news = {node: each for node, each in read.items() if each.whole or node in copies}
            for node, rows in rows_of(
                place, {node: each.batches for node, each in news.items()}
            ).items():
                copy = self._window.store(place, node, rows, cut=news[node].cut)
                copy.start, copy.end = news[node].start, news[node].end
                copy.whole = news[node].whole and rows is not None

    def _facts(self) -> RunFacts:
        faults = self._window.faults
        return RunFacts(
            run_id=self._paths.run_id,
            recorded_id=self._paths.run_id,
            plan=as_weakest(self._plan, self._declared),
            topics=tuple(self._topics),
            milestones=tuple(read_milestones(self._paths)[0]),
            disk_losses=disk_losses(faults),
            unclean_orders=unclean_orders(faults),
            disturbances=disturbances(faults),
            judge=self._plan.judge,
            declared=self._declared,
            contents_known=True,
        )


def main() -> None:
    """Watch a run.

    The first argument is the run's folder, the second is the time zero of the run's clock.
    """
    paths, clock = RunPaths(Path(sys.argv[1])), RunClock(start_ns=int(sys.argv[2]))
    die_with_parent()
    os.nice(NICE)
    folders = {node: Path(folder) for node, folder in json.loads(sys.argv[3]).items()}
    watcher = Watcher(paths, read_plan(paths)[0], read_topics(paths)[0], folders)
    with (paths.root / LOOKS).open("a", encoding="utf-8") as log:
        violation = _watch(watcher, clock, log)
    sys.stdout.write(json.dumps(asdict(violation)) + "\n")
    sys.stdout.flush()


def _watch(watcher: Watcher, clock: RunClock, log: TextIO) -> Violation:
    while True:
        begun_s, used_s = stopwatch_s(), time.process_time()
        violation = watcher.look(clock.now_ns)
        cost_s = time.process_time() - used_s
        line = {
            "at_ns": clock.now_ns(),
            "took_ms": round(1000 * (stopwatch_s() - begun_s), 1),
            "processor_ms": round(1000 * cost_s, 1),
            "rows": watcher.rows,
            "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }
        log.write(json.dumps(line) + "\n")
        log.flush()
        if violation is not None:
            return violation
        rest_s = max(INTERVAL_S, cost_s / MOST_OF_A_CORE)
        pause_until(begun_s + (AGAIN_S if watcher.suspects else rest_s))


if __name__ == "__main__":
    main()
