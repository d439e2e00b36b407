from pathlib import Path

import pytest

from cluster.kafka.configuration import server_properties, session_timeout_s
from cluster.kafka.log_files import ZOOKEEPER_FILES, logging_to, node_files
from cluster.kafka.zookeeper import zookeeper_properties
from cluster.protocol import Endpoint
from results.record.nodes import called, node_id
from results.record.plan import Plan
from results.record.terms import Mode

ENDPOINTS = {
    f"n{number}": Endpoint(host=f"10.99.0.{number}", broker_port=9092, controller_port=9093)
    for number in (1, 2, 3)
}
BROKERS_ONLY = {
    node: Endpoint(host=at.host, broker_port=9092, controller_port=0)
    for node, at in ENDPOINTS.items()
}
WITH_CONTROLLERS = BROKERS_ONLY | {
    f"n{number}": Endpoint(host=f"10.99.0.{number}", broker_port=9093, controller_port=9093)
    for number in (101, 102)
}
VOTERS_OF_THEIR_OWN = "101@10.99.0.101:9093,102@10.99.0.102:9093"
OLD = Plan(system="kafka:0.11.0.3")
ZOOKEEPER = "10.99.0.4:2181"


def settings_of(
    plan: Plan,
    node: str = "n2",
    endpoints: dict[str, Endpoint] = ENDPOINTS,
    zookeeper: str | None = None,
) -> dict[str, str]:
    data = Path("/runs/x/nodes/n2/data")
    text = server_properties(plan, node, endpoints=endpoints, data=data, zookeeper=zookeeper)
    pairs = [line.partition("=")[::2] for line in text.splitlines()]
    assert len(dict(pairs)) == len(pairs), "a key twice: Java would take the last one"
    return {key: value.replace("\\:", ":").replace("\\=", "=") for key, value in pairs}


def test_a_combined_node_is_broker_and_controller_and_knows_all_voters() -> None:
    settings = settings_of(Plan())
    assert settings["process.roles"] == "broker,controller"
    assert settings["node.id"] == "2"
    voters = "1@10.99.0.1:9093,2@10.99.0.2:9093,3@10.99.0.3:9093"
    assert settings["controller.quorum.voters"] == voters
    assert settings["listeners"] == "BROKER://10.99.0.2:9092,CONTROLLER://10.99.0.2:9093"
    assert settings["log.dirs"] == "/runs/x/nodes/n2/data"


def test_beside_controllers_of_their_own_a_broker_does_not_vote() -> None:
    settings = settings_of(Plan(system="kafka:4.3.1:controllers"), endpoints=WITH_CONTROLLERS)
    assert settings["process.roles"] == "broker"
    assert settings["controller.quorum.voters"] == VOTERS_OF_THEIR_OWN
    assert settings["listeners"] == "BROKER://10.99.0.2:9092"


def test_a_controller_of_its_own_listens_to_the_quorum_only() -> None:
    plan = Plan(system="kafka:4.3.1:controllers")
    settings = settings_of(plan, "n102", WITH_CONTROLLERS)
    assert settings["process.roles"] == "controller"
    assert settings["node.id"] == "102"
    assert settings["controller.quorum.voters"] == VOTERS_OF_THEIR_OWN
    assert settings["listeners"] == "CONTROLLER://10.99.0.102:9093"
    assert "advertised.listeners" not in settings


def test_in_zookeeper_mode_a_broker_knows_zookeeper_and_no_quorum() -> None:
    settings = settings_of(OLD, endpoints=BROKERS_ONLY, zookeeper=ZOOKEEPER)
    assert settings["broker.id"] == "2"
    assert settings["zookeeper.connect"] == ZOOKEEPER
    assert settings["listeners"] == settings["advertised.listeners"] == "BROKER://10.99.0.2:9092"
    assert settings["zookeeper.session.timeout.ms"] == "3000"
    of_kraft = ("process.roles", "node.id", "controller.quorum", "broker.session", "share.")
    assert not [key for key in settings if key.startswith(of_kraft)]


def test_an_old_version_is_not_told_what_it_does_not_know() -> None:
    connecting = "socket.connection.setup.timeout.ms"  # KIP-601, 2.7.
    assert connecting not in settings_of(OLD, endpoints=BROKERS_ONLY, zookeeper=ZOOKEEPER)
    newer = Plan(system="kafka:2.8.2")
    assert connecting in settings_of(newer, endpoints=BROKERS_ONLY, zookeeper=ZOOKEEPER)


def test_brokers_miss_members_of_the_consumer_protocol_soon_where_they_have_it() -> None:
    session, least = "group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"
    settings = settings_of(Plan())
    assert settings[session] == settings[least] == "6000"
    assert session not in settings_of(Plan(system="kafka:3.9.1"))
    assert settings_of(Plan(broker={session: "45000"}))[session] == "45000"


def test_durability_comes_from_the_plan() -> None:
    settings = settings_of(Plan(min_insync=1, replication=2))
    assert settings["min.insync.replicas"] == "1"
    assert settings["default.replication.factor"] == "2"
    assert settings["auto.create.topics.enable"] == "false"


def test_one_node_does_not_ask_for_three_replicas_of_internal_topics() -> None:
    plan = Plan(nodes=1, replication=1, min_insync=1)
    settings = settings_of(plan, "n1")
    assert settings["offsets.topic.replication.factor"] == "1"
    assert settings["transaction.state.log.min.isr"] == "1"


def test_settings_of_the_user_win_and_unknown_ones_are_passed_on() -> None:
    plan = Plan(broker={"broker.session.timeout.ms": "9000", "no.such.key": "as it is"})
    settings = settings_of(plan)
    assert settings["broker.session.timeout.ms"] == "9000"
    assert settings["no.such.key"] == "as it is"


def test_settings_of_one_node_win_over_those_of_all_on_that_node_only() -> None:
    key = "controller.quorum.election.timeout.ms"
    plan = Plan(broker={key: "900"}, node={"n2": {key: "300"}})
    assert settings_of(plan, "n2")[key] == "300"
    assert settings_of(plan, "n1")[key] == "900"


def test_how_long_a_session_lasts_is_what_the_broker_was_told() -> None:
    key = "zookeeper.session.timeout.ms"
    plan = Plan(system="kafka:2.8.2", broker={key: "6000"}, node={"n3": {key: "2500"}})
    assert session_timeout_s(OLD, "n1") == 3.0
    assert session_timeout_s(plan, "n1") == 6.0
    assert session_timeout_s(plan, "n3") == 2.5


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("C:\\x", "C\\:\\\\x"),
        (" leading blank", "\\ leading blank"),
        ("two\nlines", "two\\nlines"),
        ("grün", "gr\\u00fcn"),
    ],
)
def test_values_survive_javas_properties(value: str, written: str) -> None:
    plan = Plan(broker={"some.key": value})
    text = server_properties(plan, "n1", endpoints=ENDPOINTS, data=Path("/data"))
    assert f"some.key={written}" in text.splitlines()


def test_node_ids_are_the_numbers_of_the_names() -> None:
    assert [node_id(node) for node in ENDPOINTS] == [1, 2, 3]


def test_a_server_is_called_what_it_is() -> None:
    assert [called(node) for node in ("n1", "n101", "zk")] == [
        "the broker of n1", "the controller of n101", "ZooKeeper",
    ]  # fmt: skip


def test_log_lines_have_milliseconds_and_survive_the_stop() -> None:
    logging = logging_to(Path("/runs/x"), node_files(Mode.COMBINED), (4, 3, 1))
    assert logging.text.count("%d{yyyy-MM-dd HH:mm:ss,SSS}") == 3
    assert "shutdownHook = disable" in logging.text
    for name in ("server.log", "controller.log", "state-change.log"):
        assert f"fileName = /runs/x/logs/{name}" in logging.text
    assert logging.java_property == f"-Dlog4j2.configurationFile={logging.file}"


def test_before_4_the_same_files_are_written_by_log4j_1() -> None:
    logging = logging_to(Path("/a b/x"), node_files(Mode.ZOOKEEPER), (3, 9, 1))
    assert logging.text.count("%d{yyyy-MM-dd HH:mm:ss,SSS}") == 3
    for name in ("server.log", "controller.log", "state-change.log"):
        assert f".File = /a b/x/logs/{name}" in logging.text
    # It takes an address, in which a blank is none.
    assert logging.java_property == "-Dlog4j.configuration=file:///a%20b/x/log4j.properties"


def test_in_zookeeper_mode_it_is_said_who_becomes_leader_or_follower() -> None:
    logging = logging_to(Path("/runs/x"), node_files(Mode.ZOOKEEPER), (1, 1, 1))
    assert "log4j.logger.state.change.logger = TRACE, statechange" in logging.text


def test_zookeepers_lines_go_into_one_file() -> None:
    logging = logging_to(Path("/runs/x"), ZOOKEEPER_FILES, (2, 8, 2))
    assert logging.text.count(".File = ") == 1
    assert "log4j.rootLogger = INFO, zookeeper" in logging.text


def test_zookeeper_grants_sessions_of_seconds() -> None:
    lines = zookeeper_properties(Path("/runs/x/data"), ("10.99.0.4", 2181)).splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    assert int(settings["minSessionTimeout"]) <= 2_000
    assert int(settings["maxSessionTimeout"]) >= 60_000
    assert int(settings["tickTime"]) <= 500  # Sessions end at a multiple of it.
    assert (settings["clientPortAddress"], settings["clientPort"]) == ("10.99.0.4", "2181")


@pytest.mark.parametrize(
    ("system", "interval_ms"),
    [
        ("kafka:3.3.2", 100),
        ("kafka:3.9.1", 100),
        ("kafka:4.0.0", 100),
        ("kafka:4.1.0", 250),
        ("kafka:4.3.1", 250),
        ("kafka:4.4.0", 250),
    ],
)
def test_a_heartbeat_has_time_where_it_limits_the_answer_and_is_short(
    system: str, interval_ms: int
) -> None:
    for plan in (Plan(system=system), Plan(system=f"{system}:controllers")):
        settings = settings_of(plan, endpoints=WITH_CONTROLLERS)
        assert settings["broker.heartbeat.interval.ms"] == str(interval_ms)
        assert interval_ms < 300, "a combined node that stops may wait for as long"
    of_the_plan = Plan(system=system, broker={"broker.heartbeat.interval.ms": "700"})
    assert settings_of(of_the_plan)["broker.heartbeat.interval.ms"] == "700"


@pytest.mark.parametrize("system", ["kafka:0.11.0.3", "kafka:3.9.1:zookeeper"])
def test_with_zookeeper_there_is_no_heartbeat(system: str) -> None:
    settings = settings_of(Plan(system=system), zookeeper=ZOOKEEPER)
    assert "broker.heartbeat.interval.ms" not in settings
