"""Runs a command as a separate process, and measures its cost together with its child processes."""

import os
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Thread

import psutil

from results.record.clock import stopwatch_s

_SAMPLE_S = 0.2
_BUSY = 1.5
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a command.

    Attributes:
        wall_s: Wall-clock seconds from its start to its end.
        cpu_s: CPU seconds of the command's process and all processes below it.
        peak_mib: The highest total of resident memory in any sample, in MiB. A memory page that two
            processes share counts twice.
        load: The machine's one-minute load average at the start. With 2 cores, 2 is full load.
        busy: The share of samples in which the processes used more than 1.5 cores.
        said: The output of the command.
    """

    wall_s: float
    cpu_s: float
    peak_mib: int
    load: float
    busy: float
    said: str


class _Watch:
    """Samples the CPU time and memory of a process and all processes below it.

    The samples are needed because some processes end while their parents do not wait for them.
    """

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self.samples = self.busy = 0
        self._cpu: dict[tuple[int, float], float] = {}
        self._root = psutil.Process(pid)
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End the sampling, and return the CPU seconds seen."""
        self._ended.set()
        self._thread.join()
        return sum(self._cpu.values())

    def _run(self) -> None:
        last_s, before_s = stopwatch_s(), 0.0
        while not self._ended.wait(_SAMPLE_S):
            resident = 0
            try:
                family = [self._root, *self._root.children(recursive=True)]
            except psutil.Error:
                continue
            for process in family:
                try:
                    with process.oneshot():
                        used = process.cpu_times()
                        resident += process.memory_info().rss
                        key = (process.pid, process.create_time())
                        self._cpu[key] = used.user + used.system
                except psutil.Error:
                    continue
            self.peak = max(self.peak, resident)
            now_s, used_s = stopwatch_s(), sum(self._cpu.values())
            self.samples += 1
            self.busy += used_s - before_s > _BUSY * (now_s - last_s)
            last_s, before_s = now_s, used_s


def measured(command: Sequence[str]) -> Cost:
    """Run a command to its end.

    Raises:
        RuntimeError: The command ended by a signal, or with a traceback.
    """
    load = os.getloadavg()[0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_s = stopwatch_s()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        watch = _Watch(process.pid)
        said = process.stdout.read() if process.stdout else ""
        code = process.wait()
    wall_s, seen_s = stopwatch_s() - begun_s, watch.stop()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if code < 0 or "Traceback" in said:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{said}")
    return Cost(
        wall_s=wall_s, cpu_s=max(waited_s, seen_s), peak_mib=watch.peak // _MIB, load=load,
        busy=watch.busy / max(1, watch.samples), said=said,
    )  # fmt: skip
