"""Connections from what kernels list, and blocks as nft rules: text in, text out."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cluster.hosts import sockets
from cluster.hosts.agent import Message
from cluster.hosts.connections import paired
from cluster.hosts.cuts import OUTPUT, Drop, block_chains, block_rules, chain, unblock_rules
from cluster.protocol import CLIENTS, Connection
from results.record.clock import stopwatch_s

ADDRESSES = {"n1": "10.81.0.1", "n2": "10.81.0.2", CLIENTS: "10.81.0.254"}
TO_N1 = Connection(client="n2", client_port=40_000, server="n1", server_port=9092)
LINES = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100510A:2384 0200510A:9C40 01 0000000A:00000000 01:00000014 00000003     0      0 77 2 0 20
  1: 00000000:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0      0 78 1 0
"""
LINES_6 = """\
  sl  local_address                         remote_address                        st
  0: 0000000000000000FFFF00000100510A:2385 0000000000000000FFFF00000200510A:9C41 01 0:0 0:0 0 0 0 79
  1: 00000000000000000000000000000000:2385 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 80
  2: 00000000000000000000000001000000:2386 00000000000000000000000001000000:9C42 01 0:0 0:0 0 0 0 81
"""


def test_what_the_kernel_lists_is_read_as_it_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tcp").write_text(LINES)
    (tmp_path / "tcp6").write_text(LINES_6)
    monkeypatch.setattr(sockets, "Path", lambda _, name: tmp_path / name)
    monkeypatch.delenv(sockets.MARK, raising=False)
    assert sockets.listed({}) == {
        "listening": [9092, 9093],
        "established": [
            ("10.81.0.1", 9092, "10.81.0.2", 40_000, 77, 10, 3),
            ("10.81.0.1", 9093, "10.81.0.2", 40_001, 79, 0, 0),
        ],
    }


SERVES = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
held = [server.accept(), server.accept()]
print("both", flush=True)
input()
"""
CONNECTS = """
import socket, sys
at = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5, ("127.0.0.2", 0))
print(at.getsockname()[1], flush=True)
input()
"""


@contextmanager
def program(text: str, *words: str, run: str) -> Iterator["subprocess.Popen[str]"]:
    """Have a program run that belongs to a run, or to none."""
    argv, env = [sys.executable, "-c", text, *words], {**os.environ, sockets.MARK: run}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def said(by: "subprocess.Popen[str]") -> str:
    assert by.stdout is not None
    return by.stdout.readline().strip()


def test_on_a_machine_of_others_only_connections_between_processes_of_the_run_are_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as running:

        def start(text: str, *words: str, run: str = "ours") -> "subprocess.Popen[str]":
            return running.enter_context(program(text, *words, run=run))

        server = start(SERVES)
        port = said(server)
        mine = int(said(start(CONNECTS, port)))
        other = int(said(start(CONNECTS, port, run="")))
        assert said(server) == "both"
        early = int(said(start(CONNECTS, port)))  # It is not accepted.
        monkeypatch.setenv(sockets.MARK, "ours")
        table = sockets.listed({})
        addresses = {"n1": "127.0.0.1", "n2": "127.0.0.2"}
        found = paired({"n1": table, "n2": table}, addresses, {frozenset({"n1", "n2"})})
    ends = {each.client_port: ends for each, ends in found.items()}
    assert ends.keys() == {mine, other, early}
    assert ends[mine].is_whole
    assert ends[other].client is None, "a user's own"
    assert ends[early].server is None, "no process of the run has it yet"


def test_all_connections_are_opened_at_once_and_silence_is_waited_for_once() -> None:
    with ExitStack() as opened:
        good = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        full = opened.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # Afterwards no SYN is answered.
            filling = opened.enter_context(socket.socket())
            filling.settimeout(0)
            filling.connect_ex(full.getsockname())
        closed = socket.create_server(("127.0.0.1", 0))
        nobody = closed.getsockname()
        closed.close()
        began_s = stopwatch_s()
        to = [*[full.getsockname()] * 9, good.getsockname(), nobody]
        answer = sockets.connect({"to": to})
        took_s = stopwatch_s() - began_s
    assert answer == {"opened": [*[False] * 9, True, False]}
    assert sockets.CONNECT_LIMIT_S <= took_s < 3 * sockets.CONNECT_LIMIT_S


def test_both_ends_are_put_together_and_whose_port_listens_is_the_server() -> None:
    at_n1 = ["10.81.0.1", 9092, "10.81.0.2", 40_000, 7, 0, 0]
    at_n2 = ["10.81.0.2", 40_000, "10.81.0.1", 9092, 8, 12, 3]
    of_client = ["10.81.0.1", 9092, "10.81.0.254", 40_001, 9, 0, 0]
    unknown = ["10.81.0.1", 5000, "10.81.0.2", 5001, 10, 0, 0]
    tables: dict[str, Message] = {
        "n1": {"listening": [9092], "established": [at_n1, of_client, unknown]},
        "n2": {"listening": [9092], "established": [at_n2]},
        CLIENTS: {"listening": [40_001], "established": []},
    }
    between = paired(tables, ADDRESSES, {frozenset({"n1", "n2"})})
    assert list(between) == [TO_N1]
    assert between[TO_N1].is_whole
    client = between[TO_N1].client
    assert client is not None
    assert (client.inode, client.unacknowledged, client.again) == (8, 12, 3)
    with_clients = paired(tables, ADDRESSES, {frozenset({"n1", CLIENTS})})
    ((found, ends),) = with_clients.items()
    assert str(found) == "clients:40001 > n1:9092"
    assert not ends.is_whole, "the client does not have it"


def test_a_block_is_two_chains_that_drop_one_connection_each_way() -> None:
    came = Drop(connection=str(TO_N1), port=9092, address="10.81.0.2", other_port=40_000)
    went = Drop(
        connection=str(TO_N1), port=9092, address="10.81.0.2", other_port=40_000, hook=OUTPUT
    )
    script = block_rules("fault-1", [came, went], table="t")
    assert "ip saddr 10.81.0.2 tcp sport 40000 tcp dport 9092 counter drop" in script
    assert 'comment "n2:40000 > n1:9092"' in script
    assert "ip daddr 10.81.0.2 tcp sport 9092 tcp dport 40000 counter drop" in script
    assert "delete" not in script, "what it has counted so far is kept"
    undone = unblock_rules("fault-1", table="t")
    for way in block_chains("fault-1"):
        assert f"chain {chain(way)} " in script
        assert f"delete chain ip t {chain(way)}" in undone
