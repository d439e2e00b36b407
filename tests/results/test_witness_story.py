"""The story of a witness: from rows of the record to events in order."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from results.page.breach import breach_of, verdict_class
from results.page.case import case_of
from results.page.close_up import close_up
from results.page.cuts import cuts_of
from results.page.dated import dated
from results.page.investigation import investigate
from results.page.moments import moments
from results.page.replicas import replica_window
from results.page.witness import Kind, Told, witness_story
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import Evidence
from results.report import render_report
from results.tables import STATISTICS, RunTables, statistics_path
from results.verdict_json import read_verdict
from results.wording.faults import fault_lines
from results.wording.headline import headline
from tests.results.conftest import (
    LOST_VALUE,
    PLACE,
    TOPIC,
    TOPIC_ID,
    Row,
    lost_write,
    ns,
    record_rows,
    statistics_rows,
    summary,
    verdict_of,
    write_rows,
)

MakeRun = Callable[..., RunPaths]


def look(node: str, at_s: float, end: int, mark: int = 100) -> Row:
    return {
        **PLACE, "node": node, "observed_ns": ns(at_s), "log_end_offset": end,
        "high_watermark": mark, "high_watermark_source": "fetch", "log_start_offset": 0,
    }  # fmt: skip


def poll(at_s: float, value: int, *, process: int = 9, offset: int = 121) -> Row:
    return {
        **PLACE, "op_id": int(at_s * 100), "mop": 0, "pos": 0, "offset": offset, "value": value,
        "process": process, "phase": "main", "invoke_ns": ns(at_s - 0.1), "complete_ns": ns(at_s),
        "outcome": "ok",
    }  # fmt: skip


def isr(at_s: float, epoch: int, *brokers: int) -> Row:
    return {
        **PLACE, "asked_ns": ns(at_s), "observed_ns": ns(at_s), "source": "metadata",
        "observer": "n1", "leader": brokers[0], "leader_epoch": epoch, "isr": list(brokers),
    }  # fmt: skip


def add(paths: RunPaths, name: str, rows: Sequence[Row]) -> None:
    """Write a table with what the made run has of it, and more."""
    whole = [*record_rows(TOPIC).get(name, []), *rows]
    write_rows(paths.table(name), TABLES[name], whole, paths.run_id)


def story(paths: RunPaths) -> Told:
    tables = RunTables(paths)
    told = witness_story(case_of(tables, lost_write()), fault_lines(tables), end_s=66.0)
    assert told is not None
    return told


def told_of(told: Told, kind: Kind) -> list[tuple[str, str, str]]:
    return [(each.when, each.who, each.what) for each in told.events if each.kind is kind]


def test_it_says_who_acknowledged_held_cut_overwrote_and_read(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "replica_states", [
        look("n1", 21.0, 120), look("n1", 22.5, 123), look("n1", 27.5, 120), look("n2", 22.4, 121),
        look("n2", 24.0, 125), look("n3", 22.4, 121),
    ])  # fmt: skip
    other = LOST_VALUE + 71
    add(paths, "polls", [poll(25.0, other), poll(26.0, other, process=4), poll(40.0, other)])
    told = story(paths)
    assert [each.kind for each in told.events if each.kind not in {Kind.LED, Kind.FAULT}] == [
        Kind.SENT, Kind.ACKED, Kind.HELD, Kind.HELD, Kind.HELD, Kind.READ, Kind.CUT, Kind.END,
        Kind.END,
    ]  # fmt: skip
    assert told_of(told, Kind.ACKED) == [
        ("21.220 s", "the leader",
         f"acknowledged value {LOST_VALUE} at offset 121 to client p1"),
    ]  # fmt: skip
    assert [(when, who) for when, who, _ in told_of(told, Kind.HELD)] == [
        ("", "n3"), ("22.500 s", "n1"), ("24.000 s", "n2"),
    ]  # fmt: skip
    # n1's log was cut there later; n2's never was, so it has what it had.
    assert [what.partition(":")[0] for *_, what in told_of(told, Kind.HELD)[1:]] == [
        "had a record at 121", f"had value {other} at 121",
    ]  # fmt: skip
    what = (
        "truncated its log at offset 120 (follower of n2 in epoch 5): its log end offset was 123"
        " at 22.500 s, then 120 here"
    )
    assert told_of(told, Kind.CUT) == [("before 27.500 s", "n1", what)]
    assert told_of(told, Kind.READ) == [(
        "25.000 s", "client p9",
        f"read value {other} at offset 121 (op 2500); 3 reads in all, the last at 40.000 s",
    )]  # fmt: skip
    assert told_of(told, Kind.END) == [
        (
            "",
            "n1, n2, n3",
            f"hold value {other} of leader epoch 5 at offset 121 at the end of the run",
        ),
        ("", "no reader", f"ever got value {LOST_VALUE}"),
    ]


def test_a_long_story_keeps_send_answer_and_truncation(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 22.5, 123), look("n1", 27.5, 120)])
    short = story(paths)
    proof = {Kind.SENT, Kind.ACKED, Kind.CUT}
    kept = [each for each in short.events if each.kind in proof]
    assert {each.kind for each in kept} == proof
    add(paths, "polls", [poll(23 + number / 80, 5000 + number) for number in range(80)])
    long = story(paths)
    assert long.more > 40
    assert [each for each in long.events if each.kind in proof] == kept


def test_a_cut_that_no_look_saw_stands_after_the_next_leader_without_a_time(
    make_run: MakeRun,
) -> None:
    told = story(make_run())
    (cut,) = [each for each in told.events if each.kind is Kind.CUT]
    assert cut.at_s is None
    at = told.events.index(cut)
    before = [each for each in told.events[:at] if each.kind is Kind.LED]
    assert before[-1].who == "n2"
    assert "leads in leader epoch 5" in before[-1].what


def test_a_log_that_was_filled_again_before_anybody_looked_was_cut_all_the_same(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 22.5, 160), look("n1", 29.0, 140)])
    (cut,) = told_of(story(paths), Kind.CUT)
    assert cut[0] == "before 29.000 s"
    assert "its log end offset was 160 at 22.500 s, then 140 here" in cut[2]


def test_a_cut_is_paired_with_the_look_that_it_explains(make_run: MakeRun) -> None:
    paths = make_run()
    first = {
        "topic": TOPIC, "topic_id": TOPIC_ID, "partition": 1, "observed_ns": ns(28), "node": "n1",
        "incarnation": 1, "from_offset": 90, "to_offset": 130, "reason": "once more",
        "source": "server-log",
    }  # fmt: skip
    add(paths, "truncations", [first])
    # It was cut at 120, and later at 90; only the second was seen from outside.
    add(paths, "replica_states", [look("n1", 28.5, 130), look("n1", 29.0, 100)])
    seen, unseen = sorted(told_of(story(paths), Kind.CUT), reverse=True)
    assert seen[2].startswith(
        "truncated its log at offset 90 (once more): its log end offset was 130"
    )
    assert unseen[2].startswith("truncated its log at offset 120 (follower")


def test_late_readers_do_not_stretch_the_axis(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "polls", [poll(900.0, LOST_VALUE)])
    told = story(paths)
    assert told.window[1] < 60
    assert "900.000 s" in [each.when for each in told.events]


def test_an_answer_of_a_send_is_told_as_it_was(make_run: MakeRun) -> None:
    paths = make_run()
    rows = record_rows(TOPIC)["sends"]
    for row in rows:
        if row["offset"] == 121:
            row |= {"acked": False, "outcome": "info", "error": "_TIMED_OUT"}
    write_rows(paths.table("sends"), TABLES["sends"], rows, paths.run_id)
    said = f"got no certain answer about value {LOST_VALUE}: _TIMED_OUT"
    assert told_of(story(paths), Kind.ACKED)[0][1:] == ("client p1", said)


def test_the_rows_of_the_axis_tell_leader_isr_and_replicas_of_each_moment(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 21.0, 123, 118), look("n2", 21.1, 121, 121)])
    add(paths, "leadership", [isr(20.0, 4, 1, 2, 3), isr(23.2, 5, 2, 3), isr(24.0, 4, 1, 3)])
    add(paths, "polls", [poll(30.0, LOST_VALUE + 1)])
    tables = RunTables(paths)
    case = case_of(tables, lost_write())
    # What a broker that was cut off still believes in is no news.
    assert case.isr == ((ns(20.0), (1, 2, 3)), (ns(23.2), (2, 3)))
    rows = moments(case, story(paths), fault_lines(tables))
    assert rows.nodes == ("n1", "n2")
    row = next(each for each in rows.rows if each[0] == "21.21")
    assert row == ("21.21", "isolate n1", "n1 e4", "1,2,3", "123/118", "121/121")
    assert rows.rows[-1][4:] == ("?", "?")


def test_the_axis_breaks_off_where_a_replica_was_silent_and_keeps_a_cut(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    many = [look("n2", 20 + number / 100, 100 + number // 10) for number in range(600)]
    many[300]["log_end_offset"] = 90  # One look among hundreds.
    add(paths, "replica_states", [look("n1", 20.0, 120), look("n1", 26.0, 121), *many])
    case = case_of(RunTables(paths), lost_write())
    drawn = close_up(case, window=(18.0, 28.0), faults=())
    charts = {each.name: each.chart for each in drawn.strips if each.chart}
    one, two = charts["log of n1"], charts["log of n2"]
    assert one is not None
    assert two is not None
    assert one.end.count("M") == 2
    assert two.end.count("M") == 1
    assert two.end.count("H") < 550
    assert two.bottom == "90"
    ys = [float(part.partition("V")[2].partition("h")[0]) for part in two.end.split("H")[1:]]
    assert max(ys) > ys[0]  # Lower on the page than where it began: the cut was not thinned away.


def test_a_cut_stands_where_its_broker_logged_it(make_run: MakeRun) -> None:
    logged = {
        "n1": [(23.5, 121), (27.25, 120)],
        "n2": [(9.0, 120)],
    }

    def cut_of(paths: RunPaths) -> tuple[str, str, str]:
        tables = RunTables(paths)
        case, faults = case_of(tables, lost_write()), fault_lines(tables)
        told = witness_story(case, faults, end_s=66.0, cuts=logged)
        assert told is not None
        *_, cut = told_of(told, Kind.CUT)
        return cut

    unseen, seen = make_run(), make_run()
    words = "truncated its log at offset 120 (follower of n2 in epoch 5)"
    assert cut_of(unseen) == ("27.250 s", "n1", f"{words}, by its own log")
    add(seen, "replica_states", [look("n1", 22.5, 123), look("n1", 27.5, 120)])
    ended = "its log end offset was 123 at 22.500 s, then 120 at 27.500 s"
    assert cut_of(seen) == ("27.250 s", "n1", f"{words}: {ended}; the time is from its own log")
    # What its own log says of another time is of another truncation.
    add(seen, "replica_states", [look("n1", 22.5, 123), look("n1", 24.5, 120)])
    assert cut_of(seen) == ("27.250 s", "n1", f"{words}, by its own log")


def test_a_cut_that_may_have_been_another_one_is_not_said_to_be_it(make_run: MakeRun) -> None:
    paths = make_run()
    cut = record_rows(TOPIC)["truncations"][0]
    higher = {**cut, "from_offset": 124, "to_offset": None, "reason": "higher up"}
    add(paths, "truncations", [higher])
    # It may have been cut at 124; or at 120, and have grown again.
    looks = [look("n1", 22.5, 130), look("n1", 24.5, 126)]
    add(paths, "replica_states", looks)
    words = "truncated its log at offset 120 (follower of n2 in epoch 5), by its own log"
    assert told_of(story(paths), Kind.CUT) == [("", "n1", words)]
    add(paths, "replica_states", [*looks, look("n1", 26.5, 110)])
    lost = "lost the end of its log: its log end offset was 126 at 24.500 s, then 110 at this time"
    assert told_of(story(paths), Kind.CUT) == [("", "n1", words), ("before 26.500 s", "n1", lost)]


def test_a_power_loss_may_have_taken_what_was_no_longer_seen(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 22.5, 123), look("n1", 24.5, 120)])
    assert "truncated" in told_of(story(paths), Kind.CUT)[0][2]
    add(paths, "faults", [fault_row("power-loss", 23.0)])
    assert told_of(story(paths), Kind.CUT)[-1][2].startswith("lost the end of its log: ")


def fault_row(kind: str, at_s: float) -> Row:
    return {"fault_id": 77, "kind": kind, "targets": ["n1"], "requested_ns": ns(at_s),
            "confirmed_ns": ns(at_s + 0.5), "healed_ns": ns(at_s + 4), "spec": "{}"}  # fmt: skip


@pytest.mark.parametrize("kind", ["one-way-out", "cut"])  # Dealt, and a story's.
def test_a_fault_is_told_when_it_was_asked_for_seen_to_work_and_seen_to_be_over(
    make_run: MakeRun, kind: str
) -> None:
    paths = make_run()
    when = {"when": "isr(log-0,1)=[n1]", "came": True, "waited_s": 12.34, "saw": ["n1, n2"]}
    spec = json.dumps({"links": [["n1", "n2"], ["n1", "n3"]], "waited": when})
    add(paths, "faults", [{**fault_row(kind, 23.0), "spec": spec}])
    told = [each for each in told_of(story(paths), Kind.FAULT) if each[1] == "fault 77"]
    assert [when for when, *_ in told] == ["23.000 s", "23.500 s", "27.000 s"]
    asked, held, over = (what for *_, what in told)
    assert asked == (
        f"{kind} of n1 was requested: no packets n1 → n2 n3; waited 12.3 s for isr(log-0,1)=[n1];"
        " saw n1, n2"
    )
    assert held.startswith(f"{kind} of n1: ")
    assert over == f"{kind} of n1 was confirmed as healed"


def test_faults_that_the_story_does_not_need_are_set_apart(make_run: MakeRun) -> None:
    paths = make_run()
    looks = [look("n1", 22.5, 123), look("n1", 27.5, 120)]
    add(paths, "replica_states", looks)
    late = {**fault_row("kill", 28.0), "targets": ["n1"]}
    # In force on somebody else, and at no election: n2 was seen to lead at 24 s.
    early, other = fault_row("pause", 21.5), fault_row("delay", 35.0)
    add(paths, "faults", [{**early, "fault_id": 76}, late, {**other, "fault_id": 78}])
    told = story(paths)
    assert {each.who for each in told.events if each.kind is Kind.FAULT} == {"fault 1", "fault 76"}
    assert {each.who for each in told.aside} == {"fault 2", "fault 77"}
    assert told.aside_because == (
        "2 other faults near the anomaly, not needed to explain the anomaly: each was requested"
        " after the last truncation"
    )
    page = render_report(paths)
    folded = page.partition('<details class="aside">')[2].partition("</details>")[0]
    assert "kill of n1 was requested" in folded
    assert page.count("kill of n1 was requested") == 1
    # What takes records may have taken the last copy; and without a time nothing is known as late.
    add(paths, "faults", [{**late, "kind": "wipe"}])
    assert {each.who for each in story(paths).aside} == {"fault 2"}
    add(paths, "replica_states", [])
    add(paths, "faults", [late])
    assert not story(paths).aside


def test_a_fault_of_others_is_set_apart_if_it_was_far_from_the_election(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 22.5, 123), look("n1", 55.0, 120)])
    mine = {**fault_row("delay", 40.0), "targets": ["n3"]}

    def aside(fault: Row) -> bool:
        add(paths, "faults", [fault])
        return "fault 77" in {each.who for each in story(paths).aside}

    assert aside(mine)
    assert story(paths).aside_because.endswith(
        "each hit none of n1, n2 and was not in force at an election"
    )
    assert not aside({**mine, "kind": "wipe"})
    assert not aside({**mine, "targets": ["n2"]})
    # It may have kept n3 from being elected; n2 was seen to lead at 24 s.
    assert not aside({**fault_row("delay", 22.5), "targets": ["n3"]})


def test_a_truncation_in_a_checks_sentence_gets_its_time(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 22.5, 123), look("n1", 27.5, 120)])
    told = story(paths)
    for sentence, timed in (
        ("x; n1 truncated all that it had from offset 120 on (y)",
         "x; n1 truncated all that it had from offset 120 on before 27.500 s (y)"),
        ("n1 truncated offset 121 together with all offsets from 120 on (y)",
         "n1 truncated offset 121 together with all offsets from 120 on before 27.500 s (y)"),
        ("n1 truncated offset 120", "n1 truncated offset 120 before 27.500 s"),
    ):  # fmt: skip
        assert dated(sentence, told) == timed
        assert dated(sentence, None) == sentence
    for sentence in (
        "n2 truncated offset 120", "n1 truncated offset 121", "n1 truncated offset 120 at 3.000 s",
        "n1 truncated offset 120, or n1 truncated offset 120",
    ):  # fmt: skip
        assert dated(sentence, told) == sentence


def test_a_fault_is_over_where_its_end_began_and_not_where_that_was_seen(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    heal = {"kind": "back", "took_s": 2.5}
    add(paths, "faults", [{**fault_row("kill", 21.0), "heal_effect": json.dumps(heal)}])
    told = story(paths)
    over = [each for each in told_of(told, Kind.FAULT) if each[1] == "fault 77"][-1]
    assert over == (
        "22.500 s", "fault 77",
        "kill of n1 is undone from this time on and was confirmed as healed at 25.000 s",
    )  # fmt: skip
    tables = RunTables(paths)
    faults = [each for each in fault_lines(tables) if each.fault_id == 77]
    rows = moments(case_of(tables, lost_write()), told, faults).rows
    during = {row[1] for row in rows if 22.5 <= float(row[0]) < 25}
    assert during == {"kill n1 (ending)"}
    # It took longer than it was in force: what was confirmed later has not ended before.
    late = {**fault_row("kill", 21.0), "heal_effect": json.dumps({**heal, "took_s": 9})}
    add(paths, "faults", [late])
    assert "21.500 s" in {when for when, *_ in told_of(story(paths), Kind.FAULT)}


def test_a_cut_of_what_stood_there_before_is_told_apart(make_run: MakeRun) -> None:
    paths = make_run()
    sent = record_rows(TOPIC)["sends"]
    (own,) = [row for row in sent if row["value"] == LOST_VALUE]
    earlier = {**own, "value": LOST_VALUE + 5, "op_id": 9, "invoke_ns": ns(5),
               "complete_ns": ns(5.1)}  # fmt: skip
    cuts = record_rows(TOPIC)["truncations"]
    add(paths, "sends", [*sent, earlier])
    beyond = [look("n1", 20.0, 130)]
    add(paths, "replica_states", beyond)
    told = story(paths)
    assert told_of(told, Kind.CUT) == []
    (other,) = told_of(told, Kind.OTHER_CUT)
    assert other[2].endswith(
        f"; the truncation removed earlier records at that offset (value {LOST_VALUE + 5})"
    )
    # It was seen to end below before the send; it was cut twice; a disk may have taken it.
    for rows in (
        {"replica_states": [*beyond, look("n1", 20.5, 121)]},
        {"replica_states": beyond, "truncations": [*cuts, {**cuts[0], "from_offset": 90}]},
        {"replica_states": beyond, "faults": [fault_row("wipe", 3.0)]},
    ):
        for name, each in rows.items():
            add(paths, name, each)
        assert told_of(story(paths), Kind.OTHER_CUT) == []
        assert told_of(story(paths), Kind.CUT)
        add(paths, "truncations", cuts)


def test_without_a_copy_only_the_first_leader_is_said_to_have_acknowledged(
    make_run: MakeRun,
) -> None:
    paths = make_run()

    def teller(epoch: int, *others: Row, until_s: float = 30) -> str:
        reigns = [
            {**row, "to_ns": ns(until_s), "leader_epoch": epoch}
            for row in statistics_rows(TOPIC)["leaders"]
            if row["from_ns"] == ns(4.2)
        ]
        rows = [*({**reigns[0], **each} for each in others), *reigns]
        write_rows(statistics_path(paths, "leaders"), STATISTICS["leaders"], rows, paths.run_id)
        return told_of(story(paths), Kind.ACKED)[0][1]

    assert teller(0) == "n1"
    assert teller(1) == "the leader"  # Another one led before, and may have gone on.
    assert teller(0, {"from_ns": ns(1), "to_ns": ns(4.2), "leader": 2}) == "the leader"
    assert teller(0, until_s=22) == "the leader"  # An election is seen late.


def test_what_came_before_the_first_send_of_it_is_another_story(make_run: MakeRun) -> None:
    paths = make_run()
    add(paths, "replica_states", [look("n1", 18.0, 130), look("n1", 19.0, 110),
                                  look("n1", 24.5, 122)])  # fmt: skip
    told = story(paths)
    assert [when for when, *_ in told_of(told, Kind.HELD)] == ["24.500 s"]
    assert [when for when, *_ in told_of(told, Kind.CUT)] == [""]


def test_only_a_copy_of_the_leaders_epoch_names_who_acknowledged(make_run: MakeRun) -> None:
    paths = make_run()

    def teller() -> str:
        return told_of(story(paths), Kind.ACKED)[0][1]

    reigns = [{**row, "to_ns": ns(30)} if row["from_ns"] == ns(4.2) else row
              for row in statistics_rows(TOPIC)["leaders"]]  # fmt: skip
    write_rows(statistics_path(paths, "leaders"), STATISTICS["leaders"], reigns, paths.run_id)
    assert teller() == "the leader"
    for epoch, who in ((4, "n1"), (3, "the leader")):
        add(paths, "polls", [{**poll(21.5, LOST_VALUE), "leader_epoch": epoch}])
        assert teller() == who


def test_a_broker_whose_clock_was_shifted_dates_nothing(make_run: MakeRun) -> None:
    paths = make_run()
    paths.environment.write_text(json.dumps({"started_unix_s": 1_700_000_000.0}))
    log = paths.node("n1") / "logs" / "server.log"
    log.parent.mkdir(parents=True)
    place = f"{TOPIC}-{PLACE['partition']}"
    log.write_text(f"[2023-11-14 22:13:47,250] INFO Truncating log {place} to offset 120.\n")

    def when() -> str:
        told = investigate(paths, RunTables(paths)).told
        assert told is not None
        return told_of(told, Kind.CUT)[0][0]

    assert when() == "27.250 s ± 0.01 s"
    add(paths, "faults", [fault_row("clock-offset", 5.0)])
    assert when() == ""


def test_around_an_election_nobody_is_said_to_have_acknowledged(make_run: MakeRun) -> None:
    evidence = {**lost_write().evidence, "leader_then": None}
    both = ["n1, leader of epoch 4", "n2, leader of epoch 5"]
    tables = RunTables(make_run())

    def teller(evidence: Evidence) -> str:
        example = dataclasses.replace(lost_write(), evidence=evidence)
        told = witness_story(case_of(tables, example), fault_lines(tables), end_s=66.0)
        assert told is not None
        return told_of(told, Kind.ACKED)[0][1]

    assert teller({**evidence, "may_have_acknowledged": both}) == "n1 or n2"
    assert teller({**evidence, "may_have_acknowledged": []}) == "the leader"
    one = {**evidence, "leader_then": 2, "may_have_acknowledged": both[1:]}
    assert teller(one) == "n2"


def test_a_liveness_failure_tells_heal_budget_and_what_was_seen(make_run: MakeRun) -> None:
    paths = make_run()
    evidence: Evidence = {
        "budget_s": 3.0, "calm_from_ns": ns(50), "isr": [1, 2], "members": 3, "seen_ns": ns(30),
        "full_ns": None,
    }  # fmt: skip
    example = lost_write()
    example = type(example)(
        sentence="the ISR was not full", evidence=evidence, topic=TOPIC, topic_id=TOPIC_ID,
        partition=1, offset=-1, allowed=False, trusted=True, why="",
    )  # fmt: skip
    tables = RunTables(paths)
    told = witness_story(case_of(tables, example), fault_lines(tables), end_s=66.0)
    assert told is not None
    assert told_of(told, Kind.TOLD) == [
        ("30.000 s", "the ISR", "was n1, n2 from this time on"),
        ("50.000 s", "the harness", "healed the last fault"),
        ("53.000 s", "the budget", "of 3 s from that time ended"),
    ]


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (
            {"node": "n2", "how": "ended with exit code 3", "seen_ns": ns(30), "said": ["out"]},
            [
                ("", "n2", "said: out"),
                ("30.000 s", "n2", ("ended with exit code 3: observed at this time; it may have"
                                   " happened earlier")),
            ],
        ),
        (
            {
                "group": "g", "process": 7, "op_id": 5, "told_ns": ns(9), "offset": None,
                "least": 4, "last_op_id": 3, "acknowledged_ns": ns(8),
            },
            [
                (
                    "8.000 s",
                    "the coordinator",
                    "acknowledged a commit of g (op 3): the committed offset is at least 4",
                ),
                (
                    "9.000 s",
                    "the coordinator",
                    "answered client p7 (op 5) that the committed offset of g is none",
                ),
            ],
        ),
    ],
    ids=["a broker's end", "a position that was forgotten"],
)  # fmt: skip
def test_what_evidence_alone_knows_is_told_in_order(
    make_run: MakeRun, evidence: Evidence, expected: list[tuple[str, str, str]]
) -> None:
    tables = RunTables(make_run())
    example = dataclasses.replace(lost_write(), evidence=evidence, offset=-1)
    told = witness_story(case_of(tables, example), fault_lines(tables), end_s=66.0)
    assert told is not None
    own = {Kind.HELD, Kind.TOLD}
    assert [
        (each.when, each.who, each.what) for each in told.events if each.kind in own
    ] == expected


@pytest.mark.parametrize(
    ("kind", "valid", "expected"),
    [
        (AnomalyClass.SAFETY, Validity.INVALID, "safety"),
        (AnomalyClass.LIVENESS, Validity.INVALID, "liveness"),
        (AnomalyClass.HARNESS, Validity.UNKNOWN, "harness"),
        (AnomalyClass.SAFETY, Validity.VALID, ""),
    ],
)
def test_the_class_of_a_verdict_is_that_of_what_decided_it(
    kind: AnomalyClass, valid: Validity, expected: str
) -> None:
    found = summary(1, lost_write())
    changed: Any = type(found)(
        anomaly_class=kind, count=1, allowed=0, trusted=1, examples=found.examples
    )
    name = "lost-write" if kind is AnomalyClass.SAFETY else "unavailable"
    verdict = type(verdict_of("log/x"))(
        run_id="log/x", valid=valid, judge="contract", engine="local", anomalies={name: changed}
    )
    assert verdict_class(verdict)[0] == expected
    assert verdict_class(None) == ("", "The run was not judged.")


def test_the_broken_promise_is_told_with_its_ids(make_run: MakeRun) -> None:
    breach = breach_of(headline(read_verdict(make_run().verdict)))
    assert breach is not None
    assert breach.promise == "An acknowledged message stays in the log."
    assert breach.where == (
        f"log-0-1, offset 121, value {LOST_VALUE}, broker 1 (n1), leader epoch 4, at 22.300 s"
    )


def test_a_run_without_any_table_is_investigated_without_a_story(
    make_run: MakeRun, tmp_path: Path
) -> None:
    paths = make_run()
    empty = RunPaths(tmp_path / "other" / "log" / "20261121T104500Z-8")
    empty.root.mkdir(parents=True)
    empty.verdict.write_bytes(paths.verdict.read_bytes())
    found = investigate(empty, RunTables(empty))
    assert found.case is not None
    assert found.told is None
    assert found.close_up is None


def ends_of(paths: RunPaths) -> list[tuple[str, str]]:
    return [(who, what) for _, who, what in told_of(story(paths), Kind.END)]


def without_files_of(paths: RunPaths, *nodes: str) -> None:
    """Take what the tables have of some nodes' files away."""
    rows = record_rows(TOPIC)
    for name in ("replica_records", "replica_states"):
        kept = [row for row in rows[name] if row["node"] not in nodes]
        write_rows(paths.table(name), TABLES[name], kept, paths.run_id)


def note_unread(paths: RunPaths, unit: str, sentence: str) -> None:
    notes = {"problems": [{"unit": unit, "sentence": sentence, "cut": False}]}
    (paths.record / "ingest.json").write_text(json.dumps(notes), encoding="utf-8")


def test_files_that_could_not_be_read_are_not_said_to_hold_nothing(make_run: MakeRun) -> None:
    paths = make_run()
    rows = record_rows(TOPIC)["replica_records"]
    kept = [row for row in rows if row["node"] == "n2" or row["offset"] < 121]
    write_rows(paths.table("replica_records"), TABLES["replica_records"], kept, paths.run_id)
    note_unread(paths, "n1", "n1: log-0-1/00000000000000000000.log ends in the middle of a batch")
    told = dict(ends_of(paths))
    assert told["n1"] == (
        "may hold anything at offset 121 at the end of the run: its files were not readable: n1:"
        " log-0-1/00000000000000000000.log ends in the middle of a batch"
    )
    assert told["n3"] == "holds nothing at offset 121 at the end of the run"
    window = replica_window(RunTables(paths), lost_write())
    assert window is not None
    here = {row.name: next(each for each in row.cells if each.here) for row in window.rows}
    assert [(here[node].text, here[node].differs) for node in ("n1", "n3")] == [
        ("?", False), ("", True),
    ]  # fmt: skip
    assert [row.note for row in window.rows if row.name == "n1"] == [
        "not readable, acknowledged it"
    ]
    assert "?: unknown" in render_report(paths)


def test_files_that_nobody_collected_are_not_said_to_hold_nothing(make_run: MakeRun) -> None:
    paths = make_run()
    without_files_of(paths, "n1", "n3")
    looks = [look("n1", 21.0, 120), look("n3", 21.0, 120)]
    states = [row for row in record_rows(TOPIC)["replica_states"] if row["node"] == "n2"]
    write_rows(
        paths.table("replica_states"), TABLES["replica_states"], [*states, *looks], paths.run_id
    )
    told = dict(ends_of(paths))
    # Of n1 there is a folder, without the partition's; of n3 there is none.
    assert (
        told["n1"]
        == "holds nothing at offset 121 at the end of the run: it has no log of the partition"
    )
    assert (
        told["n3"]
        == "may hold anything at offset 121 at the end of the run: its files were not collected"
    )
    window = replica_window(RunTables(paths), lost_write())
    assert window is not None
    assert {row.name: row.note for row in window.rows}["n3"] == "not collected"


def test_where_a_log_ends_is_said_of_who_holds_nothing(make_run: MakeRun) -> None:
    paths = make_run()
    without_files_of(paths, "n3")
    rows = record_rows(TOPIC)["replica_states"]
    rows[2] |= {"log_end_offset": 119}
    write_rows(paths.table("replica_states"), TABLES["replica_states"], rows, paths.run_id)
    assert dict(ends_of(paths))["n3"] == (
        "holds nothing at offset 121 at the end of the run: its log ends at 119"
    )


def test_what_a_run_that_died_left_behind_is_told_as_well(make_run: MakeRun) -> None:
    paths = make_run()
    for name in ("replica_records", "replica_states"):
        rows = [row | {"snapshot": "crash"} for row in record_rows(TOPIC)[name]]
        write_rows(paths.table(name), TABLES[name], rows, paths.run_id)
    (who, what), *_ = ends_of(paths)
    assert who == "n1, n2, n3"
    assert what.startswith("hold value ")


def test_who_led_a_topic_of_the_same_name_that_was_deleted_leads_nothing(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    rows = statistics_rows(TOPIC)["leaders"]
    for row in rows:
        row["topic_id"] = TOPIC_ID
    before = {"topic": TOPIC, "topic_id": "gone", "partition": 1, "leader": 3,
              "leader_epoch": 9, "from_ns": ns(1), "to_ns": ns(4)}  # fmt: skip
    write_rows(
        statistics_path(paths, "leaders"), STATISTICS["leaders"], [before, *rows], paths.run_id
    )
    reigns = case_of(RunTables(paths), lost_write()).reigns
    assert [each.leader for each in reigns] == [1, -1, 2]
    window = replica_window(RunTables(paths), lost_write())
    assert window is not None
    assert not [name for name, _ in window.epochs if "broker 3" in name]


def test_a_fault_that_was_begun_and_never_confirmed_is_told(make_run: MakeRun) -> None:
    paths = make_run()
    rows = record_rows(TOPIC)["faults"]
    for row in rows[:2]:
        row |= {"confirmed_ns": None, "requested_ns": ns(21), "healed_ns": None}
        row["spec"] = json.dumps({**json.loads(row["spec"]), "begun": row["kind"] == "kill"})
    write_rows(paths.table("faults"), TABLES["faults"], rows, paths.run_id)
    told = [what for _, _, what in told_of(story(paths), Kind.FAULT)]
    assert [what for what in told if "kill of n3 began, but its effect was never observed" in what]
    assert not [what for what in told if "isolate" in what]  # Nothing was done to anybody.


def test_sends_that_were_tried_in_vain_are_told_of_a_partition_that_was_out(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    rows = record_rows(TOPIC)["sends"]
    for number, row in enumerate(rows):
        ok = number >= 20
        row |= {
            "offset": row["offset"] if ok else None, "outcome": "ok" if ok else "info",
            "acked": ok, "error": None if ok else "_MSG_TIMED_OUT",
            "invoke_ns": ns(52 + number), "complete_ns": ns(52.5 + number),
        }  # fmt: skip
    write_rows(paths.table("sends"), TABLES["sends"], rows, paths.run_id)
    evidence: Evidence = {
        "from_ns": ns(53),
        "to_ns": ns(74),
        "budget_s": 3.0,
        "calm_from_ns": ns(53),
    }
    example = dataclasses.replace(lost_write(), evidence=evidence, offset=-1)
    tables = RunTables(paths)
    told = witness_story(case_of(tables, example), fault_lines(tables), end_s=80.0)
    assert told is not None
    sent = told_of(told, Kind.SENT)
    assert len(sent) == 7
    assert sent[-1] == ("59.000 s", "clients", "tried 13 more sends until 71.000 s without success")
    assert "got no certain answer" in told_of(told, Kind.ACKED)[0][2]
    assert [what for _, _, what in told_of(told, Kind.TOLD)][-1] == (
        "was served again, or was no longer asked for"
    )


@pytest.mark.parametrize("change", [{"topic_id": "\ud800"}, {"offset": 2**63 - 1}])
def test_a_place_that_no_table_can_have_has_no_logs(
    make_run: MakeRun, change: dict[str, Any]
) -> None:
    tables, example = RunTables(make_run()), dataclasses.replace(lost_write(), **change)
    assert replica_window(tables, example) is None
    assert not list(cuts_of(case_of(tables, example), [], {}))
