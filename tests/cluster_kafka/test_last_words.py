"""The last words of a server: what tells why it ended is among them."""

from pathlib import Path

from cluster.hosts.process import ProcessHosts
from cluster.kafka.layout import MAX_COMPLAINTS, NO_HANDLE, TAIL_BYTES, WIDE_BYTES
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.brokers import brokers_of

WANT = f"Caused by: java.io.FileNotFoundException: data/x.tmp ({NO_HANDLE})"
ERROR = "ERROR Error while processing data for partition log-1-{} (kafka.server.Fetcher)"


def complaints(folder: Path, *lines: str) -> list[str]:
    paths = RunPaths(folder)
    hosts = ProcessHosts(("n1",), paths.processes)
    cluster = brokers_of(
        Plan(system="reference", nodes=1, replication=1, min_insync=1), hosts, paths
    )
    log = paths.node("n1") / "logs" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(lines))
    return cluster.complaints("n1")


def test_want_of_a_handle_is_told_though_errors_of_many_partitions_follow(tmp_path: Path) -> None:
    errors = [ERROR.format(number) for number in range(40)]
    said = complaints(tmp_path, "before it", WANT, *errors, "INFO last")
    assert said == [WANT, *errors[-MAX_COMPLAINTS:], "INFO last"]


def test_it_is_told_once_if_nothing_follows(tmp_path: Path) -> None:
    assert complaints(tmp_path, "ERROR first", WANT) == ["ERROR first", WANT]


def test_it_is_sought_further_back_than_errors_and_not_in_the_life_before(tmp_path: Path) -> None:
    between = "x" * TAIL_BYTES
    assert complaints(tmp_path / "near", WANT, between, "INFO last") == [WANT, "INFO last"]
    far = "x" * WIDE_BYTES
    assert complaints(tmp_path / "far", WANT, far, "INFO last") == ["INFO last"]
