"""The rows of a page that say on what a run ran."""

from results.page.setting import setting_rows

DIGEST = "0123456789abcdef" * 4
PLAN = {"system": "kafka:/home/me/kafka", "nodes": 3}


def rows(brokers: object) -> dict[str, str]:
    return dict(setting_rows(PLAN, {"brokers": brokers}, night=None))


def test_a_build_of_the_users_is_told_by_version_commit_and_hashes() -> None:
    found = rows({"version": "4.4.0-SNAPSHOT", "commit": "abc123", "jars": {"my.jar": DIGEST}})
    assert found["system"] == "kafka:/home/me/kafka"
    assert found["version"] == "4.4.0-SNAPSHOT (commit abc123)"
    assert found["own jars (SHA-256)"] == "my.jar 0123456789ab"
    assert rows({"version": "4.3.1", "jars": {"my.jar": DIGEST}})["version"] == "4.3.1"


def test_of_many_jars_the_first_are_named() -> None:
    found = rows({"version": "4.3.1", "jars": {f"{each}.jar": DIGEST for each in range(50)}})
    told = found["own jars (SHA-256)"]
    assert told.startswith("0.jar 0123456789ab; 1.jar ")
    assert told.endswith("; 47 more in environment.json")


def test_of_a_release_and_of_what_is_no_table_nothing_is_told_beside_the_system() -> None:
    for brokers in ({"version": "4.3.1"}, {}, None, "4.3.1", ["jars"]):
        assert not {"version", "own jars (SHA-256)"} & rows(brokers).keys()
    assert "own jars (SHA-256)" not in rows({"version": "4.3.1", "jars": "x"})


def test_the_clients_library_is_told() -> None:
    own = {"confluent-kafka": "2.12.0"}

    def library(plan: dict[str, object], libraries: dict[str, str]) -> str:
        rows = dict(setting_rows(plan, {"libraries": libraries}, night=None))
        return rows["client library"]

    assert library({}, own) == "confluent-kafka 2.12.0"
    assert library({"client_version": "2.3.0"}, own) == "confluent-kafka 2.3.0"
    java = {**own, "kafka-clients": "4.3.1"}
    assert library({"client_kind": "java:4.3.1"}, java) == "kafka-clients 4.3.1"


def test_what_messages_hold_is_told_of_a_plan_that_says_it() -> None:
    contents = {"sizes": [[4000, 30], [980000, 1500]], "headers": "mixed", "batch_bytes": 1000}
    plan = {**PLAN, "payload_bytes": 40, "compression": "zstd", "linger_ms": 5.0}
    told = dict(setting_rows({**plan, "contents": contents}, {}, night=None))["messages"]
    assert told == (
        "payloads of 40 bytes, one in 30 of 4,000 bytes, one in 1500 of 980,000 bytes; headers"
        " mixed; compression zstd; linger.ms 5.0; batch.size 1000"
    )
    assert "messages" not in dict(setting_rows(plan, {}, night=None))
    for strange in (7, {"sizes": [[1], 2, "x"]}, {"sizes": 5}):
        dict(setting_rows({**plan, "contents": strange}, {}, night=None))


def test_what_a_swarm_drew_is_told_in_one_line_with_its_values() -> None:
    drawn = {
        "swarmed": ["rate", "broker.num.io.threads", "contents.batch_bytes", "client.gone"],
        "rate": 50.0,
        "broker": {"num.io.threads": "8", "set.by.hand": "1"},
        "contents": {"batch_bytes": 8000},
    }
    told = dict(setting_rows({**PLAN, **drawn}, {}, night=None))
    assert (
        told["chosen at random by the swarm"]
        == "rate = 50.0; num.io.threads = 8; batch_bytes = 8000"
    )
    for strange in (7, [7, None], "rate", [], ["broker"], ["broker."]):
        found = dict(setting_rows({**PLAN, "broker": 3, "swarmed": strange}, {}, night=None))
        assert found.get("chosen at random by the swarm") in {None, "broker = 3"}
    assert "chosen at random by the swarm" not in dict(setting_rows(PLAN, {}, night=None))


def test_the_level_of_faults_is_told_beside_their_families() -> None:
    plan = {**PLAN, "nemesis": ["kill", "pause"]}
    assert dict(setting_rows(plan, {}, night=None))["faults"] == "kill, pause"
    hard = dict(setting_rows({**plan, "level": 3}, {}, night=None))
    assert hard["faults"] == "kill, pause, level 3"
