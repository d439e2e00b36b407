"""One of a thing is told in the singular: on pages, on the site, and in a terminal."""

import dataclasses
import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from harness.progress import Snapshot, _rates
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.tables import TABLES
from results.record.verdict import Basis, Compared
from results.report import render_report
from results.show import print_verdict, show_run
from results.site import make_site
from results.store import Store
from results.tables import STATISTICS, statistics_path
from results.verdict_json import write_verdict
from results.wording.plural import many
from tests.results.conftest import lost_write, summary, verdict_of
from tests.results.planted import NIGHTS, anomaly, night_of, plant

MakeRun = Callable[..., RunPaths]
ONE_OF_MANY = re.compile(r"(?<![\d.,:/=<>+-])(?<!of )\b1 (?:more |further )*([a-z]+s)\b")
"""`1 faults`; not `10.1 ms`, `1 of 1 runs`."""
_NO_NOUNS = {"is", "was", "has", "ms", "leads", "as", "its", "s", "process"}


def wrong_plurals(text: str) -> list[str]:
    prose = re.sub(r"<pre.*?</pre>", " ", text, flags=re.DOTALL)  # Files as they lie there.
    cells = re.sub(r"</(?:td|th|tr|dt|dd)>", " | ", prose)  # A label is no noun of the cell before.
    words = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", cells)).split())
    return [match[0] for match in ONE_OF_MANY.finditer(words) if match[1] not in _NO_NOUNS]


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1234, "1,234 entries")],
)
def test_a_count_stands_with_its_noun(count: int, words: str) -> None:
    assert many(count, "entry", "entries") == words
    assert many(count, "fault").endswith("fault" if count == 1 else "faults")


def test_a_wrong_plural_is_found() -> None:
    assert wrong_plurals("<b>1</b> more faults, 11 faults, 0.1 seconds, broker 1 leads") == [
        "1 more faults"
    ]


def run_of_ones(make_run: MakeRun) -> RunPaths:
    """A run with one of each thing that is counted."""
    paths = make_run()
    plan = {"topics": 1, "partitions": 1, "nodes": 1, "replication": 1, "min_insync": 1,
            "concurrency": 1, "rate": 1, "nemesis": "kill", "seed": 7}  # fmt: skip
    paths.plan.write_text(dump_plan(plan_from(plan)), encoding="utf-8")
    spec = {"kind": "delay", "target": "n1", "roles": {"led": ["log-0-0"], "followed": 1}}
    links = [{"sender": "n1", "receiver": "n2", "after": True, "dropped_at_first": 1}]
    effect = {"kind": "wipe", "processes": [], "replicas": [{"bytes_wiped": 1}]}
    fault = {
        "run_id": "r", "fault_id": 1, "kind": "wipe", "spec": json.dumps(spec), "targets": ["n1"],
        "requested_ns": 11_000_000_000, "confirmed_ns": 12_000_000_000,
        "healed_ns": 13_000_000_000, "effect": json.dumps(effect),
        "heal_effect": json.dumps({"kind": "join", "links": links}),
    }  # fmt: skip
    pq.write_table(pa.Table.from_pylist([fault], schema=TABLES["faults"]), paths.table("faults"))
    second = {"offered": 1, "missed": 1, "calm_offered": 1, "calm_missed": 1, "second": 12}
    table = pa.Table.from_pylist([second], schema=STATISTICS["offered"])
    pq.write_table(table, statistics_path(paths, "offered"))
    return paths


def test_a_run_with_one_of_each_thing_is_told_in_the_singular(make_run: MakeRun) -> None:
    paths = run_of_ones(make_run)
    one = Compared(check="lost-write", rows=1, what="acknowledged sends")
    verdict = dataclasses.replace(
        verdict_of(paths.run_id),
        anomalies={"lost-write": summary(1, lost_write())},
        checked={"lost-write": 1, "unseen": None},
        basis=(Basis(promise="a promise", compared=(one,), unshown=("It was not seen.",)),),
    )
    console = Console(file=io.StringIO(), soft_wrap=True)
    write_verdict(paths, verdict)
    show_run(paths, console)
    print_verdict(verdict, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "1 broker, 1 topic, 1 partition each" in text
    assert "1 operation a second, 1 process" in text
    assert "1 check, judge" in text
    assert "1 is not applicable: " in text
    assert "offered 1 operation:" in text
    assert "this run could not show 1 thing" in text
    assert not wrong_plurals(text.replace("\n", ". ")), text
    page = render_report(paths)
    assert "deleted from disk: 1 replica of 1 byte" in page
    assert "probes arrive on 1 of 1 link; dropped: 1 packet" in page
    assert "follower in 1 partition" in page
    assert not wrong_plurals(page)


def test_a_site_with_one_of_each_thing_is_told_in_the_singular(tmp_path: Path) -> None:
    lost = {"lost-write": anomaly(1)}
    paths = plant(tmp_path, "20261122T010000Z", anomalies=lost, night=night_of(NIGHTS[-1], "log"))
    client = make_site(Store(tmp_path)).test_client()
    urls = ("/", "/runs", "/nights", "/failures", "/trends", "/reached", f"/run/{paths.run_id}/",
            f"/night/nightly/{NIGHTS[-1]}", f"/files/{paths.run_id}",
            f"/live/{paths.run_id}")  # fmt: skip
    for url in urls:
        answer = client.get(url, buffered=True)
        assert answer.status_code == 200, url
        assert not wrong_plurals(answer.get_data(as_text=True)), url


def test_a_run_under_way_counts_in_the_singular() -> None:
    assert _rates(Snapshot(total=1, missed=1)) == "idle; 1 op, 1 missed"
