import json
from dataclasses import replace
from typing import Any

from checkers import faults, malformed, traffic
from checkers.facts import RunFacts
from checkers.shelf import Shelf, ShelvedTable
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    S,
    ack,
    facts,
    found,
    group,
    reasons,
    sentences,
    whole_run,
)


def op(number: int, begin: int | None, end: int | None, **changes: object) -> Row:
    return {"op_id": number, "process": 1, "f": "send", "phase": "main", "invoke_ns": begin,
            "complete_ns": end, "outcome": "ok" if end else "info", "messages": 1,
            **changes}  # fmt: skip


def flaws(*ops: Row) -> list[str]:
    return sentences(malformed.OPS_CHECKER, whole_run(ops=list(ops)))


def test_ops_one_after_the_other_are_well_formed() -> None:
    assert flaws(op(1, 0, 5), op(2, 5, 9), op(3, 9, None)) == []


def test_what_contradicts_itself_is_malformed() -> None:
    assert flaws(op(1, 0, 5), op(1, 6, 9)) == ["op 1 is recorded more than once"]
    assert flaws(op(1, 0, 7), op(2, 5, 9)) == ["op 2 was invoked during another op of process 1"]
    assert "before it was invoked" in flaws(op(1, 5, 2))[0]
    assert flaws(op(1, None, 2, process=None)) == ["op 1 completed but was never invoked"]


def test_a_process_ends_with_its_info() -> None:
    late = flaws(op(1, 0, 2, outcome="info"), op(2, 3, 4), op(3, 4, 5))
    assert late == [
        "op 2 follows an op of unknown outcome in process 1",
        "op 3 follows an op of unknown outcome in process 1",
    ]
    assert flaws(op(1, 0, 2, outcome="info"), op(2, 3, 4, process=17)) == []


def test_the_op_that_none_may_follow_is_named_and_what_is_wrong_with_it() -> None:
    def why(*ops: Row) -> str:
        on = whole_run(ops=[*ops])
        return malformed.OPS_CHECKER.why(on, found(malformed.OPS_CHECKER, on).anomalies[0])

    tail, after = "; no broker is involved", op(2, 60 * S, 61 * S)
    timed = {"outcome": "info", "error": "_TIMED_OUT: Local: Timed out"}
    assert why(op(1, 0, S // 100, **timed), after) == (
        "op 1, a send, has an unknown outcome (_TIMED_OUT) after 10 ms, although the delivery"
        f" timeout is 30 s: Logquake recorded that outcome wrongly{tail}"
    )
    head = "op 1, a send, has an unknown outcome (_TIMED_OUT), since 30.000 s: Logquake recorded"
    wrong = " that outcome wrongly, or continued with its process"
    assert why(op(1, 0, 30 * S, **timed), after) == f"{head}{wrong}{tail}"
    assert wrong in why(op(1, 0, S // 100, f="poll", **timed), after)
    assert wrong in why(op(1, 0, S // 100, outcome="info", error="_TRANSPORT"), after)
    assert why(op(1, 0, None), after) == (
        "op 1, a send, has an unknown outcome and never ended, but Logquake continued with its"
        f" process{tail}"
    )
    assert why(op(1, 0, 7), op(2, 5, 9)) == f"Logquake recorded it wrongly{tail}"
    never = op(3, None, 4, outcome="info")  # Nobody knows when it began: it is not the op before.
    on = whole_run(ops=[op(1, 0, 7), op(2, 5, 9), never])
    told = {each.evidence["op_id"]: each for each in found(malformed.OPS_CHECKER, on).anomalies}
    assert malformed.OPS_CHECKER.why(on, told[2]) == f"Logquake recorded it wrongly{tail}"


def test_the_reason_is_the_same_of_a_big_table() -> None:
    on = whole_run(ops=[op(1, 0, None), op(2, 3, 4)])
    ops = on.table("ops")
    big = ShelvedTable(
        ops.column_names, len(ops), lambda name: ops[name].combine_chunks(), shelf=Shelf()
    )
    (flaw,) = found(malformed.OPS_CHECKER, on).anomalies
    tables: dict[str, Any] = {**on.tables, "ops": big}
    shelved = replace(on, tables=tables)
    assert malformed.OPS_CHECKER.why(shelved, flaw) == malformed.OPS_CHECKER.why(on, flaw)


def test_what_is_not_known_of_an_op_is_no_flaw_of_others() -> None:
    nameless = {"process": None}
    assert flaws(op(1, 0, 7, **nameless), op(2, 5, 9, **nameless)) == []
    never = ["op 1 completed but was never invoked"]
    assert flaws(op(1, None, 9), op(2, 1, 3)) == never
    assert flaws(op(1, None, -5, **nameless)) == never


def test_an_op_that_is_open_overlaps_all_that_follow_in_its_process() -> None:
    during = "op 3 was invoked during another op of process 1"
    open_ = op(2, 2, None, outcome="ok")
    assert flaws(op(1, 0, 1), open_, op(3, 5, 9), op(4, 5, 9, process=2)) == [during]
    assert flaws(op(1, 0, 0, outcome="ok"), op(2, 0, 3)) == []  # It ended when the next one began.
    unknown = op(1, 0, None)
    assert flaws(unknown, op(2, 3, 4)) == ["op 2 follows an op of unknown outcome in process 1"]


def test_a_value_is_sent_once() -> None:
    assert sentences(malformed.VALUES_CHECKER, group(sends=[ack(A, 0), ack(B, 1)])) == []
    assert len(sentences(malformed.VALUES_CHECKER, group(sends=[ack(A, 0), ack(A, 1)]))) == 1


def busy(sends: int, polls: int, **changes: object) -> list[Row]:
    total = sends + polls
    return [op(at, at * S, at * S + 1, f="send" if at < sends else "poll", **changes)
            for at in range(total)]  # fmt: skip


def test_enough_traffic_is_counted_in_messages_and_in_polls_that_returned_some() -> None:
    assert sentences(traffic.CHECKER, whole_run(ops=busy(100, 100))) == []
    few = sentences(traffic.CHECKER, whole_run(ops=busy(99, 100)))
    assert few == ["99 ok sends in the main phase; at least 100 are needed for a verdict"]
    empty = sentences(traffic.CHECKER, whole_run(ops=busy(100, 0) + busy(0, 100, messages=0)))
    assert empty == ["0 ok polls in the main phase; at least 100 are needed for a verdict"]


def test_a_share_group_that_gave_its_members_nothing_is_not_enough() -> None:
    shares = facts(plan={"workload": "shares"})
    needed = "in the main phase; at least 1 are needed for a verdict"
    nothing = f"0 confirmed acknowledgements {needed}"
    final = op(901, 1 * S, 2 * S, f="acknowledge", phase="final")
    failed = op(902, 1 * S, None, f="acknowledge")
    few = whole_run(shares, ops=[*busy(100, 100), final, failed])
    assert sentences(traffic.CHECKER, few) == [nothing]
    assert reasons(traffic.CHECKER, few) == ["1 of the 1 operations that began failed"]
    # Such an op of a crew is ok, since its member goes on.
    refused = op(
        903,
        1 * S,
        2 * S,
        f="acknowledge",
        messages=0,
        error="no broker confirmed the acknowledgements",
    )
    none = whole_run(shares, ops=[*busy(100, 100), final, refused])
    assert sentences(traffic.CHECKER, none) == [nothing]
    why = (
        "1 of the 1 operations that began failed, mostly with no broker confirmed the"
        " acknowledgements"
    )
    assert reasons(traffic.CHECKER, none) == [why]
    one = op(900, 1 * S, 2 * S, f="acknowledge", messages=1)
    assert sentences(traffic.CHECKER, whole_run(shares, ops=[*busy(100, 100), one])) == []


def test_traffic_is_needed_before_during_and_after_the_faults() -> None:
    ops = busy(100, 100)
    fault = {"fault_id": 1, "kind": "kill", "requested_ns": 50 * S, "confirmed_ns": 50 * S}
    healthy = whole_run(ops=ops, faults=[{**fault, "healed_ns": 60 * S}])
    assert sentences(traffic.CHECKER, healthy) == []
    silent = whole_run(
        ops=ops, faults=[{**fault, "confirmed_ns": 50 * S + 9, "healed_ns": 50 * S + 10}]
    )
    assert sentences(traffic.CHECKER, silent) == [
        "0 ok ops during the faults; at least 1 are needed for a verdict"
    ]


def fault(number: int, kind: str, *, confirmed: bool = True) -> Row:
    return {"fault_id": number, "kind": kind, "requested_ns": 1, "targets": ["n1"],
            "confirmed_ns": 2 if confirmed else None}  # fmt: skip


def lacks(about: RunFacts, *rows: Row) -> list[str]:
    return sentences(faults.CHECKER, whole_run(about, faults=list(rows)))


def test_faults_of_every_listed_kind_are_enough() -> None:
    about = facts(plan={"nemesis": "partition,kill"})
    assert lacks(about, fault(1, "isolate"), fault(2, "kill")) == []


def test_a_listed_kind_without_a_confirmed_fault_is_without_effect() -> None:
    about = facts(plan={"nemesis": "partition,kill"})
    (sentence,) = lacks(about, fault(1, "halves"), fault(2, "kill", confirmed=False))
    assert sentence == (
        "no fault of kind kill was confirmed, of 1 that was started; at least 1 must be confirmed"
    )
    (unstarted,) = lacks(about, fault(1, "halves"), fault(2, "isolate"))
    assert unstarted == (
        "no fault of kind kill was confirmed, and none was started; at least 1 must be confirmed"
    )
    (uncut,) = lacks(about, fault(1, "kill"), fault(2, "isolate", confirmed=False))
    assert uncut.startswith("no fault of kind partition was confirmed, of 1 that was started")


def test_of_families_that_nobody_named_only_enough_faults_are_asked_for() -> None:
    rows = [fault(1, "kill"), fault(2, "pause", confirmed=False)]
    drawn = facts(plan={"nemesis": ["kill", "pause", "clock"], "drawn": True})
    assert faults.CHECKER.applies(drawn)
    assert sentences(faults.CHECKER, whole_run(drawn, faults=rows)) == []
    many = [*rows, fault(3, "pause", confirmed=False)]
    few, never = sentences(faults.CHECKER, whole_run(drawn, faults=many))
    assert few.startswith("1 fault was confirmed, of 3 that were started; at least 2")
    assert never.startswith("no fault of kind pause was confirmed, of 2 that were started")
    waited = {**fault(4, "clock", confirmed=False), "targets": None}
    rows += [fault(5, "kill"), fault(7, "kill"), waited, {**waited, "fault_id": 6}]
    assert sentences(faults.CHECKER, whole_run(drawn, faults=rows)) == [], "it was never begun"


def test_a_fault_counts_for_the_family_that_its_row_names() -> None:
    about = facts(plan={"nemesis": "network,disk"})
    told = [
        {**fault(number, kind), "spec": json.dumps({"kind": kind, "family": family})}
        for number, (kind, family) in enumerate([("delay", "network"), ("disk-full", "disk")], 1)
    ]
    assert lacks(about, *told) == []
    (sentence,) = lacks(about, told[0], {**told[1], "confirmed_ns": None})
    assert sentence == (
        "no fault of kind disk was confirmed, of 1 that was started; at least 1 must be confirmed"
    )
    for spec in ("", "{", "[]", '{"family": 3}', "[" * 100_000, None):
        (unnamed,) = lacks(facts(plan={"nemesis": "disk"}), {**told[1], "spec": spec})
        assert unnamed.startswith("no fault of kind disk was confirmed, and none was started")


def test_fewer_than_half_of_the_faults_are_too_few() -> None:
    about = facts(plan={"nemesis": "kill"})
    rows = [fault(1, "kill"), fault(2, "kill", confirmed=False), fault(3, "kill", confirmed=False)]
    (sentence,) = lacks(about, *rows)
    assert sentence.startswith("1 fault was confirmed, of 3 that were started; at least 2")


def test_a_run_that_asks_for_random_faults_has_at_least_one_that_took_effect() -> None:
    for nemesis in ("all", "kill"):
        about = facts(plan={"nemesis": nemesis, "drawn": True})
        assert faults.CHECKER.applies(about)
        for rows, started in (((), "none was"), ((fault(1, "pause", confirmed=False),), "1 that")):
            (told,) = lacks(about, *rows)
            assert told.startswith("0 faults were confirmed")
            assert started in told
        assert lacks(about, fault(1, "pause"), fault(2, "kill", confirmed=False)) == []
        few = {"nemesis": nemesis, "drawn": True, "minimums": {"confirmed_faults": 0}}
        assert lacks(facts(plan=few)) == []
    written = facts(plan={"nemesis": "all", "drawn": True, "faults": []})
    assert not faults.CHECKER.applies(written)
    story = {"nemesis": "all", "drawn": True, "scenario": {"name": "unclean"}}
    assert not faults.CHECKER.applies(facts(plan=story))


def test_a_plan_without_faults_promises_none() -> None:
    assert not faults.CHECKER.applies(facts(plan={"nemesis": ""}))
    assert found(faults.CHECKER, whole_run(facts(plan={"nemesis": ""}))).anomalies == ()


def test_faults_written_in_the_plan_count_as_scheduled_though_they_never_started() -> None:
    planned = [{"at_s": at, "kind": "kill"} for at in range(4)]
    (few,) = lacks(facts(plan={"faults": planned}), fault(1, "kill"))
    assert few == "1 fault was confirmed, of 1 that was started; at least 2 must be confirmed"


def test_hosts_without_links_owe_no_partition() -> None:
    assert (
        lacks(facts(plan={"nemesis": "partition,kill", "hosts": "process"}), fault(1, "kill")) == []
    )


def test_traffic_on_one_side_of_the_faults_is_not_enough() -> None:
    whole = {"fault_id": 1, "kind": "kill", "requested_ns": 0}
    early = {**whole, "confirmed_ns": 0, "healed_ns": 5 * S}
    late = {**whole, "confirmed_ns": 5 * S, "healed_ns": 900 * S}
    for row, when in ((early, "before"), (late, "after")):
        (gap,) = sentences(traffic.CHECKER, whole_run(ops=busy(100, 100), faults=[row]))
        assert gap.startswith(f"0 ok ops {when} the faults")
