"""The last words of a server: what tells why it ended is among them."""

from contextlib import nullcontext
from itertools import count
from pathlib import Path, PurePosixPath

import pytest

from cluster.hosts.disk import LocalDisk
from cluster.hosts.process import ProcessHosts
from cluster.kafka.brokers import BrokerProcesses
from cluster.kafka.layout import MAX_COMPLAINTS, TAIL_BYTES, WIDE_BYTES, Layout
from cluster.kafka.programs import ReferencePrograms
from cluster.protocol import Command, ProcessId
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import NO_HANDLE

WANT = f"Caused by: java.io.FileNotFoundException: data/x.tmp ({NO_HANDLE})"
ERROR = "ERROR Error while processing data for partition log-1-{} (kafka.server.Fetcher)"


def layout(folder: Path, *lines: str) -> Layout:
    """Return a node's place, its server's log having these lines."""
    paths, plan = RunPaths(folder), Plan(system="reference", nodes=1, replication=1, min_insync=1)
    hosts = ProcessHosts(("n1",), paths.processes)
    made = Layout(plan, hosts, programs=ReferencePrograms(), paths=paths)
    log = paths.node("n1") / "logs" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(lines))
    return made


def complaints(folder: Path, *lines: str) -> list[str]:
    return layout(folder, *lines).complaints("n1")


def test_want_of_a_handle_is_told_though_errors_of_many_partitions_follow(tmp_path: Path) -> None:
    errors = [ERROR.format(number) for number in range(40)]
    said = complaints(tmp_path, "before it", WANT, *errors, "INFO last")
    assert said == [WANT, *errors[-MAX_COMPLAINTS:], "INFO last"]


def test_it_is_told_once_if_nothing_follows(tmp_path: Path) -> None:
    assert complaints(tmp_path, "ERROR first", WANT) == ["ERROR first", WANT]


def test_it_is_told_in_its_order(tmp_path: Path) -> None:
    assert complaints(tmp_path, WANT, "ERROR one", WANT, "INFO last") == [
        WANT, "ERROR one", WANT, "INFO last",
    ]  # fmt: skip


def test_it_is_sought_further_back_than_errors(tmp_path: Path) -> None:
    between = "x" * TAIL_BYTES
    assert complaints(tmp_path / "near", WANT, between, "INFO last") == [WANT, "INFO last"]
    far = "x" * WIDE_BYTES
    assert complaints(tmp_path / "far", WANT, far, "INFO last") == ["INFO last"]


def test_each_life_has_its_own_last_words(tmp_path: Path) -> None:
    made, log = layout(tmp_path), RunPaths(tmp_path).node("n1") / "logs/server.log"
    for number in (1, 2, 3):
        made.command("n1", number)
        with log.open("a") as more:
            more.write(f"ERROR of start {number}\nINFO last of start {number}\n")
    said = {life: made.complaints("n1", life=life) for life in (1, 2, 3, 0)}
    expected = {
        number: [f"ERROR of start {number}", f"INFO last of start {number}"] for number in (1, 2, 3)
    }
    assert said == expected | {0: expected[3]}


def lives(folder: Path) -> tuple[Layout, Path]:
    """Return a node's place and its log, with what three starts of its server wrote."""
    made, log = layout(folder), RunPaths(folder).node("n1") / "logs/server.log"
    for number in (1, 2, 3):
        made.command("n1", number)
        with log.open("a") as more:
            more.write(f"ERROR of start {number}\n")
    return made, log


def test_a_start_that_failed_is_no_life(tmp_path: Path) -> None:
    class Refusing(ProcessHosts):
        def spawn(self, node: str, command: Command) -> ProcessId:
            assert node == "n1"
            with command.log.with_name("server.log").open("a") as more:
                more.write(f"ERROR of try {next(tries)}\n")
            if refuses.pop(0):
                raise OSError("no process")
            return ProcessId(pid=2**22 + len(refuses), start_ticks=1)

        def exit_of(self, node: str, process: ProcessId) -> int:
            assert (node, process.start_ticks) == ("n1", 1)
            return 1

    tries, refuses = count(1), [False, True, False, False]
    made, hosts = layout(tmp_path), Refusing(("n1",), RunPaths(tmp_path).processes)
    processes = BrokerProcesses(hosts, made.command)
    for refused in tuple(refuses):
        with pytest.raises(OSError, match="no process") if refused else nullcontext():
            processes.start("n1")
    assert processes.incarnation("n1") == 3
    said = [made.complaints("n1", life=life) for life in (1, 2, 3)]
    assert said == [["ERROR of try 1"], ["ERROR of try 3"], ["ERROR of try 4"]]


class Unsure(LocalDisk):
    """A disk that tells no size of a file."""

    def size(self, path: PurePosixPath | str) -> int:
        raise PermissionError(path)


def test_a_life_whose_begin_or_end_is_unknown_gets_no_words_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, log = lives(tmp_path)
    with monkeypatch.context() as unsure:
        unsure.setattr(LocalDisk, "size", Unsure.size)
        assert made.complaints("n1") == [], "its end is unknown"
        made.command("n1", 4)
    with log.open("a") as more:
        more.write("ERROR of start 4\n")
    said = {life: made.complaints("n1", life=life) for life in (1, 2, 3, 4, 0)}
    first = {number: [f"ERROR of start {number}"] for number in (1, 2)}
    assert said == first | {3: [], 4: [], 0: []}


def test_an_older_life_gets_nothing_of_a_file_that_was_begun_anew(tmp_path: Path) -> None:
    made, log = lives(tmp_path)
    log.write_text("ERROR new\n")
    said = {life: made.complaints("n1", life=life) for life in (1, 2, 3)}
    assert said == {1: [], 2: [], 3: ["ERROR new"]}, "the file has only the last one's words"


def test_nothing_of_an_earlier_life_is_told_of_the_next_one(tmp_path: Path) -> None:
    made, log = layout(tmp_path, WANT, ERROR), RunPaths(tmp_path).node("n1") / "logs/server.log"
    assert made.complaints("n1") == [WANT, ERROR]
    made.command("n1", 1)
    assert made.complaints("n1") == []
    with log.open("a") as more:
        more.write("\nERROR Halting: it is new\n")
    assert made.complaints("n1") == ["ERROR Halting: it is new"]
    log.write_text("ERROR of a log that was begun anew\n")
    assert made.complaints("n1") == ["ERROR of a log that was begun anew"]
