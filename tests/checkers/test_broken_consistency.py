"""The corpus keeps to cause and time, and its tables and files agree, but where that is meant."""

from collections.abc import Callable, Iterable

import pytest

from tests.broken import catalogue
from tests.broken.agreement import unlike_files
from tests.broken.causality import RULES, Facts, Rule
from tests.broken.corpus import BASES, MOMENTS, Change
from tests.broken.exemptions import EXEMPT, contradictions
from tests.broken.record import Record, Row

CHANGES = catalogue()
_SOON, _LATE = 8_000_000_000, 50_000_000_000
"""Before all faults of the base `log`, and after them."""


def _of(record: Record, table: str, **equal: object) -> Row:
    return record.rows(table, topic="log-0", partition=0, **equal)[-1]


def _die(record: Record) -> None:
    detail = {"node": "n1", "code": "1", "said": ""}
    record.milestones.append({"name": "broker-ended", "at_ns": _SOON, "detail": detail})


def _fetch_early(record: Record) -> None:
    commit = record.rows("commits", act="commit")[0]
    record.add("commits", commit, act="fetch", committed_by=commit["op_id"], told_ns=_SOON)


def _cut(record: Record, **changed: object) -> None:
    state = _of(record, "replica_states", node="n1")
    told = {"observed_ns": None, "node": "n2", "incarnation": 0, "to_offset": None}
    place = {name: state[name] for name in ("topic", "topic_id", "partition")}
    record.add(
        "truncations", place, **{**told, "from_offset": 9, "source": "server-log", **changed}
    )


PLANTED: dict[str, list[Callable[[Record], object]]] = {
    "reads_before_sends": [lambda it: _of(it, "polls").update(complete_ns=_SOON)],
    "ends_before_sends": [
        lambda it: it.add("replica_states", _of(it, "replica_states", snapshot="noted"),
                          observed_ns=_SOON),
        lambda it: _of(it, "leadership", source="list-offsets").update(observed_ns=_SOON),
    ],
    "epochs_before_elections": [
        lambda it: _of(it, "leadership", source="metadata").update(observed_ns=_SOON),
        lambda it: _of(it, "leadership", source="metadata").update(leader_epoch=9),
    ],
    "stale_answers": [
        lambda it: it.add("leadership", min(it.rows("leadership", source="metadata"),
                                            key=lambda row: int(row["asked_ns"])),
                          asked_ns=_LATE, observer="n1"),
    ],
    "roles_of_the_dead": [_die],
    "acknowledgements_of_the_dead": [
        lambda it: it.rows("sends", topic="log-0", partition=0, offset=160)[0].update(
            invoke_ns=17_000_000_000, complete_ns=17_100_000_000),
    ],
    "lives_out_of_order": [
        lambda it: _of(it, "leadership", source="metadata", observer="n2").update(incarnation=1),
    ],
    "answers_of_the_dead": [
        _die,
        lambda it: _of(it, "leadership", source="metadata", observer="n2").update(
            asked_ns=17_000_000_000, observed_ns=17_100_000_000),
    ],
    "rows_apart_from_their_op": [
        lambda it: _of(it, "sends").update(invoke_ns=_SOON),
        lambda it: it.rows("ops")[-1].update(complete_ns=_SOON),
    ],
    "answers_to_groups": [_fetch_early],
    "recoveries_unlike_answers": [
        lambda it: [each["detail"].update(failed="x") for each in it.milestones],
        lambda it: [row.update(isr=[3]) for row in it.rows("leadership", source="metadata")],
    ],
    "answers_unlike_the_controllers": [
        lambda it: _of(it, "leadership", source="metadata").update(leader=1),
        lambda it: _of(it, "leadership", source="metadata").update(isr=[1, 2]),
    ],
    "logged_leaders": [
        lambda it: it.drop("leadership", lambda row: row["observer"] == "n3",
                           source="state-change-log", topic="log-0"),
    ],
    "order_of_the_controllers_log": [
        lambda it: _of(it, "leadership", source="metadata-log").update(leader_epoch=-1),
        lambda it: _of(it, "leadership", source="metadata-log").update(log_offset=27),
        lambda it: _of(it, "leadership", source="metadata-log").update(log_offset=999),
    ],
    "epochs_of_records": [
        lambda it: _of(it, "replica_states", snapshot="final").update(epochs=[]),
        lambda it: _of(it, "replica_states", snapshot="final")["epochs"][1].update(
            start_offset=999
        ),
        lambda it: _of(it, "replica_states", snapshot="final").update(log_start_offset=3),
    ],
    "epochs_without_a_leader": [lambda it: _of(it, "replica_records").update(leader_epoch=2)],
    "ends_of_logs": [
        lambda it: it.drop("replica_records", lambda row: row["offset"] > 700, node="n1"),
        lambda it: it.drop("replica_records", lambda _: True, node="n1"),
        lambda it: _of(it, "replica_states", snapshot="final").update(high_watermark=999),
    ],
    "logs_that_shrink": [lambda it: _of(it, "replica_states", snapshot="final").update(
        log_end_offset=9)],
    "truncations": [
        lambda it: _cut(it, reason=None),
        lambda it: _cut(it, reason="follower of broker 3: epoch 0 ends at offset 8 there"),
        lambda it: _cut(it, reason="follower of broker 1: epoch 0 ends at offset 9 there"),
        lambda it: _cut(it, reason="follower of broker 3: epoch 0 ends at offset 9 there"),
    ],
    "files_unlike_tables": [],  # It has a test of its own: files are written from the tables.
}  # fmt: skip
"""What breaks each rule in the base `log`, or `groups`."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_bases_keep_a_rule(rule: Rule) -> None:
    told = {base: list(rule.contradictions(Facts(Record(BASES / base)))) for base in MOMENTS}
    assert told == {base: [] for base in MOMENTS}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_each_contradiction_that_is_planted(rule: Rule) -> None:
    for plant in PLANTED[rule.name]:
        record = Record(BASES / ("groups" if rule.name == "answers_to_groups" else "log"))
        plant(record)
        assert list(rule.contradictions(Facts(record))) != []
        assert rule.tables & record.changed


def test_files_that_differ_from_the_tables_are_found() -> None:
    record = Record(BASES / "log")
    _of(record, "replica_states", snapshot="final").update(epochs=[], high_watermark=9)
    assert len(list(unlike_files(Facts(record), Record(BASES / "log").node_files()))) == len(
        {"epochs", "mark"}
    )


def test_a_change_of_each_row_contradicts_nothing_but_what_it_is_about() -> None:
    assert _contradictions({each.row: each for each in CHANGES}.values()) == {}


@pytest.mark.night  # Of each row one change is looked at always.
@pytest.mark.timeout(1800)  # A busy machine takes ten times as long.
def test_no_change_contradicts_anything_but_what_it_is_about() -> None:
    assert _contradictions(CHANGES) == {}


@pytest.mark.parametrize(("maker", "rule"), EXEMPT, ids=["-".join(each) for each in EXEMPT])
def test_an_exemption_is_needed(maker: str, rule: str) -> None:
    mine = [each for each in CHANGES if each.make.__name__ == maker]
    assert any(rule == broken for each in mine for broken, _ in contradictions(each))


def _contradictions(changes: Iterable[Change]) -> dict[str, list[tuple[str, str]]]:
    found = {
        each.name: [
            (rule, said)
            for rule, said in contradictions(each)
            if (each.make.__name__, rule) not in EXEMPT
        ]
        for each in changes
    }
    return {name: said for name, said in found.items() if said}
