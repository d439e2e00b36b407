"""The table of faults by kind, on the page and in a terminal."""

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from results.page.fault_kinds import KindLine, kind_lines
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.report import render_report
from results.show import show_run
from results.tables import RunTables
from results.wording.faults import fault_lines

MakeRun = Callable[..., RunPaths]
S = 1_000_000_000


def _fault(number: int, kind: str, family: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - columns
    spec = {"kind": kind, "family": family, **changes.pop("spec", {})}
    return {
        "run_id": "r", "fault_id": number, "kind": kind, "spec": json.dumps(spec),
        "targets": ["n1"], "requested_ns": number * S, "confirmed_ns": number * S + 1,
        "healed_ns": number * S + 2, "effect": "{}", "heal_effect": "{}", **changes,
    }  # fmt: skip


ROWS = [
    _fault(1, "kill", "kill"),
    _fault(2, "delay", "network"),
    _fault(3, "kill", "kill", confirmed_ns=None, spec={"without_effect": "no broker"}),
    _fault(4, "kill", "kill", healed_ns=None, spec={"not_healed": "never came back"}),
    _fault(5, "delay", "network", healed_ns=None),
    _fault(
        6, "loss", "network", confirmed_ns=None, healed_ns=None, spec={"not_healed": "still there"}
    ),
    _fault(7, "loss", "network", confirmed_ns=None, healed_ns=None),
]


def _run(make_run: MakeRun, rows: list[dict[str, Any]]) -> RunPaths:
    paths = make_run()
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["faults"]), paths.table("faults"))
    return paths


def _counts(line: KindLine) -> tuple[int, ...]:
    return line.planned, line.confirmed, line.without_effect, line.healed, line.not_healed


def test_kinds_are_counted_by_what_was_measured(make_run: MakeRun) -> None:
    lines = kind_lines(fault_lines(RunTables(_run(make_run, ROWS))))
    assert [(line.family, line.kind, *_counts(line)) for line in lines] == [
        ("kill", "kill", 3, 2, 1, 1, 1),
        ("network", "delay", 2, 2, 0, 1, 1),
        ("network", "loss", 2, 0, 2, 0, 1),
        ("", "", 7, 4, 3, 2, 3),
    ]
    assert kind_lines([]) == []


def test_the_page_shows_the_table_with_its_sum(make_run: MakeRun) -> None:
    page = render_report(_run(make_run, ROWS))
    table = page.partition('<table class="kinds">')[2].partition("</table>")[0]
    rows = [
        [cell.rpartition(">")[2] for cell in row.replace("</th>", "</td>").split("</td>")[:-1]]
        for row in table.split("<tr")[1:]
    ]
    assert rows == [
        ["kind", "of", "planned", "confirmed", "without effect", "healed", "not healed"],
        ["kill", "", "3", "2", "1", "1", "1"],
        ["delay", "network", "2", "2", "0", "1", "1"],
        ["loss", "network", "2", "0", "2", "0", "1"],
        ["all", "", "7", "4", "3", "2", "3"],
    ]
    assert table.count('class="n odd"') == 3
    assert table.count('class="n bad"') == 4


def test_a_record_that_names_no_family_has_no_column_of_them(make_run: MakeRun) -> None:
    table = render_report(make_run()).partition('<table class="kinds">')[2]
    assert "of</th>" not in table.partition("</table>")[0]


def test_show_prints_the_table_within_80_columns(make_run: MakeRun) -> None:
    console = Console(width=80, file=io.StringIO())
    show_run(_run(make_run, ROWS), console)
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    at = lines.index("faults by kind planned confirmed without effect healed not healed")
    assert lines[at + 1 : at + 5] == [
        "kill 3 2 1 1 1", "delay 2 2 0 1 1", "loss 2 0 2 0 1", "all 7 4 3 2 3",
    ]  # fmt: skip


def test_rows_that_cannot_be_are_shown_and_told_as_text(make_run: MakeRun) -> None:
    spec = {
        "target": "<b>one[/]", "roles": {"led": 7, "followed": "<i>"},
        "waited": {"when": [], "saw": 7, "waited_s": 1},
    }  # fmt: skip
    rows = [
        _fault(1, "<script>[/red]", "<u>", spec=spec, targets=["<s>", None], effect="<em>"),
        _fault(2, "kill", "kill", targets=None, requested_ns=None, heal_effect="[" * 100_000),
    ]
    run = _run(make_run, rows)
    page = render_report(run)
    assert not [tag for tag in ("<script>[", "<b>one", "<u>", "<s>", "<em>") if tag in page]
    assert "&lt;script&gt;[/red]" in page
    show_run(run, Console(width=80, file=io.StringIO()))


def test_what_a_fault_saw_instead_of_its_state_stands_on_the_page_and_in_the_terminal(
    make_run: MakeRun,
) -> None:
    when = "leader of log-0-0 = n2"
    states = [f"leader n{leader} of log-0-0 in epoch {leader}, ISR n1, n3" for leader in (1, 3)]
    waited = {"when": when, "came": True, "waited_s": 12.34, "saw": states}
    never = {"when": when, "came": False, "waited_s": 30, "saw": states[:1]}
    refused = {
        "confirmed_ns": None,
        "effect": json.dumps({"without_effect": f"the state '{when}' was not reached"}),
    }
    rows = [
        _fault(1, "kill", "kill", spec={"target": "n1", "waited": waited}),
        _fault(2, "pause", "pause", spec={"target": "n2", "waited": never}, **refused),
        _fault(3, "stop", "stop", spec={"target": "n3", "waited": {**never, "saw": []}}),
    ]
    run = _run(make_run, rows)
    console = Console(file=io.StringIO(), soft_wrap=True)
    show_run(run, console)
    assert isinstance(console.file, io.StringIO)
    late = f"waited 12.3 s for {when}; saw {states[0]}; then {states[1]}"
    instead = f"waited 30.0 s for {when}; saw {states[0]}"
    lines = console.file.getvalue().splitlines()
    told = [re.sub(r" at \S+ s: ", ": ", line) for line in lines if "log-0-0 = n2" in line]
    assert told == [
        f"kill of n1: {late}",
        f"pause of n1: {instead}; not confirmed: the state '{when}' was not reached",
        f"stop of n1: {when} was reached at once",
    ]
    page = render_report(run)
    for each in (late, instead, f"{when} was reached at once"):
        assert f'<div class="soft">{each}</div>' in page


def test_one_partition_that_a_target_follows_is_one(make_run: MakeRun) -> None:
    rows = [_fault(each, "kill", "kill", spec={"roles": {"followed": each}}) for each in (1, 2)]
    told = [fault.roles for fault in fault_lines(RunTables(_run(make_run, rows)))]
    assert told == ["follower in 1 partition", "follower in 2 partitions"]


def test_a_fault_that_was_begun_and_not_confirmed_may_have_taken_records(
    make_run: MakeRun,
) -> None:
    unseen = {"confirmed_ns": None, "effect": json.dumps({"without_effect": "timed out"})}
    rows = [
        _fault(1, "wipe", "wipe", spec={"begun": True}, **unseen),
        _fault(2, "wipe", "wipe", spec={"begun": False}, **unseen),
        _fault(3, "kill", "kill", spec={"begun": True}, **unseen),
        _fault(4, "power-loss", "power-loss", spec={"begun": True}),
    ]
    begun, *others = fault_lines(RunTables(_run(make_run, rows)))
    assert begun.effect == (
        "not confirmed: timed out; the fault had begun, so it may have destroyed records"
    )
    assert not [each for each in others if "taken" in each.effect]
