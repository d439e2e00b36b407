"""What may have disturbed a partition, and when; and when it was quiet."""

import pyarrow as pa
import pytest

from checkers.changes import (
    HANDLES,
    MEMORY,
    PROCESSOR,
    SETTLED_NS,
    deeds,
    disturbances,
    disturbed,
    elected,
    restarted,
    was_quiet,
)
from checkers.columns import NEVER
from checkers.facts import Disturbance, RunFacts
from cluster.protocol import Ability
from nemesis.claims import Aspect
from nemesis.registry import KINDS
from results.record.declared import Declared, Sight
from results.record.milestones import ENDED, Milestone
from results.record.tables import TABLES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, group, leads

LATE = 5 * S
"""What was may be told so much later."""
SINCE, UNTIL = 100 * S, 110 * S
MAIN = (Milestone(name="main", at_ns=50 * S),)


def about(**changes: object) -> RunFacts:
    return facts(**{"plan": None, "milestones": MAIN, **changes})  # type: ignore[arg-type]  # Of a dict.


def fault(begun_ns: int, ended_ns: int, kind: str = "kill") -> RunFacts:
    return about(disturbances=(Disturbance(kind=kind, begun_ns=begun_ns, ended_ns=ended_ns),))


def quiet(on: RunFacts | None = None, *led: Row, states: tuple[Row, ...] = ()) -> bool:
    rows = group(on or about(), leadership=[leads(1, 3, at=S), *led], replica_states=[*states])
    return was_quiet(rows, SINCE, UNTIL)


def life(number: int | None, at_ns: int | None, *, node: str = "n1") -> Row:
    return {"node": node, "incarnation": number, "observed_ns": at_ns}


def test_faults_that_may_have_been_in_force_disturb_from_when_to_when() -> None:
    rows: list[Row] = [
        {"fault_id": 1, "kind": "kill", "targets": ["n1"], "requested_ns": 5, "healed_ns": 7},
        {"fault_id": 2, "kind": "wipe", "targets": ["n1"], "requested_ns": 9},
        {"fault_id": 3, "kind": "kill", "targets": None, "requested_ns": 5, "healed_ns": 7},
        {"fault_id": 4, "kind": "kill", "targets": ["n1"], "requested_ns": None},
        {"fault_id": 5, "kind": "any", "targets": ["n1"], "requested_ns": 5, "healed_ns": 7,
         "effect": '{"kind": "pause"}'},
        {"fault_id": 6, "kind": "any", "targets": ["n1"], "requested_ns": 5, "healed_ns": 7,
         "effect": '{"kind": "cut"}'},
        {"fault_id": 7, "kind": "of-zookeeper", "targets": ["zk"], "requested_ns": 5,
         "healed_ns": 7, "effect": '{"kind": "kill"}', "spec": '{"family": "keeper"}'},
        {"fault_id": 8, "kind": "pause-some", "targets": ["n1"], "requested_ns": 5,
         "effect": '{"without_effect": "one went on"}', "spec": '{"begun": true}'},
        {"fault_id": 9, "kind": "rolling-kill-some", "targets": ["n1"], "requested_ns": 5,
         "healed_ns": 7, "effect": '{"kind": "struck-in-turn"}'},
    ]  # fmt: skip
    assert disturbances(pa.Table.from_pylist(rows, schema=TABLES["faults"])) == (
        Disturbance(kind="kill", begun_ns=5, ended_ns=7, nodes=frozenset({"n1"})),
        Disturbance(kind="wipe", begun_ns=9, ended_ns=NEVER, nodes=frozenset({"n1"})),
        Disturbance(kind="pause", begun_ns=5, ended_ns=7, nodes=frozenset({"n1"})),
        Disturbance(kind="any", begun_ns=5, ended_ns=7, nodes=frozenset({"n1"})),
        # No broker is gone, so that nobody is expected to take over from one.
        Disturbance(
            kind="of-zookeeper", begun_ns=5, ended_ns=7, nodes=frozenset({"zk"}), family="keeper"
        ),
        # Others may have stood still.
        Disturbance(kind="pause", begun_ns=5, ended_ns=NEVER, nodes=frozenset({"n1"})),
        # They are gone one after the other, and not for as long as it lasts.
        Disturbance(kind="rolling-restart", begun_ns=5, ended_ns=7, nodes=frozenset({"n1"})),
    )


@pytest.mark.parametrize(
    ("heal", "strikes"),
    [
        ('{"took_s": 1.0, "strikes": [{"at_s": 0.0}, {"at_s": 2.0}]}', 2),
        ('{"took_s": 1.0, "opened": []}', 0),
        ('{"not_healed": "so far"}', -1),
        ("", -1),
        ('{"took_s": 1.0, "strikes": 7}', -1),
    ],
)
def test_how_often_connections_of_clients_were_broken_is_told_by_the_heal(
    heal: str, strikes: int
) -> None:
    for family, told in (("client-connections", strikes), ("connections", 0)):
        row: Row = {
            "fault_id": 1, "kind": "any", "targets": ["n1"], "requested_ns": 5,
            "spec": f'{{"family": "{family}", "begun": true}}', "heal_effect": heal,
        }  # fmt: skip
        (fault,) = disturbances(pa.Table.from_pylist([row], schema=TABLES["faults"]))
        assert fault.strikes == told


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            '{"place": ["log-0", 1], "roles": {"controller": true}, "links": [["n1", "n2"]]}',
            (("log-0", 1), True, {"n1", "n2"}),
        ),
        ('{"place": null, "roles": {"controller": false}, "links": []}', (None, False, set())),
        ('{"place": ["log-0"], "roles": [true], "links": [7, [3, "n2"]]}', (None, False, {"n2"})),
        ('{"place": [1, "log-0"], "roles": {"controller": 1}, "links": 7}', (None, False, set())),
        ("not JSON", (None, False, set())),
    ],
)
def test_what_a_fault_was_about_is_told_by_its_row(spec: str, told: object) -> None:
    row: Row = {"fault_id": 1, "kind": "any", "targets": ["n1"], "requested_ns": 5,
                "confirmed_ns": 6, "spec": spec}  # fmt: skip
    (fault,) = disturbances(pa.Table.from_pylist([row], schema=TABLES["faults"]))
    assert (fault.place, fault.controller, fault.ends) == told


@pytest.mark.parametrize("damaged", ['["kill"]', '{"kill": 1}', "7", "null"])
def test_a_row_whose_words_are_none_did_what_its_name_says(damaged: str) -> None:
    row: Row = {
        "fault_id": 1, "kind": "any", "targets": ["n1"], "requested_ns": 5,
        "effect": f'{{"kind": {damaged}}}', "spec": f'{{"family": {damaged}, "begun": true}}',
    }  # fmt: skip
    assert deeds(pa.Table.from_pylist([row], schema=TABLES["faults"])) == ["any"]


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (fault(UNTIL, NEVER), True),
        (fault(UNTIL + 1, NEVER), False),
        (fault(0, SINCE - SETTLED_NS), True),
        (fault(0, SINCE - SETTLED_NS - 1), False),
    ],
)
def test_a_fault_disturbs_until_everybody_has_heard_of_its_end(
    on: RunFacts, expected: object
) -> None:
    assert disturbed(on, SINCE, UNTIL) is expected
    assert disturbed(on, SINCE, UNTIL, kind="kill") is expected
    assert not disturbed(on, SINCE, UNTIL, kind="wipe")
    assert quiet(on) is not expected


def test_it_is_quiet_where_nothing_is_known() -> None:
    assert quiet()
    assert quiet(None, leads(1, 3, at=SINCE), states=(life(1, S), life(1, SINCE)))


@pytest.mark.parametrize(("found_ns", "expected"), [(SINCE - 1, True), (SINCE, False)])
def test_a_broker_that_ended_by_itself_did_so_before_it_was_found(
    found_ns: int, expected: object
) -> None:
    found = Milestone(name=ENDED, at_ns=found_ns, detail={"node": "n1"})
    assert quiet(about(milestones=(*MAIN, found))) is expected


def test_before_the_main_phase_and_backwards_nobody_knows() -> None:
    rows = group(about(), leadership=[leads(1, 3, at=S)])
    assert not was_quiet(rows, 50 * S - 1, UNTIL)
    assert was_quiet(rows, 50 * S, UNTIL)
    assert was_quiet(rows, UNTIL, UNTIL)
    assert not was_quiet(rows, UNTIL, UNTIL - 1)
    assert was_quiet(rows, SINCE, NEVER)
    assert not quiet(about(milestones=()))


@pytest.mark.parametrize(
    ("at_ns", "expected"),
    [
        (SINCE - LATE - 1, True),
        (SINCE - LATE, False),
        (UNTIL + LATE, False),
        (UNTIL + LATE + 1, True),
    ],
)
def test_elections_and_restarts_may_be_told_late(at_ns: int, expected: object) -> None:
    assert quiet(None, leads(2, 4, at=at_ns)) is expected
    assert quiet(states=(life(1, S), life(2, at_ns))) is expected


@pytest.mark.parametrize(
    ("silence", "expected"),
    [
        ((UNTIL, UNTIL + 9), False),
        ((UNTIL + 1, UNTIL + 9), True),
        ((0, SINCE), False),
        ((0, SINCE - 1), True),
    ],
)
def test_a_machine_asleep_is_not_quiet(silence: tuple[int, int], expected: object) -> None:
    assert quiet(about(silences=(silence,))) is expected


def test_an_election_is_when_its_epoch_was_told_first() -> None:
    led = [leads(1, 3, at=10), leads(2, 4, at=20), leads(2, 4, at=90), leads(2, 5, at=30)]
    rows = group(leadership=led)
    assert [elected(rows, since) for since in (20, 21, 30, 31)] == [True, True, True, False]
    assert [elected(rows, 11, until) for until in (19, 20, 25)] == [False, True, True]
    assert not elected(group(leadership=led[:1]), 0), "the first epoch is no change"
    assert elected(group(leadership=[{**led[0], "leader_epoch": None}]), 0), "nobody knows"
    untimed = {**leads(2, 7), "observed_ns": None}
    assert elected(group(leadership=[led[0], untimed]), 999), "nobody knows when"
    assert elected(group(leadership=[led[0], {**led[1], "observed_ns": 0}]), 0)


def test_a_restart_is_one_of_a_brokers_own() -> None:
    lives = [life(1, 10), life(3, 20, node="n2"), life(2, 10, node="n0"), life(2, 40)]
    rows = group(replica_states=lives)
    assert restarted(rows, 40)
    assert not restarted(rows, 41)
    assert not restarted(group(replica_states=lives[:3]), 0)
    unknown = [life(None, 50, node="n3"), life(1, 60, node="n3")]
    assert not restarted(group(replica_states=unknown), 0)


def test_where_ends_or_lives_are_not_shown_nobody_knows_of_restarts() -> None:
    for hidden, known in ((Sight.ENDS, True), (Sight.HIGH_WATERMARKS, True), (Sight.QUORUM, False)):
        about = facts(declared=Declared(sees=frozenset(Sight) - {hidden}))
        assert restarted(group(about), 0) is known


def test_a_kind_that_is_named_for_what_it_does_to_servers_does_that() -> None:
    named = [
        (name, did)
        for name, kind in KINDS.items()
        for did in name.split("-")
        if not kind.family.startswith("keeper")
    ]
    ending = [(name, did) for name, did in named if did in {"kill", "stop", "pause"}]
    assert len(ending) > 3
    for name, did in ending:
        assert Ability(did) in KINDS[name].needs, name
        assert KINDS[name].aspect is Aspect.PROCESS, name
    wanting = {name for name, did in named if did in {HANDLES, PROCESSOR, MEMORY}}
    assert wanting == {name for name, kind in KINDS.items() if kind.family == "resources"}


@pytest.mark.parametrize(
    ("kind", "effect", "family", "did"),
    [
        ("any", "memory", "", "memory"),
        ("any-memory", "memory", "", "memory"),
        ("any-memory", "", "", "memory"),
        ("any-handles", "", "", "handles"),
        ("any-processor", "back", "", "processor"),
        ("any-processor", "kill", "", "kill"),
        ("pause-any", "", "", "pause"),
        ("any", "", "", "any"),
        ("any-kill", "kill", "keeper", "any-kill"),
        ("any-memory", "", "keeper", "any-memory"),
    ],
)
def test_what_a_fault_did_is_what_was_measured_or_else_what_its_name_says(
    kind: str, effect: str, family: str, did: str
) -> None:
    row: Row = {
        "kind": kind, "targets": ["n2"], "requested_ns": 1,
        "effect": f'{{"kind": "{effect}"}}', "spec": f'{{"family": "{family}"}}',
    }  # fmt: skip
    assert deeds(group(facts(), faults=[row]).table("faults")) == [did]
