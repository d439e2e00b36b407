"""Topics by single requests: what is asked of whom, where brokers do not answer."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from cluster.kafka import orders
from cluster.kafka.by_hand import TopicsByHand
from cluster.protocol import ClusterError, Endpoint

NODES = ("n1", "n2")


@contextmanager
def silent_brokers() -> Iterator[tuple[TopicsByHand, dict[str, socket.socket], set[str]]]:
    """Yield requests to brokers that take connections and never answer, and the set of the dead."""
    with ExitStack() as undo:
        listening = {
            node: undo.enter_context(socket.create_server(("127.0.0.1", 0))) for node in NODES
        }
        for each in listening.values():
            each.settimeout(0)
        dead = set[str]()
        endpoints = {
            node: Endpoint(host="127.0.0.1", broker_port=each.getsockname()[1], controller_port=0)
            for node, each in listening.items()
        }
        by_hand = TopicsByHand(endpoints, lambda node: node not in dead)
        undo.callback(by_hand.close)
        yield by_hand, listening, dead


TOPIC_ID = "4c0124e6-7b8c-48b3-bd95-c11ae7c9f164"


def was_asked(broker: socket.socket) -> bool:
    try:
        broker.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_a_deletion_without_an_answer_is_asked_of_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be carried out later, and a topic of that name may be another one by then."""
    monkeypatch.setattr(orders, "ORDER_TIMEOUT_S", -4.5)  # Half a second is waited.
    with silent_brokers() as (by_hand, listening, dead):
        with pytest.raises(ClusterError, match="n1 does not delete t"):
            by_hand.delete("t", TOPIC_ID)
        assert [node for node in NODES if was_asked(listening[node])] == ["n1"]
        dead.add("n1")
        with pytest.raises(ClusterError, match="n2 does not delete t"):
            by_hand.delete("t", TOPIC_ID)
        assert [node for node in NODES if was_asked(listening[node])] == ["n2"]
        dead.add("n2")
        with pytest.raises(ClusterError, match="no broker deletes t"):
            by_hand.delete("t", TOPIC_ID)
