"""From folders to verdicts, with either engine; and from damaged folders, never an exception."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.ingest import completed
from checkers.run import judge_runs
from checkers.spark.session import spark_context
from checkers.statistics import STATISTICS
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import Judge, Validity
from tests.checkers.faithful import FaithfulRun
from tests.checkers.test_oracle_agreement import corrupt, lose
from tests.checkers.transactional import TransactionalRun

ZOOKEEPERS_NODE = Path(__file__).parents[1] / "cluster_files" / "data" / "zookeeper" / "n1"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FaithfulRun(5, steps=120).write(tmp_path_factory.mktemp("store") / "t" / "sound")


def test_a_faithful_run_is_valid_and_leaves_its_tables(sound: Path) -> None:
    (verdict,) = judge_runs([sound], engine="local")
    assert (verdict.valid, verdict.unknown_because, verdict.run_id) == (
        Validity.VALID, (), "t/sound",
    )  # fmt: skip
    paths = RunPaths(sound)
    assert all(pq.read_schema(paths.table(name)) == schema for name, schema in TABLES.items())
    assert all((paths.statistics / f"{name}.parquet").exists() for name in STATISTICS)
    stats = verdict.stats
    assert stats["rate"] == {"planned_per_s": 500.0, "offered": 100, "missed": 1,
                             "held_outside_of_faults_percent": None}  # fmt: skip


def test_a_stored_run_is_judged_again_without_its_live_streams(sound: Path, tmp_path: Path) -> None:
    (before,) = judge_runs([sound], engine="local")
    moved = shutil.copytree(sound, tmp_path / "other" / "name")
    shutil.rmtree(moved / "record" / "live")
    (after,) = judge_runs([moved], engine="local")
    assert replace(after, run_id=before.run_id) == before
    assert after.run_id == "other/name"


def test_a_run_without_anything_is_unknown_and_says_so(tmp_path: Path) -> None:
    (verdict,) = judge_runs([tmp_path / "t" / "empty"], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any("the run ended before" in sentence for sentence in verdict.unknown_because)


def test_a_run_whose_brokers_never_answered_is_unknown(tmp_path: Path) -> None:
    run = FaithfulRun(3, steps=0)
    for name in ("send_completions", "op_completions", "polled", "leadership", "replica_records",
                 "replica_states", "final_reads"):  # fmt: skip
        run.rows[name] = []
    (verdict,) = judge_runs([run.write(tmp_path / "t" / "mute")], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any("not-enough-traffic" in sentence for sentence in verdict.unknown_because)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damage_makes_a_run_unknown_and_never_an_exception(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = Random(f"{seed}/damage")
    root = FaithfulRun(seed % 50).write(tmp_path_factory.mktemp("store") / "t" / "hurt")
    path = random.choice(sorted((root / "record" / "live").glob("*.worker-0.*")))
    content = bytearray(path.read_bytes())
    cut = random.randrange(len(content) - 8)
    path.write_bytes(bytes(content[:cut]) if random.random() < 0.5 else random.randbytes(cut))
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any("is cut" in sentence for sentence in verdict.unknown_because)


@pytest.mark.parametrize("name", ["plan.toml", "topics.json", "record/ingest.json",
                                  "record/sends.parquet"])  # fmt: skip
def test_a_broken_file_makes_a_run_unknown(sound: Path, tmp_path: Path, name: str) -> None:
    root = shutil.copytree(sound, tmp_path / "t" / "broken")
    judge_runs([root], engine="local")
    (root / name).write_bytes(b"\x00garbage\xff")
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert verdict.unknown_because


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("plan.toml", f"nodes = {DEEP}", "the plan cannot be read"),
        ("plan.toml", f"nodes = {'9' * 5000}", "the plan cannot be read"),
        ("milestones.jsonl", DEEP, "the milestones cannot be read"),
        ("record/ingest.json", DEEP, "the notes of ingest cannot be read"),
        ("record/ingest.json", '{"ingest": Infinity}', "the notes of ingest cannot be read"),
    ],
)
def test_a_file_that_is_too_deep_or_too_long_is_told(
    sound: Path, tmp_path: Path, *, name: str, content: str, told: str
) -> None:
    root = shutil.copytree(sound, tmp_path / "t" / "deep")
    judge_runs([root], engine="local")
    (root / name).write_text(content)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any(each.startswith(told) for each in verdict.unknown_because)


def test_topics_that_are_none_are_told(sound: Path, tmp_path: Path) -> None:
    root = shutil.copytree(sound, tmp_path / "t" / "nameless")
    listing = json.loads((root / "topics.json").read_text())
    (root / "topics.json").write_text(json.dumps([{**each, "topic_id": None} for each in listing]))
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    told = "the list of topics cannot be read: 0.topic_id: Input should be a valid string"
    assert told in verdict.unknown_because


@pytest.mark.parametrize("name", ["polled.worker-0", "polled.final", "send_invocations.worker-0"])
def test_a_missing_stream_is_told_and_nothing_that_follows_from_it_is_trusted(
    tmp_path: Path, name: str
) -> None:
    root = FaithfulRun(5, steps=120).write(tmp_path / "t" / "gap")
    (root / "record" / "live" / f"{name}.arrows").unlink()
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert f"the stream {name}.arrows is missing" in verdict.unknown_because
    safety = [each for each in verdict.anomalies.values() if each.anomaly_class == "safety"]
    assert all(each.trusted == 0 for each in safety)


def test_a_flipped_bit_in_a_table_is_damage_and_no_other_value(tmp_path: Path) -> None:
    root = FaithfulRun(5, steps=120).write(tmp_path / "t" / "bit")
    judge_runs([root], engine="local")
    path = RunPaths(root).table("polls")
    column = pq.read_metadata(path).row_group(0).column(TABLES["polls"].names.index("value"))
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert "the table polls cannot be read" in verdict.unknown_because


def test_what_is_left_of_a_record_without_streams_is_not_written_over(tmp_path: Path) -> None:
    root = FaithfulRun(5, steps=120).write(tmp_path / "t" / "old")
    judge_runs([root], engine="local")
    shutil.rmtree(root / "record" / "live")
    RunPaths(root).table("arrivals").unlink()
    before = RunPaths(root).table("sends").read_bytes()
    for reingest in (False, True):
        (verdict,) = judge_runs([root], engine="local", reingest=reingest)
        assert verdict.valid is Validity.UNKNOWN
        assert "the table arrivals cannot be read" in verdict.unknown_because
        assert RunPaths(root).table("sends").read_bytes() == before


def test_runs_of_two_stores_may_have_one_name(tmp_path: Path) -> None:
    roots = [FaithfulRun(seed).write(tmp_path / f"store-{seed}" / "t" / "run") for seed in (5, 6)]
    verdicts = judge_runs([*roots, roots[0]], engine="local")
    assert [each.valid for each in verdicts] == [Validity.VALID] * 3


def test_an_open_op_becomes_info_and_an_unanswered_part_makes_its_op_so() -> None:
    run = FaithfulRun(1, steps=0)
    run.add("op_invocations", op_id=900, process=90, f="send", phase="main", invoke_ns=1)
    run.add("op_invocations", op_id=901, process=91, f="send", phase="main", invoke_ns=1)
    run.add("op_completions", op_id=901, complete_ns=2, outcome="ok")
    run.add("send_completions", op_id=901, mop=0, offset=-1, outcome="info", acked=False)
    place = run.partitions[0].place
    for op_id in (900, 901):
        run.add("send_invocations", op_id=op_id, mop=0, **place, value=op_id, acks="all")
    tables = run.tables()
    ops = {row["op_id"]: row for row in tables["ops"].to_pylist()}
    assert (ops[900]["outcome"], ops[900]["complete_ns"]) == ("info", None)
    assert (ops[901]["outcome"], ops[901]["messages"]) == ("info", 1)
    sends = {row["op_id"]: row for row in tables["sends"].to_pylist()}
    assert (sends[900]["outcome"], sends[900]["acked"]) == ("info", False)
    assert (sends[901]["offset"], sends[901]["complete_ns"]) == (None, 2)


def test_ingest_of_nothing_gives_empty_tables() -> None:
    assert all(table.num_rows == 0 for table in completed({}).values())


def test_checkers_import_without_spark() -> None:
    program = "import sys, checkers.run, checkers.spark.local; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def figures_of(root: Path) -> dict[str, bytes]:
    return {name: (root / "statistics" / f"{name}.parquet").read_bytes() for name in STATISTICS}


@pytest.mark.spark
def test_both_engines_give_the_same_verdicts(tmp_path: Path) -> None:
    runs = [FaithfulRun(seed, steps=120) for seed in (11, 12, 14)]
    lose(runs[1])
    corrupt(runs[2])
    runs.append(TransactionalRun(4))  # Whose circles and halves go across partitions.
    roots = [run.write(tmp_path / "t" / f"run-{at}") for at, run in enumerate(runs)]
    roots.append(tmp_path / "t" / "empty")
    copied = RunPaths(roots[0]).snapshots / "step-01" / "n1" / "data"
    shutil.copytree(ZOOKEEPERS_NODE / "data", copied)
    local = judge_runs(roots, judge=Judge.STRICT, engine="local")
    figures = [figures_of(root) for root in roots]
    spark = judge_runs(roots, judge=Judge.STRICT, engine="spark", reingest=True)
    assert [replace(each, engine="local") for each in spark] == local
    assert [each.valid.value for each in local] == [
        "valid", "invalid", "invalid", "valid", "unknown"
    ]  # fmt: skip
    assert local[3].checked["G1c"]
    assert local[3].checked["torn-transaction"]
    told = pq.read_table(RunPaths(roots[0]).table("replica_records"))
    assert told["snapshot"].to_pylist().count("step-01") == 23 + 3
    assert [figures_of(root) for root in roots] == figures


@pytest.mark.spark
def test_36_sparks_ports_on_loopback_answer_its_own_session_only() -> None:
    with spark_context("local[2]") as context:
        settings = dict(context.getConf().getAll())
    assert settings.get("spark.authenticate") == "true"
    assert settings.get("spark.driver.bindAddress") == "127.0.0.1"
    assert settings.get("spark.authenticate.secret") is None  # Spark's own, which no `ps` shows.


@pytest.mark.spark
def test_spark_says_nothing_and_leaves_nothing_without_a_home(sound: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = "import sys, pathlib; from checkers.run import judge_runs;"
    program += "print(judge_runs([pathlib.Path(sys.argv[1])])[0].valid.value)"
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(sound)],
        env={**environment, "TMPDIR": str(scratch)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "valid\n", "")
    assert list(scratch.iterdir()) == []
    left = {path.name for path in tmp_path.iterdir()} - {".hypothesis"}  # pandas imports it.
    assert left == {"scratch"}
