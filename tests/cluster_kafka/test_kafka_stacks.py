"""Real JVMs print their stacks, and name the deadlocks that they found."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.hosts.disk import LocalDisk
from cluster.hosts.signals import process_id, send_signal
from cluster.java import find_java
from cluster.kafka import stacks
from cluster.protocol import ProcessId
from results.record.clock import wait_until
from tests.machine import needs

DEADLOCK = """
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

public class Deadlock {
    static final ReentrantLock first = new ReentrantLock(), second = new ReentrantLock();

    static Thread taker(String name, ReentrantLock one, ReentrantLock other, CountDownLatch both) {
        return new Thread(() -> {
            one.lock();
            both.countDown();
            try { both.await(); } catch (InterruptedException never) { return; }
            other.lock();
        }, name);
    }

    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            CountDownLatch both = new CountDownLatch(2);
            taker("handler-1", first, second, both).start();
            taker("handler-2", second, first, both).start();
            both.await();
        }
        System.out.println("ready");
        Thread.sleep(600_000);
    }
}
"""


@contextmanager
def jvm(folder: Path, *words: str) -> Iterator[ProcessId]:
    (folder / "logs").mkdir(parents=True)
    source = folder / "Deadlock.java"
    source.write_text(DEADLOCK)
    log = folder / stacks.STDOUT
    with log.open("wb") as stdout, subprocess.Popen(
        [find_java().path, "-XX:TieredStopAtLevel=1", source, *words],
        stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: "ready" in log.read_text(), timeout_s=60, what="the JVM")
            yield process_id(process.pid)
        finally:
            process.kill()


@needs("compiler")
def test_a_deadlock_is_named_and_a_jvm_without_one_is_not(tmp_path: Path) -> None:
    folders = {"n1": tmp_path / "n1", "n2": tmp_path / "n2"}
    with jvm(folders["n1"]) as calm, jvm(folders["n2"], "deadlock") as stuck:
        processes = {"n1": calm, "n2": stuck}
        for _ in range(2):  # What was printed before is not read again.
            found = stacks.printed_stacks(
                ["n1", "n2"],
                lambda node: LocalDisk(folders[node]),
                lambda node, number: send_signal(processes[node], number),
            )
            assert found["n1"] == ""
            what, _, told = found["n2"].partition(": ")
            assert what == "deadlock"
            waits = set(told.split(", "))
            assert waits == {
                "handler-1 waits for handler-2",
                "handler-2 waits for handler-1",
            }


def test_who_prints_nothing_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "PRINTED_WITHIN_S", 0.2)
    said = stacks.printed_stacks(["n1"], lambda _: LocalDisk(tmp_path), lambda *_: None)
    assert said == {"n1": stacks.NOTHING}


def test_monitors_and_threads_that_are_gone_are_told_too() -> None:
    printed = """
Found one Java-level deadlock:
=============================
"a b":
  waiting to lock monitor 0x1 (object 0x2, a java.lang.Object),
  which is held by "c"

"c":
  waiting to lock monitor 0x3 (object 0x4, a java.lang.Object),
  which is held by "a b"

Java stack information for the threads listed above:
===================================================
"a b":
Found 1 deadlock.
"""
    assert stacks.deadlock(printed) == "a b waits for c, c waits for a b"
    assert stacks.deadlock("no such thing") == ""
