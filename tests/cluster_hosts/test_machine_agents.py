"""The agent and its line to the harness."""

import json
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.hosts.agent import FLOWS, REMEMBERED_SERIES, command_line
from cluster.hosts.ledger import ProcessLedger
from cluster.hosts.line import PipeLine
from cluster.hosts.machine import Machine
from cluster.protocol import ClusterError, Command
from results.record.clock import wait_until

NAME = "00" * 16


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine("n1", ProcessLedger(tmp_path / "processes.jsonl"))
    machine.wait_ready()
    yield machine
    machine.close()
    machine.wait_closed()


def test_an_agent_ends_in_order_though_a_fork_holds_the_line_open(machine: Machine) -> None:
    assert isinstance(machine.line, PipeLine)
    copy = os.dup(machine.line.socket.fileno())
    machine.close()
    machine.wait_closed()
    os.close(copy)
    assert machine.line.process.returncode == 0


def test_a_user_s_modules_and_settings_do_not_get_in_the_agent_s_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "selectors.py").write_text("raise RuntimeError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    machine = Machine("n1", ProcessLedger(tmp_path / "processes.jsonl"))
    machine.wait_ready()
    machine.close()
    machine.wait_closed()


def test_an_agent_that_cannot_start_says_why(tmp_path: Path) -> None:
    ledger = ProcessLedger(tmp_path / "processes.jsonl")
    machine = Machine("n1", ledger, prefix=["sh", "-c", "echo no namespace for you >&2"])
    with pytest.raises(ClusterError, match=r"agent of n1 .*no namespace for you"):
        machine.wait_ready()
    machine.close()
    machine.wait_closed()


def test_an_agent_whose_harness_is_dead_already_ends_at_once() -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    done = subprocess.run(command_line(dead.pid), stdin=subprocess.PIPE, check=False)
    assert done.returncode == 0


def test_a_failed_command_says_where_and_why(machine: Machine) -> None:
    assert machine.run(["cat"], stdin="hello") == "hello"
    with pytest.raises(ClusterError, match="on n1: it is broken"):
        machine.run(["sh", "-c", "echo it is broken >&2; exit 3"])
    with pytest.raises(ClusterError, match="on n1: exit code 3"):
        machine.run(["sh", "-c", "exit 3"])


def test_the_answer_to_an_interrupted_request_is_not_taken_for_another(machine: Machine) -> None:
    interrupted = {"do": "run", "argv": ["echo", "old"], "input": "", "timeout_s": 5, "id": -1}
    machine.line.send(json.dumps(interrupted).encode() + b"\n", 5)
    assert machine.run(["echo", "new"]) == "new\n"


def test_many_threads_may_ask_at_once(machine: Machine) -> None:
    said: dict[int, str] = {}

    def ask(number: int) -> None:
        said[number] = machine.run(["echo", str(number)])

    threads = [threading.Thread(target=ask, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: f"{number}\n" for number in range(20)}


def test_what_a_program_writes_need_not_be_text(machine: Machine) -> None:
    assert machine.run(["printf", r"\377"]) == "\N{REPLACEMENT CHARACTER}"
    assert machine.run(["echo", "still there"]) == "still there\n"


def test_of_many_series_the_newest_are_whole(machine: Machine) -> None:
    here = ("127.0.0.1", machine.probe_port)
    spacing = {"count": 2, "size": 64, "interval_s": 0.001, "burst": 1, "flows": 1}
    for _ in range(REMEMBERED_SERIES - 1):
        machine.start_series(uuid.uuid4().hex, here, spacing)
    names = [uuid.uuid4().hex for _ in range(3)]
    for name in names:  # The limit is reached between the first of them and the last.
        machine.start_series(name, here, spacing)

    def whole() -> bool:
        back, there = machine.returned(names)["series"], machine.arrived(names)["series"]
        return all(
            len(back[name]["round_trip_ms"]) == 2 and there[name]["numbers"] == [0, 1]
            for name in names
        )

    wait_until(whole, timeout_s=20, what="all of the newest series")


def test_a_series_of_long_ago_is_as_if_nothing_was_sent(machine: Machine) -> None:
    assert machine.returned([NAME])["series"] == {NAME: {"sent": 0, "round_trip_ms": []}}
    assert machine.returned([])["series"] == {}, "the agent lives on"


def test_more_ports_than_it_has_are_refused(machine: Machine) -> None:
    spacing = {"count": 40, "size": 64, "interval_s": 0.0, "burst": 40, "flows": FLOWS + 1}
    with pytest.raises(ClusterError, match="can send from 20 ports, not from 21"):
        machine.start_series(NAME, ("127.0.0.1", machine.probe_port), spacing)
    machine.start_series(NAME, ("127.0.0.1", machine.probe_port), {**spacing, "flows": FLOWS})
    wait_until(
        lambda: len(machine.returned([NAME])["series"][NAME]["round_trip_ms"]) == 40,
        timeout_s=20,
        what="answers to all ports",
    )


def test_a_burst_is_sent_at_once(machine: Machine) -> None:
    here, name = ("127.0.0.1", machine.probe_port), uuid.uuid4().hex
    spacing = {"count": 9, "size": 64, "interval_s": 1000, "burst": 8, "flows": 1}
    machine.start_series(name, here, spacing)
    wait_until(
        lambda: len(machine.returned([name])["series"][name]["round_trip_ms"]) == 8,
        timeout_s=20,
        what="the first burst",
    )
    assert machine.returned([name])["series"][name]["sent"] == 8, "the next one has time"


def test_signals_and_states_go_by_the_agent_too(machine: Machine, tmp_path: Path) -> None:
    process = machine.spawn(
        "n1", Command(argv=["sleep", "1000"], log=tmp_path / "log", cwd=tmp_path)
    )
    earlier = replace(process, start_ticks=process.start_ticks - 1)
    assert not machine.send_signal(earlier, signal.SIGKILL), "its number belongs to another one"
    assert machine.state_of(earlier) is None
    assert machine.send_signal(process, signal.SIGSTOP)
    wait_until(lambda: machine.state_of(process) == "T", timeout_s=20, what="the stop")
    assert machine.send_signal(process, signal.SIGKILL)
    wait_until(lambda: machine.state_of(process) is None, timeout_s=20, what="its end")
    assert not machine.send_signal(process, signal.SIGCONT)


def test_an_error_names_the_node_that_was_asked_for(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"cannot spawn on n2.*absent"):
        machine.spawn("n2", Command(argv=["absent"], log=tmp_path / "log", cwd=tmp_path))
