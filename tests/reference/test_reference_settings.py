"""What a node's settings may be: what no node could live by is refused with a sentence."""

import pytest

from cluster.protocol import UserError
from cluster.reference.broker.boot import BootError, listeners_of
from cluster.reference.settings import Settings, SettingsError, parsed
from cluster.systems.registry import system_of
from results.record.plan import Plan

REFUSED = {
    "broker.heartbeat.interval.ms": ("0", "-1", "1e3", "1_000", "", "2147483648", "\u0663"),
    "broker.session.timeout.ms": ("-5", "0"),
    "controller.quorum.election.timeout.ms": ("0",),
    "default.replication.factor": ("0", "-3"),
    "log.flush.interval.messages": ("0", "9223372036854775808"),
    "log.segment.bytes": ("13", "-1"),
    "message.max.bytes": ("-1", "2147483648"),
    "min.insync.replicas": ("0", "two"),
    "num.partitions": ("0", "-1"),
    "offsets.topic.num.partitions": ("0",),
    "process.roles": ("", "king", "broker,king"),
    "replica.fetch.max.bytes": ("-1",),
    "replica.lag.time.max.ms": ("-1", "9" * 40),
    "truncation": ("none",),
    "unclean.leader.election.enable": ("yes",),
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, vs in REFUSED.items() for v in vs])
def test_what_no_node_could_live_by_is_refused_by_its_name(key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=key.replace(".", r"\.")):
        parsed(f"{key}={value}\n")


def test_a_topic_takes_no_less_than_its_node() -> None:
    for key, value in (
        ("min.insync.replicas", "0"),
        ("segment.bytes", "1"),
        ("flush.messages", "-1"),
    ):
        with pytest.raises(SettingsError, match=key):
            Settings().topic({key: value})


@pytest.mark.parametrize("key", ["", "nonsense key", "Retention.ms", "z" * 81, "\u00e9", "a\0"])
def test_a_topic_keeps_no_key_that_kafka_could_not_have(key: str) -> None:
    Settings().topic({"retention.ms": "1"})
    with pytest.raises(SettingsError, match="Unknown topic config name"):
        Settings().topic({key: "1"})


def test_limits_themselves_are_taken() -> None:
    text = "log.segment.bytes=14\nlog.flush.interval.messages=9223372036854775807\nnode.id=0\n"
    read = parsed(f"{text}message.max.bytes=2147483647\nmin.insync.replicas= 2 \n")
    assert (read.log_segment_bytes, read.message_max_bytes) == (14, (1 << 31) - 1)
    assert (read.log_flush_interval_messages, read.min_insync_replicas) == ((1 << 63) - 1, 2)


@pytest.mark.parametrize("where", [{"broker": {}}, {"node": {"n2": {}}}])
def test_a_run_is_refused_before_any_node_starts(where: dict[str, dict[str, object]]) -> None:
    wrong = {"min.insync.replicas": "none"}
    values = {"broker": wrong} if "broker" in where else {"node": {"n2": wrong}}
    refused = Plan(system="reference", hosts="process", **values)
    with pytest.raises(UserError, match=r"min\.insync\.replicas cannot be 'none'"):
        system_of(refused).refuse(keep=False)
    of_kafka = Plan(hosts="process", **values)
    system_of(of_kafka).refuse(keep=False)  # Kafka's are Kafka's to judge.


@pytest.mark.parametrize("place", ["127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1"])
def test_a_listener_of_no_port_is_refused(place: str) -> None:
    with pytest.raises(BootError, match="NAME://HOST:PORT"):
        listeners_of(Settings(listeners=f"BROKER://{place}"))
