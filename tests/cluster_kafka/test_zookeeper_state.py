import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from cluster.hosts.process import free_ports
from cluster.kafka.questions import new_topics
from cluster.kafka.znodes import Znode, Znodes, ZooKeeperError
from cluster.kafka.zookeeper_admin import ZooKeeperAdmin
from cluster.kafka.zookeeper_state import PartitionTruth, ZooKeeperState
from cluster.protocol import ClusterError, Endpoint


class Remembered(Znodes):
    """ZooKeeper's nodes as some versions of Kafka wrote them, without a server."""

    def __init__(self, nodes: dict[str, str]) -> None:
        super().__init__("nowhere:1")
        self._nodes = nodes

    def read_all(self, paths: Iterable[str]) -> list[Znode | None]:
        found = [self._nodes.get(path) for path in paths]
        return [None if it is None else Znode(data=it.encode(), czxid=7) for it in found]

    def children(self, path: str) -> list[str]:
        return sorted(key.rpartition("/")[2] for key in self._nodes if key.startswith(path + "/"))


OLD = """{"version":1,"partitions":{"0":[2,1],"1":[1,3]}}"""
NEW = (
    """{"partitions":{"0":[2,1],"1":[1,3]},"topic_id":"14WCMOKxTCqoOsR7vbkvDA","""
    """ "adding_replicas":{"1":[3]},"removing_replicas":{},"version":3}"""
)
STATE = "/brokers/topics/t/partitions/0/state"


@pytest.mark.parametrize("topic", [OLD, NEW], ids=["0.11", "2.8"])
def test_assignments_of_all_versions_are_read(topic: str) -> None:
    state = ZooKeeperState(Remembered({"/brokers/topics/t": topic}))
    assert state.assignments(["t", "gone"]) == {("t", 0): (2, 1), ("t", 1): (1, 3)}


def test_the_state_of_a_partition_is_the_truth_about_its_leader() -> None:
    text = """{"controller_epoch":3,"leader":-1,"version":1,"leader_epoch":9,"isr":[2]}"""
    state = ZooKeeperState(Remembered({STATE: text}))
    assert state.partitions([("t", 0), ("t", 1)]) == {
        ("t", 0): PartitionTruth(leader=-1, leader_epoch=9, isr=(2,), controller_epoch=3)
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}"])
def test_a_node_that_is_being_made_says_nothing(text: str) -> None:
    state = ZooKeeperState(
        Remembered({STATE: text, "/controller": text, "/brokers/topics/t": text})
    )
    assert state.partitions([("t", 0)]) == {}
    assert state.controller() is None
    assert state.assignments(["t"]) == {}


@pytest.mark.parametrize(
    "text",
    [
        """{"version":1,"brokerid":2,"timestamp":"1795273174534"}""",
        """{"version":2,"brokerid":2,"timestamp":"1795273174534","kraftControllerEpoch":-1}""",
    ],
)
def test_the_controller_and_its_epoch_are_read(text: str) -> None:
    nodes = {"/controller": text, "/controller_epoch": "12", "/brokers/ids/3": "{}"}
    state = ZooKeeperState(Remembered(nodes))
    assert state.controller() == 2
    assert state.controller_epoch() == 12
    assert state.registered() == {3}
    assert state.registration(3) == 7
    assert state.registration(4) is None


def test_before_the_first_controller_there_is_none() -> None:
    state = ZooKeeperState(Remembered({}))
    assert state.controller() is None
    assert state.controller_epoch() is None
    assert state.registered() == frozenset()


def test_a_zookeeper_that_is_gone_is_no_word_on_who_is_registered() -> None:
    """Whoever waits for the end of a registration must neither go on, nor give up, by silence."""
    (port,) = free_ports(1)
    admin = ZooKeeperAdmin(
        {}, lambda _node: True, zookeeper=f"127.0.0.1:{port}", incarnation=lambda _node: 1
    )
    try:
        assert admin.is_registered("n1") is None
        assert admin.view() is None
        with pytest.raises(ClusterError, match=rf"{port} does not answer; see zookeeper/logs"):
            admin.controller_epoch()
    finally:
        admin.close()


def test_a_controller_that_was_killed_is_not_asked_until_there_is_another() -> None:
    (port,) = free_ports(1)
    answers = [False, False, True]

    def answers_now(_node: str) -> bool:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    at = Endpoint(host="127.0.0.1", broker_port=port, controller_port=0)
    admin = ZooKeeperAdmin(
        {"n1": at}, answers_now, zookeeper="nowhere:1", incarnation=lambda _node: 1
    )
    admin._state = ZooKeeperState(Remembered({"/controller": """{"brokerid":1}"""}))
    request = new_topics(["t"], partitions=1, replication=1, configs={}, timeout_s=1)
    with pytest.raises(ClusterError, match=rf"{port} did not answer"):
        admin.create(request)
    assert answers == [True]


@contextmanager
def a_server_that_answers_nothing() -> Iterator[str]:
    """A ZooKeeper that opens sessions, and then answers no request, as while it is paused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    open_ones.append(connection)
                    connection.recv(4096)
                    # Protocol version, session timeout in ms, session id, password.
                    connection.sendall(struct.pack(">iiiqi16x", 36, 0, 1000, 1, 16))

        open_ones: list[socket.socket] = []
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in open_ones:
                each.close()


def test_threads_that_give_a_session_up_together_are_told_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.kafka.znodes.ANSWER_TIMEOUT_S", 0.5)
    with a_server_that_answers_nothing() as hosts, ThreadPoolExecutor() as pool:
        znodes = Znodes(hosts)
        assert znodes._connected().connected
        asked = [pool.submit(znodes.children, "/brokers") for _ in range(4)]
        told = [each.exception() for each in asked]
        znodes.close()
    assert [type(each) for each in told] == [ZooKeeperError] * 4
