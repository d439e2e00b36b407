"""Short names: `p22#132` and `log-0-0:v785`, made and understood, in sentences and on pages."""

import dataclasses
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from results.export.perfetto import events
from results.index.reading import read_run, stored_names
from results.page.close_up import close_up
from results.page.investigation import investigate
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.short import op_name, op_named, value_name, value_named, value_prefixes
from results.record.tables import TABLES
from results.record.terms import Validity
from results.record.values import pack_value
from results.report import render_report
from results.samples import sample_paths
from results.show import show_run
from results.show_named import show_named
from results.tables import RunTables
from results.verdict_json import read_verdict, write_verdict
from results.wording.naming import Names, names_of
from tests.results.conftest import MakeRun, write_rows

PLACES = (("log-0", 0), ("log-0", 1), ("log-1", 0), ("log-1", 1))
NUMBER = re.compile(r"\b\d{10,19}\b")
SAMPLES = [RunPaths(path) for path in sample_paths()]
LOSS = next(each for each in SAMPLES if each.root.name == "loss-acks-1")
STORY = next(each for each in SAMPLES if each.root.name == "leader-epoch-1-high-watermark")


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_an_ops_name_is_understood_again(process: int, ordinal: int) -> None:
    assert op_named(op_name(process, ordinal)) == (process, ordinal)


@given(st.integers(1, len(PLACES)), st.integers(0, 2**32 - 1), st.booleans())
def test_a_values_name_is_understood_again(number: int, sequence: int, scripted: bool) -> None:  # noqa: FBT001 - of Hypothesis
    prefixes = value_prefixes(PLACES, scripted=scripted)
    value = pack_value(number, sequence)
    name = value_name(value, prefixes)
    assert name is not None
    assert value_named(name, prefixes) == value
    assert (name == f"message{sequence}") == (scripted and number == 1)


def test_what_no_client_can_have_sent_has_no_name() -> None:
    prefixes = value_prefixes(PLACES, scripted=False)
    for number in (0, 263, 2**32 - 1, pack_value(len(PLACES) + 1, 0), 2**64):
        assert value_name(number, prefixes) is None
    for text in ("263", "log-0-0:263", "log-0-0", "log-0-4:v1", "log-0-0:v4294967296", "v1",
                 "message1", ":v1", "log-0-0:v", "log-0-0:v1 "):  # fmt: skip
        assert value_named(text, prefixes) is None, text
    for text in ("p1", "p#1", "p1#", "1#1", "P1#1", "p1#1 ", "p-1#1"):
        assert op_named(text) is None, text


def names(folder: Path, *, scripted: bool = False) -> Names:
    """Return the names of a run whose processes 3 and 19 share a thread, and so their ids grow."""
    paths = RunPaths(folder)
    rows = [
        {"op_id": op_id, "process": process}
        for op_id, process in ((40, 19), (7, 3), (1099511637417, 19), (9, 3), (41, 19))
    ]
    write_rows(paths.table("ops"), TABLES["ops"], rows, "log/1")
    plan = plan_from({"topics": 2, "partitions": 2})
    assert plan.topic_partitions == list(PLACES)
    return Names(RunTables(paths), plan, scripted=scripted)


def test_an_op_counts_its_processs_ops_by_their_ids(tmp_path: Path) -> None:
    of_run = names(tmp_path)
    told = {op_id: of_run.op(op_id) for op_id in (7, 9, 40, 41, 1099511637417, 8, 2**63)}
    assert told == {
        7: "p3#1", 9: "p3#2", 40: "p19#1", 41: "p19#2", 1099511637417: "p19#3",
        8: "8", 2**63: str(2**63),
    }  # fmt: skip
    assert [of_run.op_id(19, ordinal) for ordinal in range(5)] == [
        None,
        40,
        41,
        1099511637417,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("value 4294968081, sent by op 7, is gone", "value log-0-0:v785, sent by op p3#1, is gone"),
        ("Op 9 read it", "Op p3#2 read it"),
        ("values 4294968081 and 8589934593", "values log-0-0:v785 and log-0-1:v1"),
        ("3 reads jumped over it (op 7, 9, 40)", "3 reads jumped over it (op p3#1, p3#2, p19#1)"),
        # What is counted is no op, though an op has that number.
        ("which op 9 and 7 more read", "which op p3#2 and 7 more read"),
        ("by op 9, 7 reads in all", "by op p3#2, 7 reads in all"),
        # Offsets, times and whatever the run cannot have sent stay as they are.
        ("offset 4294968081, at 4294968081", "offset 4294968081, at 4294968081"),
        ("value 785 of op 8", "value 785 of op 8"),
        (f"value {2**63} of op {2**63}", f"value {2**63} of op {2**63}"),
        ("the loop 7, the evalue 4294968081", "the loop 7, the evalue 4294968081"),
    ],
)
def test_sentences_have_names_where_they_had_numbers(tmp_path: Path, text: str, named: str) -> None:
    assert names(tmp_path)(text) == named


def test_a_storys_messages_keep_their_names(tmp_path: Path) -> None:
    text = "n1: message2 (value 4294967298) of epoch 1, sent by op 7; it got value 4294967299"
    expected = "n1: message2 of epoch 1, sent by op p3#1; it got message3"
    assert names(tmp_path, scripted=True)(text) == expected
    both = names(tmp_path, scripted=True)("values 4294967298 and 8589934593")
    assert both == "message2 and log-0-1:v1"


def test_a_page_has_each_number_where_its_name_leads(tmp_path: Path) -> None:
    of_run = names(tmp_path)
    told = of_run.linked("<b> op 7 sent value 4294968081; op 7")
    assert told == (
        '&lt;b&gt; op <a class="name" href="#name-1" title="op 7">p3#1</a> sent value '
        '<a class="name" href="#name-2" title="value 4294968081">log-0-0:v785</a>; op '
        '<a class="name" href="#name-1" title="op 7">p3#1</a>'
    )
    assert [(each.name, each.long, each.anchor) for each in of_run.printed] == [
        ("p3#1", "op 7", "name-1"), ("log-0-0:v785", "value 4294968081", "name-2"),
    ]  # fmt: skip
    assert of_run.titled("op 7 and op 8") == "op p3#1 and op 8 [op 7]"


def test_a_cell_leaves_out_its_own_partition_only(tmp_path: Path) -> None:
    of_run = names(tmp_path)
    told = [of_run.cell(text, "log-0-0") for text in ("4294968081", "8589934593", "?", "", "785")]
    assert told == ["v785", "log-0-1:v1", "?", "", "785"]


def test_evidence_keeps_its_numbers_beside_the_names(tmp_path: Path) -> None:
    of_run = names(tmp_path)
    assert of_run.evidence("op_id", 7) == "p3#1 (7)"
    assert of_run.evidence("skipping_op_ids", [7, 8]) == ["p3#1 (7)", 8]
    assert of_run.evidence("ops", [7]) == ["p3#1 (7)"]
    assert of_run.evidence("ops", 7) == 7  # A count.
    assert of_run.evidence("earlier_value", 4294968081) == "log-0-0:v785 (4294968081)"
    assert of_run.evidence("offset", 4294968081) == 4294968081
    assert of_run.evidence("acknowledged_ns", 17_490_683_358) == 17_490_683_358
    assert of_run.evidence("missing_from_final_read", True) is True  # noqa: FBT003 - evidence


def test_without_a_plan_or_ops_numbers_stay(tmp_path: Path) -> None:
    bare = names_of(RunPaths(tmp_path / "nothing"))
    assert bare("value 4294968081, sent by op 7") == "value 4294968081, sent by op 7"


@pytest.mark.parametrize("paths", SAMPLES, ids=lambda paths: str(paths.root.name))
def test_stored_runs_have_names_for_all_that_their_sentences_number(paths: RunPaths) -> None:
    verdict, of_run = read_verdict(paths.verdict), names_of(paths)
    assert verdict is not None
    examples = [each for summary in verdict.anomalies.values() for each in summary.examples]
    told = [of_run(text) for each in examples for text in (each.sentence, each.cause)]
    assert not [text for text in told if NUMBER.search(text)]


def test_each_op_and_value_of_a_run_has_one_name_that_leads_back() -> None:
    of_run, tables = names_of(LOSS), RunTables(LOSS)
    ids = [row["op_id"] for row in tables.record("ops").to_pylist()]
    called = {of_run.op(op_id): op_id for op_id in ids[::97]}
    assert len(called) == len(ids[::97])
    for name, op_id in called.items():
        found = op_named(name)
        assert found is not None
        assert of_run.op_id(*found) == op_id
    for row in tables.record("sends").to_pylist()[::97]:
        name = of_run.value(row["value"])
        assert name.startswith(f"{row['topic']}-{row['partition']}:v")
        assert of_run.value_of(name) == row["value"]


def shown(paths: RunPaths, what: str) -> str:
    console = Console(file=io.StringIO(), width=160)
    show_named(paths, what, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_show_takes_an_op_by_its_name_and_by_its_id() -> None:
    text = shown(LOSS, "p15#268")
    assert text == shown(LOSS, "1099511629897")
    assert "p15#268 (op 1099511629897): send of process 15, main" in text
    assert "from 17.484 s to 17.490 s: ok" in text
    assert "log-0-0:v131198  4295098494     log-0-0    263" in text


def test_show_takes_a_value_by_its_name_and_by_its_number() -> None:
    text = shown(LOSS, "log-0-0:v205")
    assert text == shown(LOSS, "4294967501")
    assert "log-0-0:v205 (value 4294967501)" in text
    assert "sent by op p4#424 of process 4, from 22.349 s to 22.355 s: ok, at offset 263" in text
    assert "read 14 times:" in text
    assert [line.split() for line in text.splitlines() if line.startswith("final")] == [
        ["final", node, "log-0-0", "263", "1"] for node in ("n1", "n2", "n3")
    ]
    lost = shown(LOSS, "log-0-0:v131198")
    assert "no client read it" in lost
    assert "no replica's log has it" in lost
    cut = lost.partition("replicas that at some time truncated their log")[2]
    assert "n2    log-0-0    263          follower of n3: epoch 0 ends at offset" in cut
    assert "truncated" not in shown(LOSS, "log-0-0:v1")


def test_show_takes_a_value_without_its_partition_where_one_has_it() -> None:
    assert shown(LOSS, "v601") == shown(LOSS, "log-0-2:v601")
    with pytest.raises(
        StoreError, match=r"v205 is the name of 8 values; .*: log-0-0:v205, log-0-1"
    ):
        shown(LOSS, "v205")


def test_show_prints_both_where_a_number_is_an_ops_and_a_values(tmp_path: Path) -> None:
    """From 256 partitions on, values are as large as the ids of ops."""
    paths = RunPaths(tmp_path / "log" / "20261122T010000Z-1")
    paths.live.mkdir(parents=True)
    plan = plan_from({"topics": 2, "partitions": 200})
    paths.plan.write_text(dump_plan(plan), encoding="utf-8")
    both = pack_value(256, 7)
    op = {"op_id": both, "process": 3, "f": "send", "phase": "main", "outcome": "ok"}
    send = {"op_id": both + 1, "mop": 0, "topic": "log-1", "partition": 55, "value": both,
            "offset": 5, "outcome": "ok", "acked": True, "acks": "all", "process": 4}  # fmt: skip
    write_rows(paths.table("ops"), TABLES["ops"], [op], paths.run_id)
    write_rows(paths.table("sends"), TABLES["sends"], [send], paths.run_id)
    text = shown(paths, str(both))
    assert f"p3#1 (op {both}): send of process 3" in text
    assert f"{both} is also the number of a value:\nlog-1-55:v7 (value {both})" in text
    assert "also the number" not in shown(paths, "p3#1")
    assert shown(paths, "log-1-55:v7").startswith(f"log-1-55:v7 (value {both})")


def test_show_takes_a_storys_message() -> None:
    assert shown(STORY, "message2") == shown(STORY, "4294967298")
    assert "sent by op p1#1 of process 1" in shown(STORY, "message2")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("p15#9999", "process 15 has ops p15#1 to p15#1182"),
        ("p999#1", "process 999 has no ops"),
        ("log-0-0:v99999", "no client sent or read this value"),
        ("v99999", "no client sent or read this value"),
        ("77777777", "a value has a name like log-0-0:v2"),
        ("message2", "a value has a name like log-0-0:v2"),
        ("9" * 5000, "a value has a name like log-0-0:v2"),
    ],
)
def test_show_says_why_it_knows_no_such_name(what: str, why: str) -> None:
    with pytest.raises(StoreError, match=re.escape(why)):
        shown(LOSS, what)


def test_pages_speak_of_ops_and_values_by_name_only_but_where_they_explain_them() -> None:
    page = render_report(LOSS)
    told = page.partition('<details id="names">')
    explained = told[2].partition("</details>")[0]
    for name, number in (("p15#268", "op 1099511629897"), ("log-0-0:v131198", "value 4295098494")):
        assert f">{name}</a>" in told[0]
        assert f'{name}</th><td class="mono">{number}</td>' in explained
    evidence = re.compile(r'<td class="mono">.*?</td>', re.DOTALL)
    seen = re.sub(r"<title>.*?</title>|<[^>]*>", " ", evidence.sub("", told[0]))
    assert not re.findall(r"\b(?:op|value) \d{10,}", seen)


def test_a_terminal_says_how_to_ask_for_the_witness_itself() -> None:
    console = Console(file=io.StringIO(), width=200)
    show_run(LOSS, console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    (asked,) = [line for line in lines if line.startswith("(for details: logquake show")]
    assert asked.strip() == (
        "(for details: logquake show sample:loss-acks-1 p15#268 shows its op, and log-0-0:v131198"
        " its value)"
    )


def test_faults_of_a_kind_that_are_in_force_at_once_have_lanes_of_one_name() -> None:
    unclean = next(each for each in SAMPLES if each.root.name == "loss-unclean")
    found = investigate(unclean, RunTables(unclean))
    assert found.close_up is not None
    lanes = [strip for strip in found.close_up.strips if strip.name.startswith("isolate")]
    assert [(strip.name, [bar.label for bar in strip.bars if bar.label]) for strip in lanes] == [
        ("isolate", ["n2"]), ("isolate", ["n1"]),
    ]  # fmt: skip


def test_a_trace_names_ops_and_values_as_pages_do() -> None:
    found = [each["args"] for each in events(LOSS) if each["args"].get("op") == "p15#268"]
    assert [(each["op_id"], each["value"], each["value_number"]) for each in found] == [
        (1099511629897, "log-0-0:v131198", "4295098494")
    ]
    told = [each["args"]["sentence"] for each in events(LOSS) if each["name"] == "lost-write"]
    assert told
    assert not [sentence for sentence in told if NUMBER.search(sentence)]


def test_a_damaged_table_of_ops_leaves_their_numbers(tmp_path: Path) -> None:
    of_run = names(tmp_path)
    (tmp_path / "record" / "ops.parquet").write_bytes(b"PAR1 no table")
    assert of_run("op 7 sent value 4294968081") == "op 7 sent value log-0-0:v785"


def test_the_axis_labels_sends_by_their_names_where_they_fit() -> None:
    found = investigate(LOSS, RunTables(LOSS))
    assert found.case is not None
    drawn = close_up(
        found.case,
        window=(17.48, 17.50),
        faults=(),
        named=lambda text: found.names.cell(text, "log-0-0"),
    )
    labels = [bar.label for strip in drawn.strips if strip.name == "sent" for bar in strip.bars]
    assert labels == ["v131198"]


@pytest.mark.parametrize("linked", ["table", "record"])
def test_what_lists_runs_follows_no_link_for_a_name(tmp_path: Path, linked: str) -> None:
    inside, outside = tmp_path / "run", tmp_path / "outside"
    names(outside)
    inside.mkdir()
    (inside / "plan.toml").write_text(dump_plan(plan_from({})), encoding="utf-8")
    target = RunPaths(outside)
    if linked == "record":
        (inside / "record").symlink_to(target.record)
    else:
        (inside / "record").mkdir()
        RunPaths(inside).table("ops").symlink_to(target.table("ops"))
    text = "value 4294968081, sent by op 7"
    assert stored_names(RunPaths(inside))(text) == "value log-0-0:v785, sent by op 7"
    assert names_of(RunPaths(inside))(text) == "value log-0-0:v785, sent by op 7"


def test_reasons_of_an_unknown_verdict_name_ops_too(make_run: MakeRun) -> None:
    paths = make_run()
    row = {"op_id": 1099511637417, "process": 4, "f": "send", "phase": "main", "outcome": "ok"}
    write_rows(paths.table("ops"), TABLES["ops"], [row], paths.run_id)
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    why = "op 1099511637417 is recorded more than once"
    write_verdict(
        paths,
        dataclasses.replace(verdict, valid=Validity.UNKNOWN, anomalies={}, unknown_because=(why,)),
    )
    console = Console(file=io.StringIO(), width=160)
    show_run(paths, console)
    assert isinstance(console.file, io.StringIO)
    assert "Unknown: op p4#1 is recorded more than once" in console.file.getvalue()
    page = render_report(paths)
    assert page.count("p4#1</a> is recorded more than once") == 2
    assert "p4#1 is recorded more than once" in read_run(paths).sentence
