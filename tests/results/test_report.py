import dataclasses
import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import AnomalyClass, Validity
from results.record.values import pack_value
from results.record.verdict import AnomalySummary, Example, Verdict
from results.report import render_report, write_report
from results.tables import STATISTICS, statistics_path
from results.verdict_json import read_verdict, write_verdict
from results.wording.glossary import GLOSSARY
from tests.results.conftest import TOPIC, record_rows, write_rows

MakeRun = Callable[..., RunPaths]
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\udcff&\"'"
NONE = "\u2013"
_VOID = {"meta", "br", "link", "img", "input", "hr", "line", "rect", "path", "use"}


class Page(HTMLParser):
    """The words of each section, all tags, and whether every tag was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.sections: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        if identity := values.get("id"):
            self.ids.append(identity)
            if tag == "section":
                self._inside = identity
                self.sections[identity] = []
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.sections[self._inside].append(data)

    def text(self, section: str) -> str:
        return " ".join(" ".join(self.sections[section]).split())


def changed(paths: RunPaths, **changes: Any) -> Verdict:  # noqa: ANN401 - any field
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    new = dataclasses.replace(verdict, **changes)
    write_verdict(paths, new)
    return new


def test_the_sections_stand_in_order_with_their_numbers(make_run: MakeRun) -> None:
    page = Page(write_report(make_run()).read_text(encoding="utf-8"))
    assert list(page.sections) == [
        "verdict", "witness", "axis", "lines", "again", "setting", "class", "bundle", "promised",
        "anomalies", "timeline", "truncations", "statistics", "plots", "faults", "checks",
        "environment", "files",
    ]  # fmt: skip
    verdict = page.text("verdict")
    assert verdict.startswith("Invalid: 3 acknowledged writes were lost.")
    facts = "partition log-0-1 offset 121 acknowledged at 22.300 s value log-0-1:v1121"
    assert facts in verdict
    assert (
        "broker 1 (n1), epoch 4 next leader, and when the run ended broker 2 (n2), epoch 5"
        in verdict
    )
    assert "lost-write 14,231 3" in page.text("checks")
    assert "unseen not applicable" in page.text("checks")
    assert "Offered 23,500 operations: 98.1 % began, missed: 440" in page.text("statistics")
    assert "send 10,650 0 660 11,310" in page.text("statistics")
    for term in ("info", "began", "missed"):  # Each is explained where it stands.
        assert f"{term}: {GLOSSARY[term]}" in page.text("statistics")
    assert f"not applicable: {GLOSSARY['not applicable']}" in page.text("checks")
    assert "logquake run runs/log/20261121T104500Z-7/plan.toml" in page.text("again")
    assert "logquake check runs/log/20261121T104500Z-7" in page.text("again")
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert "n1 log-0-1 120 27.400 s follower of n2 in epoch 5" in page.text("truncations")


def test_what_follows_from_the_cause_is_told_with_its_reason(make_run: MakeRun) -> None:
    page = write_report(make_run()).read_text(encoding="utf-8")
    follows = "It may follow from lost-write: a truncated offset is assigned to another value."
    assert page.count("It may follow from") == 2  # Where it is counted, and where it is shown.
    assert page.index('<h3 id="anomaly-2">inconsistent-offsets') < page.rindex(follows)


def test_the_logs_around_a_lost_write_are_drawn_with_what_clients_were_told(
    make_run: MakeRun,
) -> None:
    page = Page(render_report(make_run()))
    words = page.text("witness")
    told = "v1118 v1119 v1120 gone v1121 gone v1122 gone"
    assert f"offset 118 119 120 121 122 123 124 clients were told {told} {NONE} {NONE}" in words
    row = "v1118 epoch 4 v1119 epoch 4 v1191 epoch 5 v1192 epoch 5"
    assert f"n1 acknowledged it {row}" in words
    assert f"n2 led when the run ended {row}" in words
    assert "epoch 4, written by broker 1 (n1)" in words
    marked = [tag for tag, values in page.tags if "differs" in (values.get("class") or "").split()]
    assert len(marked) == 9  # Offsets 120, 121, 122 on three replicas.
    assert "v1121: value log-0-1:v1121. ≠: the log has another record than the one" in words
    assert "gone the value of this failure: at the end, no replica's log has it." in words
    assert "gone another lost value: another failure." in words
    lost = [tag for tag, values in page.tags if "gone" in (values.get("class") or "").split()]
    assert len(lost) == 5  # Three values, and the two signs of the legend.
    assert f"{NONE}: nothing." in words
    assert "also" not in words


def test_an_offset_that_clients_were_told_twice_shows_both_values(make_run: MakeRun) -> None:
    paths = make_run()
    sends = record_rows(TOPIC)["sends"]
    again = sends[-2] | {"op_id": 9000, "value": pack_value(2, 1192)}
    rows = [*sends, again]
    write_rows(paths.table("sends"), TABLES["sends"], rows, paths.run_id)
    words = Page(render_report(paths)).text("witness")
    assert "v1121 gone also v1192" in words
    assert "“also”: brokers reported more than one value at this offset." in words


def test_the_legend_explains_only_the_signs_that_are_there(make_run: MakeRun) -> None:
    paths = make_run()
    untimed = f"“{NONE}”: the record has no time for the event"
    assert untimed in Page(render_report(paths)).text("witness")
    write_rows(paths.table("truncations"), TABLES["truncations"], [], paths.run_id)
    assert untimed not in Page(render_report(paths)).text("witness")


def test_faults_say_who_was_meant_who_was_hit_and_how_it_is_known(make_run: MakeRun) -> None:
    faults = Page(render_report(make_run())).text("faults")
    assert "1 isolate leader(log-0,1) n1 leader of log-0-1; follower in 3 partitions" in faults
    assert "active controller 20.0 26.0 probes stopped arriving on 4 of 4 cut links" in faults
    assert "process 812 of n3 is gone" in faults


def test_the_time_line_shows_leaders_epochs_and_the_moment_of_the_loss(make_run: MakeRun) -> None:
    page = Page(render_report(make_run()))
    words = page.text("timeline")
    for expected in ("main: clients and faults", "isolate", "pause 2", "broker 1, epoch 4",
                     "broker 2 (n2) leads in epoch 5: 23.0 s to 66.0 s",
                     "no leader, epoch 4: 21.6 s to 23.0 s",
                     "n1 truncated its log at offset 120: follower of broker 2 in epoch 5",
                     "second 20: 120 sends were under way, 80 succeeded"):  # fmt: skip
        assert expected in words
    shapes = [values.get("class") for _, values in page.tags]
    assert shapes.count("anomaly") == 2
    assert shapes.count("truncated") == 1
    assert shapes.count("shade") == 5  # One of them on the axis around the loss.


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(make_run: MakeRun) -> None:
    paths = make_run()
    text = write_report(paths).read_text(encoding="utf-8")
    page = Page(text)
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"[a-z]+://[^\"' )<]*", text)) <= namespaces
    for tag, values in page.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "image"}
        assert not [name for name in values if name.startswith("on")]
        assert (values.get("href") or "#").startswith(("#", "./"))
        assert "src" not in values
        href = values.get("href") or ""
        if tag == "a":
            assert href[1:] in page.ids if href[0] == "#" else (paths.root / href).exists()
    assert "url(" not in text.replace("url(#", "")
    assert len(text) < 5_000_000


def test_plots_are_files_too_and_keep_their_text(make_run: MakeRun) -> None:
    paths = make_run()
    write_report(paths)
    for name, words in (("rates", "operations a second"), ("latency-send", "milliseconds")):
        svg = (paths.root / "plots" / f"{name}.svg").read_text(encoding="utf-8")
        assert words in svg
        assert "currentColor" in svg
        assert "mathdefault" not in svg
        assert len(svg) < 60_000


def test_the_page_is_the_same_every_time(make_run: MakeRun) -> None:
    paths = make_run()
    first = write_report(paths).read_bytes()
    assert write_report(paths).read_bytes() == first


def test_a_run_without_statistics_has_a_page(make_run: MakeRun) -> None:
    page = Page(render_report(make_run(statistics=False)))
    assert "This run has no statistics." in page.text("plots")
    assert "This run has no statistics." in page.text("statistics")
    assert "isolate" in page.text("timeline")
    assert "Invalid: 3 acknowledged writes were lost." in page.text("verdict")


def test_a_run_of_which_nothing_is_left_has_a_page(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / "20261121T104500Z-7")
    paths.root.mkdir(parents=True)
    page = Page(write_report(paths).read_text(encoding="utf-8"))
    assert "the run was not judged yet; run `logquake check`" in page.text("verdict")
    assert "The record has no events with times." in page.text("timeline")
    assert "No fault was recorded." in page.text("faults")


def test_damaged_tables_and_verdicts_are_told_and_left_out(make_run: MakeRun) -> None:
    paths = make_run()
    paths.table("faults").write_bytes(b"PAR1 no more")
    statistics_path(paths, "rates").write_bytes(b"")
    paths.verdict.write_text("{", encoding="utf-8")
    paths.environment.write_text("[", encoding="utf-8")
    paths.plan.write_text("=", encoding="utf-8")
    words = Page(render_report(paths)).text("verdict")
    assert "record/faults.parquet is damaged" in words
    assert "statistics/rates.parquet is damaged" in words
    assert "verdict.json cannot be read" in words


def test_a_table_with_bytes_that_are_no_text_counts_as_damaged(make_run: MakeRun) -> None:
    paths = make_run()
    kinds = pa.array([b"\xff\xfe"], type=pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 1, kinds.buffers())
    pq.write_table(pa.table({"kind": broken}), paths.table("faults"))
    assert "record/faults.parquet is damaged" in Page(render_report(paths)).text("verdict")


def test_statistics_with_columns_missing_or_null_do_not_stop_the_page(make_run: MakeRun) -> None:
    paths = make_run()
    for name, schema in STATISTICS.items():
        nulls = [{field.name: None for field in schema}]
        pq.write_table(pa.Table.from_pylist(nulls, schema=schema), statistics_path(paths, name))
    pq.write_table(pa.table({"second": [1]}), statistics_path(paths, "rates"))
    assert "acknowledged writes were lost" in Page(render_report(paths)).text("verdict")


def test_seconds_may_be_named_by_their_start(make_run: MakeRun) -> None:
    paths = make_run()
    rates = {"window_ns": [3_000_000_000], "f": ["send"], "outcome": ["ok"], "count": [12]}
    pq.write_table(pa.table(rates), statistics_path(paths, "rates"))
    assert "send 12 0 0 12" in Page(render_report(paths)).text("statistics")


def test_hostile_names_are_shown_and_do_nothing(make_run: MakeRun) -> None:
    paths = make_run(topic="<script>alert(1)</script>\x1b[31m\u202e")
    verdict = changed(
        paths,
        unknown_because=(HOSTILE,),
        guarantees=(HOSTILE,),
        checked={HOSTILE: 1},
        anomalies={
            HOSTILE: AnomalySummary(
                anomaly_class=AnomalyClass.SAFETY,
                count=1,
                allowed=0,
                trusted=1,
                examples=(
                    Example(
                        sentence=HOSTILE,
                        evidence={HOSTILE: HOSTILE, "list": [HOSTILE], "acknowledged_ns": 1},
                        topic=HOSTILE,
                        topic_id="",
                        partition=0,
                        offset=3,
                        allowed=False,
                        trusted=True,
                        why=HOSTILE,
                    ),
                ),
            )
        },
    )
    assert verdict.valid is Validity.INVALID
    paths.plan.write_bytes(b"# \xff <b>\x1b]0;title\x07\n")
    (paths.root / "<b>.txt").touch()
    (paths.root / "javascript:alert(1)").touch()
    paths.environment.write_text(json.dumps({"kernel": HOSTILE}), encoding="utf-8")
    text = write_report(paths).read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not set(text) & {"\x1b", "\u202e", "\x07"}
    shown = r"<script>alert(1)</script>\x1b[31m\u202e\xff&" + "\"'"
    for section in ("anomalies", "promised", "checks", "class", "environment"):
        assert shown in page.text(section)
    assert html.escape("<b>.txt") in text
    links = [values.get("href") for tag, values in page.tags if tag == "a"]
    assert all(link and link.startswith("./") for link in links)


@pytest.mark.parametrize(
    ("valid", "allowed", "expected"),
    [
        (Validity.VALID, 3, "Valid, by the judge strict: 3 acknowledged writes were lost, and"),
        (Validity.INVALID, 1, "Invalid: 2 acknowledged writes were lost."),
        (Validity.UNKNOWN, 0, "Unknown: no final read."),
    ],
)
def test_the_first_sentence_is_the_verdict(
    make_run: MakeRun, valid: Validity, allowed: int, expected: str
) -> None:
    paths = make_run()
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    loss = dataclasses.replace(verdict.anomalies["lost-write"], allowed=allowed)
    why = ("no final read",) if valid is Validity.UNKNOWN else ()
    changed(paths, valid=valid, unknown_because=why, anomalies={"lost-write": loss})
    page = Page(render_report(paths))
    assert page.text("verdict").startswith(expected)
    assert ("unknown" in page.ids) == (valid is Validity.UNKNOWN)


def test_a_valid_run_says_what_was_done(make_run: MakeRun) -> None:
    paths = make_run()
    changed(paths, valid=Validity.VALID, anomalies={})
    words = Page(render_report(paths)).text("verdict")
    assert words.startswith("Valid: every promise was kept. 21,960 operations; 4 of 4 faults")
    assert "5 checks" in words


def test_a_run_with_thousands_of_partitions_and_hours_stays_small(make_run: MakeRun) -> None:
    paths = make_run()
    leaders = [
        {"topic": "t", "partition": number, "leader": number % 5, "leader_epoch": 1,
         "from_ns": 0, "to_ns": 36_000_000_000_000}
        for number in range(3000)
    ]  # fmt: skip
    latency = [
        {"second": second, "f": "send", "p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "max_ms": 9.0}
        for second in range(36_000)
    ]
    for name, rows in (("leaders", leaders), ("latency", latency)):
        table = pa.Table.from_pylist(rows, schema=STATISTICS[name])
        pq.write_table(table, statistics_path(paths, name))
    text = render_report(paths)
    assert len(text) < 1_000_000
    # Partitions with something to see are not the ones that are left out.
    assert "log-0-1" not in Page(text).text("timeline")
    assert "Not shown: 2,976 further partitions" in Page(text).text("timeline")


def test_a_page_elsewhere_does_not_link_to_what_is_not_beside_it(
    make_run: MakeRun, tmp_path: Path
) -> None:
    paths = make_run()
    page = write_report(paths, output=tmp_path / "other" / "page.html")
    assert page == tmp_path / "other" / "page.html"
    tags = Page(page.read_text(encoding="utf-8")).tags
    links = {values["href"] for tag, values in tags if tag == "a"}
    assert all(link and link.startswith("#name-") for link in links)
    assert not paths.report.exists()
    assert not (paths.root / "plots").exists()
