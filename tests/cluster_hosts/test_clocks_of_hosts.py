"""Clocks of processes, shifted by the real libfaketime: told by the process itself."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.hosts import clock
from cluster.hosts.choose import HostKind
from cluster.protocol import CanShiftClock, Command, Hosts, ProcessId
from results.record.clock import wait_until
from results.record.paths import RunPaths
from tests.cluster_hosts.conftest import Room
from tests.machine import needs

pytestmark = needs("faketime")

# Python sleeps until a moment of the monotonic clock, which libfaketime takes for one of the wall
# clock's; Java waits otherwise.
TELL = """
import select, time
before = time.monotonic()
while True:
    select.select([], [], [], 0.05)
    now = time.monotonic()
    print(time.time(), now - before, flush=True)
    before = now
"""


class Teller:
    """A process on a node that tells its time again and again."""

    def __init__(self, hosts: Hosts, folder: Path, node: str, *, shifted: bool) -> None:
        self._log = folder / f"{node}.log"
        RunPaths(folder).node(node).mkdir(parents=True)
        assert isinstance(hosts, CanShiftClock)
        env = dict(hosts.clock_environment(node)) if shifted else {}
        command = Command(argv=[sys.executable, "-c", TELL], log=self._log, cwd=folder, env=env)
        self.process: ProcessId = hosts.spawn(node, command)

    def ahead_s(self) -> float:
        """Return by how much the newest time that it told is ahead of ours."""
        return self._newest()[0] - time.time()  # noqa: TID251 - compared with a wall clock

    def waited_s(self) -> float:
        """Return how long its last wait of 50 ms took by its monotonic clock."""
        return self._newest()[1]

    def _newest(self) -> tuple[float, float]:
        count = len(self._lines())
        wait_until(
            lambda: len(self._lines()) > count + 1, timeout_s=30, what="a time", interval_s=0.01
        )
        told, waited = self._lines()[-1].split()
        return float(told), float(waited)

    def _lines(self) -> list[str]:
        text = self._log.read_text() if self._log.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()


def until_ahead(teller: Teller, low_s: float, high_s: float) -> None:
    wait_until(
        lambda: low_s < teller.ahead_s() < high_s,
        timeout_s=30,
        what=f"a clock that is ahead by {low_s} to {high_s} s",
        interval_s=0.01,
    )


def test_a_clock_jumps_drifts_and_is_true_again_and_no_other_one_is_touched(
    namespace_room: Room, tmp_path: Path
) -> None:
    assert clock.why_not() == ""
    with namespace_room.hosts(tmp_path) as hosts:
        assert isinstance(hosts, CanShiftClock)
        wrong = Teller(hosts, tmp_path, "n1", shifted=True)
        right = Teller(hosts, tmp_path, "n2", shifted=True)
        until_ahead(wrong, -1, 1)
        for offset_s in (7200.0, -7200.0, 3.5):
            hosts.set_clock("n1", offset_s=offset_s)
            until_ahead(wrong, offset_s - 1, offset_s + 1)
            assert abs(hosts.clock_offset_s("n1") - offset_s) < 0.1
            assert wrong.waited_s() < 20, "what it waits for is measured by the true time"
            assert abs(right.ahead_s()) < 1
        hosts.set_clock("n1", offset_s=0, rate=2.0)
        until_ahead(wrong, 2, 30)
        hosts.set_clock("n1", offset_s=0, rate=0.5)
        until_ahead(wrong, -30, -2)
        hosts.reset_clock("n1")
        until_ahead(wrong, -1, 1)
        hosts.reset_clock("n1")
        assert hosts.clock_offset_s("n1") == 0
        assert abs(right.ahead_s()) < 1


def test_nothing_is_left_of_a_process_that_is_killed(tmp_path: Path) -> None:
    with Room(kind=HostKind.PROCESS).hosts(tmp_path) as hosts:
        first = Teller(hosts, tmp_path, "n1", shifted=True)
        second = Teller(hosts, tmp_path, "n2", shifted=True)
        plain = Teller(hosts, tmp_path, "n3", shifted=False)
        for each in (first, second, plain):
            each.waited_s()
        assert _shared(first.process) == 2
        assert _shared(plain.process) == 0
        hosts.send_signal(first.process, signal.SIGKILL)
        wait_until(lambda: not _shared(first.process), timeout_s=30, what="it to be tidied away")
        assert _shared(second.process) == 2
    assert _shared(second.process) == 0


def _shared(process: ProcessId) -> int:
    names = os.listdir("/dev/shm")  # noqa: S108, PTH208 - looked at
    return sum(name.rpartition("_")[2] == str(process.pid) for name in names)


def test_a_trial_that_is_killed_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, seen = clock.environment, []

    def looked(preloaded: Path, file: Path) -> Mapping[str, str]:
        seen.append(list(tmp_path.iterdir()))
        return environment(preloaded, file)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(clock, "environment", looked)
    assert clock.why_not.__wrapped__() == ""
    assert seen == [[]]
