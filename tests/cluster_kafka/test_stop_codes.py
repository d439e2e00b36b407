"""A server that is told to stop, and ends with a code that says that it failed."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.kafka.brokers import BrokerProcesses
from cluster.protocol import Command, Ended
from results.record.clock import wait_until

STOP_S = 20.0


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[ProcessHosts]:
    made = ProcessHosts(["n1"], tmp_path / "processes.jsonl")
    made.up()
    yield made
    made.down()


def stopped(
    hosts: ProcessHosts, folder: Path, at_term: str, *, in_order: bool = True
) -> list[Ended]:
    ready = folder / "ready"
    script = f"trap '{at_term}' TERM; touch {ready}; while :; do sleep 0.05; done"
    if not at_term:
        script = f"touch {ready}; exec sleep 60"
    command = Command(argv=["/bin/sh", "-c", script], cwd=folder, log=folder / "out")
    processes = BrokerProcesses(hosts, lambda *_: command, in_order=in_order)
    processes.start("n1")
    wait_until(ready.exists, timeout_s=STOP_S, what="the server")
    assert processes.stop("n1", STOP_S)
    return list(processes.ended())


@pytest.mark.parametrize("at_term", ["exit 0", "exit 143", ""], ids=("0", "143", "by the signal"))
def test_who_stops_in_order_has_not_failed(
    hosts: ProcessHosts, tmp_path: Path, at_term: str
) -> None:
    assert stopped(hosts, tmp_path, at_term) == []


def test_who_crashes_as_it_stops_ended_by_itself(hosts: ProcessHosts, tmp_path: Path) -> None:
    (ended,) = stopped(hosts, tmp_path, "kill -SEGV $$")
    assert (ended.code, ended.told) == (-signal.SIGSEGV, True)


@pytest.mark.parametrize("code", [1, 134])
def test_who_fails_as_it_stops_ended_by_itself(
    hosts: ProcessHosts, tmp_path: Path, code: int
) -> None:
    assert stopped(hosts, tmp_path, f"exit {code}") == [
        Ended(node="n1", incarnation=1, code=code, told=True)
    ]


def test_nothing_is_said_of_those_whose_codes_nobody_knows(
    hosts: ProcessHosts, tmp_path: Path
) -> None:
    assert stopped(hosts, tmp_path, "exit 1", in_order=False) == []
