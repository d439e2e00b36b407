from pathlib import Path

import pytest

from cluster.kafka.configuration import Endpoint, logging_properties, node_id, server_properties
from results.record.plan import Plan

ENDPOINTS = {
    f"n{number}": Endpoint(host=f"10.99.0.{number}", broker_port=9092, controller_port=9093)
    for number in (1, 2, 3)
}


def settings_of(plan: Plan, node: str = "n2") -> dict[str, str]:
    text = server_properties(plan, node, endpoints=ENDPOINTS, data=Path("/runs/x/nodes/n2/data"))
    pairs = [line.partition("=")[::2] for line in text.splitlines()]
    assert len(dict(pairs)) == len(pairs), "a key twice: Java would take the last one"
    return {key: value.replace("\\:", ":").replace("\\=", "=") for key, value in pairs}


def test_a_node_is_broker_and_controller_and_knows_all_voters() -> None:
    settings = settings_of(Plan())
    assert settings["process.roles"] == "broker,controller"
    assert settings["node.id"] == "2"
    voters = "1@10.99.0.1:9093,2@10.99.0.2:9093,3@10.99.0.3:9093"
    assert settings["controller.quorum.voters"] == voters
    assert settings["listeners"] == "BROKER://10.99.0.2:9092,CONTROLLER://10.99.0.2:9093"
    assert settings["log.dirs"] == "/runs/x/nodes/n2/data"


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


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("C:\\x", "C\\:\\\\x"),
        (" leading blank", "\\ leading blank"),
        ("two\nlines", "two\\nlines"),
        ("grün", "gr\\u00fcn"),
        ("\N{OWL}", "\\ud83e\\udd89"),
    ],
)
def test_values_survive_javas_properties(value: str, written: str) -> None:
    plan = Plan(broker={"some.key": value})
    text = server_properties(plan, "n1", endpoints=ENDPOINTS, data=Path("/data"))
    assert f"some.key={written}" in text.splitlines()


def test_node_ids_are_the_numbers_of_the_names() -> None:
    assert [node_id(node) for node in ENDPOINTS] == [1, 2, 3]


def test_log_lines_have_milliseconds_and_survive_the_stop() -> None:
    text = logging_properties(Path("/runs/x/logs"))
    assert text.count("%d{yyyy-MM-dd HH:mm:ss,SSS}") == 3
    assert "shutdownHook = disable" in text
    for name in ("server.log", "controller.log", "state-change.log"):
        assert f"fileName = /runs/x/logs/{name}" in text
