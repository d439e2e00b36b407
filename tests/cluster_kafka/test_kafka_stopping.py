"""The last voters of a quorum that stops: killed only when known to wait, and for nobody."""

import signal
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from cluster.hosts.disk import LocalDisk
from cluster.hosts.process import ProcessHosts
from cluster.kafka import stopping
from cluster.kafka.brokers import BrokerProcesses
from cluster.kafka.stopping import Quorum, Voter
from cluster.protocol import ClusterError, Command, ProcessId
from results.record.clock import pause_until, stopwatch_s, wait_until

BEGUN = b"[2026-01-01 00:00:00,000] INFO [RaftManager id=1] Beginning graceful shutdown (o.KRC)\n"
COMPLETED = (
    b"[2026-01-01 00:00:00,000] INFO [RaftManager id=1] Graceful shutdown completed (o.KRC)\n"
)
STOP_S = 20.0
PATIENCE_S = 0.3


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "_ASKED_EACH_S", 0.01)
    monkeypatch.setattr(stopping, "_GONE_FOR_S", 0.1)


class Node:
    """A node's files."""

    def __init__(self, folder: Path) -> None:
        self.log, self.closed = folder / "logs/server.log", folder / "data/.kafka_cleanshutdown"
        self.disk = LocalDisk(folder)
        for file in (self.log, self.closed):
            file.parent.mkdir(parents=True)
        self.log.write_bytes(BEGUN)  # Of an earlier life.

    def say(self, line: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(line)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "n1")


def told(voters: int, alive: int) -> Quorum:
    """Return a quorum whose voters were all told to stop, of which some still run."""
    names = [f"n{number}" for number in range(1, voters + 1)]
    quorum = Quorum(names, lambda each: each in names[:alive])
    for name in names:
        quorum.tell(name)
    return quorum


def waits_in_vain(voter: Voter) -> bool:
    until_s = stopwatch_s() + PATIENCE_S
    while stopwatch_s() < until_s:
        if voter.waits_in_vain():
            return True
        pause_until(stopwatch_s() + 0.01)
    return False


def test_who_has_closed_its_logs_and_waits_for_nobody_need_not_be_waited_for(node: Node) -> None:
    voter = Voter("n1", told(3, 1), node.disk, has_broker=True)
    assert not waits_in_vain(voter)  # By what an earlier life said.
    node.say(BEGUN)
    assert not waits_in_vain(voter)  # Its logs are not closed.
    node.closed.touch()
    assert waits_in_vain(voter)
    assert voter.closed


def test_never_at_the_first_look(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "_ASKED_EACH_S", 0.0)
    voter = Voter("n1", told(3, 1), node.disk, has_broker=True)
    node.say(BEGUN)
    node.closed.touch()
    assert not voter.waits_in_vain()


def test_a_controller_of_its_own_is_waited_for(node: Node) -> None:
    voter = Voter("n101", told(3, 1), node.disk, has_broker=False)
    node.say(BEGUN)
    assert not waits_in_vain(voter)


def test_what_an_earlier_stop_left_proves_nothing(node: Node) -> None:
    node.closed.touch()
    voter = Voter("n1", told(3, 1), node.disk, has_broker=True)
    node.say(BEGUN)
    assert not waits_in_vain(voter)


@pytest.mark.parametrize(
    ("voters", "alive", "gone"),
    [(1, 1, False), (3, 2, False), (3, 1, True), (4, 3, False), (4, 2, True), (5, 3, False)],
)
def test_a_quorum_is_gone_without_a_majority(voters: int, alive: int, gone: bool) -> None:  # noqa: FBT001
    assert told(voters, alive).is_gone() == gone


def test_only_the_end_of_voters_that_were_told_counts_and_is_remembered() -> None:
    asked: list[str] = []

    def runs(node: str) -> bool:
        asked.append(node)
        return False

    quorum = Quorum(["n1", "n2", "n3"], runs)
    quorum.tell("n1")
    assert not quorum.is_gone()
    quorum.tell("n2")
    assert quorum.is_gone()
    assert quorum.is_gone()
    assert asked == ["n1", "n2"]


@pytest.mark.parametrize("says", [b"", BEGUN + COMPLETED], ids=["nothing", "over"])
def test_who_does_not_say_that_it_waits_is_left_alone(node: Node, says: bytes) -> None:
    voter = Voter("n1", told(3, 1), node.disk, has_broker=True)
    node.say(says)
    node.closed.touch()
    assert not waits_in_vain(voter)


class Refusing(LocalDisk):
    """A disk that cannot be asked, from some time on."""

    refuses: list[Exception]

    def size(self, path: PurePosixPath | str) -> int:
        if type(self).refuses:
            raise type(self).refuses[0]
        return super().size(path)


@pytest.mark.parametrize("error", [OSError("refused"), ClusterError("gone")], ids=["os", "host"])
@pytest.mark.parametrize("from_start", [True, False])
def test_who_cannot_be_asked_is_left_alone(
    node: Node,
    error: Exception,
    from_start: bool,  # noqa: FBT001
) -> None:
    class Disk(Refusing):
        refuses = [error] if from_start else []

    voter = Voter("n1", told(3, 1), Disk(node.disk.folder), has_broker=True)
    Disk.refuses = [error]
    node.say(BEGUN)
    node.closed.touch()
    assert not waits_in_vain(voter)
    assert not voter.closed


class Waits:
    """Says that a process waits in vain, as soon as a file is there."""

    def __init__(
        self, when: Path, *, closed: bool, then: Callable[[], None] = lambda: None
    ) -> None:
        self.closed, self._when, self._then = closed, when, then

    def waits_in_vain(self) -> bool:
        found = self._when.exists()
        if found:
            self._then()
        return found


class SlowToNotice(ProcessHosts):
    """Hosts that take a process for alive once more, after it has ended."""

    is_late = False

    def state_of(self, process: ProcessId) -> str | None:
        late, self.is_late = self.is_late, False
        return "S" if late else super().state_of(process)


def stopped(
    folder: Path, at_term: str, *, closed: bool, ends_between: bool = False
) -> tuple[bool, list[int | None]]:
    """Return whether a process that is told to stop ended well, and the codes of failures."""
    hosts = SlowToNotice(["n1"], folder / "processes.jsonl")
    hosts.up()
    try:
        ready, at = folder / "ready", folder / "told"
        script = f"trap 'touch {at}; {at_term}' TERM; touch {ready}; while :; do sleep 0.05; done"
        command = Command(argv=["/bin/sh", "-c", script], cwd=folder, log=folder / "out")
        processes = BrokerProcesses(hosts, lambda *_: command, in_order=True)
        process = processes.start("n1")
        wait_until(ready.exists, timeout_s=STOP_S, what="the server")

        def end() -> None:
            if ends_between:
                wait_until(
                    lambda: ProcessHosts.state_of(hosts, process) in {None, "Z"},
                    timeout_s=STOP_S, what="its end",
                )  # fmt: skip
                hosts.is_late = True

        well = processes.stop("n1", STOP_S, Waits(at, closed=closed, then=end))
        return well, [each.code for each in processes.ended()]
    finally:
        hosts.down()


@pytest.mark.parametrize("closed", [True, False])
def test_who_waits_in_vain_is_killed_and_ended_well_if_its_logs_are_closed(
    tmp_path: Path,
    closed: bool,  # noqa: FBT001
) -> None:
    started_s = stopwatch_s()
    assert stopped(tmp_path, "", closed=closed) == (closed, [])
    assert stopwatch_s() - started_s < STOP_S


@pytest.mark.parametrize(("end", "codes"), [("exit 0", []), ("exit 3", [3])])
def test_who_ends_between_the_look_and_the_kill_ended_by_itself(
    tmp_path: Path, end: str, codes: list[int | None]
) -> None:
    assert stopped(tmp_path, end, closed=False, ends_between=True) == (True, codes)


def test_who_crashes_as_it_would_be_killed_has_failed(tmp_path: Path) -> None:
    found = stopped(tmp_path, "kill -SEGV $$", closed=True, ends_between=True)
    assert found == (True, [-signal.SIGSEGV])
