"""The last words of a server: what tells why it ended is among them."""

from pathlib import Path

from cluster.hosts.process import ProcessHosts
from cluster.kafka.layout import MAX_COMPLAINTS, TAIL_BYTES, WIDE_BYTES, Layout
from cluster.kafka.programs import ReferencePrograms
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
        made.command("n1")
        with log.open("a") as more:
            more.write(f"ERROR of start {number}\nINFO last of start {number}\n")
    said = {life: made.complaints("n1", life=life) for life in (1, 2, 3, 0)}
    expected = {
        number: [f"ERROR of start {number}", f"INFO last of start {number}"] for number in (1, 2, 3)
    }
    assert said == expected | {0: expected[3]}


def test_nothing_of_an_earlier_life_is_told_of_the_next_one(tmp_path: Path) -> None:
    made, log = layout(tmp_path, WANT, ERROR), RunPaths(tmp_path).node("n1") / "logs/server.log"
    assert made.complaints("n1") == [WANT, ERROR]
    made.command("n1")
    assert made.complaints("n1") == []
    with log.open("a") as more:
        more.write("\nERROR Halting: it is new\n")
    assert made.complaints("n1") == ["ERROR Halting: it is new"]
    log.write_text("ERROR of a log that was begun anew\n")
    assert made.complaints("n1") == ["ERROR of a log that was begun anew"]
