"""A real standalone cluster: a master and two workers on loopback, whose Python lacks our code."""

import re
import shutil
import stat
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.engine import EngineError
from checkers.groups import StoredGroups
from checkers.histories.judging import Mode, judge_histories, judge_with
from checkers.histories.reading import read_histories
from checkers.run import judge_elsewhere, judge_runs, started
from checkers.spark.direct import Sight, _sight_here
from checkers.spark.engine import SparkEngine
from checkers.spark.local import LocalEngine
from checkers.spark.shipping import NEEDED, OF_FILES, archive, missing
from checkers.spark.shuffled import _split_files
from checkers.stored import load_facts
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import Validity
from results.samples import copy_sample, find_sample
from results.verdict_json import read_verdict
from tests.checkers.faithful import FaithfulRun
from tests.checkers.standalone import executors, standalone
from tests.checkers.test_handed_tables import CORPUS
from tests.checkers.test_oracle_agreement import lose

OURS = re.compile(r"(__editable__|logquake|checkers|cluster|harness|nemesis|results|workloads)")
pytestmark = [
    pytest.mark.everything,
    pytest.mark.timeout(900),
]  # A machine that is busy starts five JVMs slowly.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    master: str
    python: Path
    """What its tasks run with: the libraries, and nothing of ours."""


def libraries(folder: Path, *, without: str = "") -> Path:
    """Make a Python that has the libraries that this one has, but for our own code."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    for path in (Path(each) for each in sys.path if each.endswith("site-packages")):
        for each in path.iterdir():
            ours = OURS.match(each.name) or each.suffix == ".pth"
            if not ours and each.name.split("-")[0] not in {without, "__pycache__"}:
                (packages / each.name).symlink_to(each)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, workers=2) as master:
        yield Cluster(master=master, python=libraries(folder / "libraries"))


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One small executor, by the file that every Spark program's settings come from."""
    executors(tmp_path, count=1)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))


def a_loss(root: Path) -> Path:
    run = FaithfulRun(12, steps=120)
    lose(run)
    return run.write(root)


@pytest.mark.night
@pytest.mark.spark
@pytest.mark.parametrize("without", ["", OF_FILES[0]])
def test_a_cluster_without_our_code_gives_the_same_verdicts(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    """What reads nodes' files may lack as well: then that is done here."""
    python = libraries(tmp_path / "libraries", without=without) if without else cluster.python
    bare = subprocess.run([python, "-c", "import checkers"], cwd=tmp_path, check=False,
                          capture_output=True, env={"PATH": "/bin"})  # fmt: skip
    assert bare.returncode == 1
    executors(tmp_path, count=2)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    roots = [
        copy_sample(RunPaths(find_sample(name)), tmp_path).root for name in ("valid", "loss-acks-1")
    ]
    roots += [FaithfulRun(11).write(tmp_path / "t" / "sound"), a_loss(tmp_path / "t" / "loss")]
    local = judge_runs(roots, engine="local")
    here: list[Path] = []
    by_driver = LocalEngine.compact

    def compact(engine: LocalEngine, left: Sequence[Path]) -> None:
        here.extend(left)
        by_driver(engine, left)

    monkeypatch.setattr(LocalEngine, "compact", compact)
    spark = judge_runs(roots, engine="spark", spark_master=cluster.master, reingest=True)
    assert here == (roots[2:] if without else [])  # Samples have no streams.
    assert [replace(each, engine="local") for each in spark] == local
    assert [each.valid.value for each in local] == ["valid", "invalid", "valid", "invalid"]


@pytest.mark.night
@pytest.mark.spark
def test_the_command_judges_runs_on_any_path_that_spark_reads(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored there is judged there, and its verdict is written to where it lies."""
    monkeypatch.setenv("PYSPARK_PYTHON", str(cluster.python))
    roots = [FaithfulRun(11).write(tmp_path / "far" / "sound"), a_loss(tmp_path / "far" / "loss")]
    copies = [shutil.copytree(root, tmp_path / "near" / root.name) for root in roots]
    uri = f"file://{tmp_path}/far/*"
    done = subprocess.run(
        [Path(sys.executable).with_name("logquake"), "check", uri, "--spark-master",
         cluster.master],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    local = judge_runs(copies, engine="local")
    for root, copy, expected in zip(roots, copies, local, strict=True):
        stored = read_verdict(RunPaths(root).verdict)
        assert stored is not None
        assert replace(stored, engine="local", run_id=expected.run_id) == expected
        for name in ("sends", "polls"):
            there, here = (pq.read_table(RunPaths(each).table(name)) for each in (root, copy))
            assert there.num_rows
            assert there.drop_columns("run_id") == here.drop_columns("run_id")


@pytest.mark.spark
@pytest.mark.night
def test_a_run_elsewhere_is_judged_a_second_time(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(cluster.python))
    root = FaithfulRun(11).write(tmp_path / "far" / "sound")
    for _ in range(2):
        (judged,) = judge_elsewhere([root.as_uri()], spark_master=cluster.master)
        assert (judged[0].valid, judged[1]) == (Validity.VALID, "")


@pytest.mark.spark
@pytest.mark.night
def test_what_a_cluster_lacks_is_one_sentence(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = FaithfulRun(11).write(tmp_path / "t" / "sound")
    monkeypatch.setenv("PYSPARK_PYTHON", str(libraries(tmp_path / "bare", without="pydantic")))
    with pytest.raises(EngineError, match=r"^the cluster .* lacks pydantic; its machines need"):
        judge_runs([root], engine="spark", spark_master=cluster.master)
    monkeypatch.setenv("PYSPARK_PYTHON", "python2.9")
    with pytest.raises(EngineError, match=r"its machines have no python2\.9"):
        judge_runs([root], engine="spark", spark_master=cluster.master)


@pytest.mark.spark
@pytest.mark.night
def test_a_place_that_cannot_be_written_keeps_no_verdict_from_being_told(tmp_path: Path) -> None:
    root = FaithfulRun(11).write(tmp_path / "t" / "sound")
    judge_runs([root], engine="local")
    archive_of = shutil.make_archive(str(tmp_path / "runs"), "zip", tmp_path, "t")
    with pytest.raises(EngineError, match=r"there is no run at file:///nowhere"):
        judge_elsewhere(["file:///nowhere/at-all"])
    assert Path(archive_of).exists()
    (root / "verdict.json").mkdir()  # Nothing can be written there, not even by root.
    (root / "verdict.json" / "x").touch()
    ((verdict, why),) = judge_elsewhere([root.as_uri()])
    assert verdict.valid is Validity.VALID
    assert why.startswith("cannot write to file:")
    assert why.endswith("/t/sound: verdict.json is a folder there")
    assert stat.S_ISDIR((root / "verdict.json").stat().st_mode)


def test_a_remote_session_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"sc://x is a Spark Connect server, which cannot"):
        judge_runs([tmp_path], engine="spark", spark_master="sc://x")


def test_the_archive_holds_all_that_tasks_import(tmp_path: Path) -> None:
    """They import it with nothing of ours beside it, and no library that is not asked for."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import checkers;"
        "import checkers.spark.shuffled, checkers.spark.direct;"
        "assert sys.argv[1] in checkers.__file__;"
        "print(*{name.split('.')[0] for name, module in sys.modules.items()"
        " if 'site-packages' in (getattr(module, '__file__', None) or '')})"
    )
    python = libraries(tmp_path / "libraries")
    done = subprocess.run([python, "-c", program, archive(tmp_path)], cwd=tmp_path, text=True,
                          capture_output=True, check=True)  # fmt: skip
    direct = {"pyarrow", "numpy", "pandas", "pydantic", "scipy", "tomli_w", "networkx", "orjson"}
    assert direct & set(done.stdout.split()) <= set(NEEDED)
    later = {"pandas", "scipy"}  # By Spark, and where circles are looked for.
    assert set(NEEDED) - later <= set(done.stdout.split())
    assert list(missing(())) == []


def test_a_machine_that_does_not_see_every_run_is_blind(tmp_path: Path) -> None:
    root = FaithfulRun(11).write(tmp_path / "t" / "run")
    plan = (root / "plan.toml").read_bytes()
    assert _sight_here({root: plan}) is Sight.WRITES
    assert _sight_here({root: plan, tmp_path / "t" / "nowhere": plan}) is Sight.BLIND
    assert _sight_here({root: b"# Another run at the same path.\n"}) is Sight.BLIND


@pytest.mark.spark
@pytest.mark.night
def test_a_cluster_judges_histories_that_only_the_driver_sees(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(cluster.python))
    some = [each for at, each in enumerate(read_histories(CORPUS)) if at % 200 == 0]
    with started("spark", cluster.master) as engine:
        judged = judge_with(engine, some, Mode())
    assert [replace(each, engine="local") for each in judged] == judge_histories(some, Mode())


@pytest.mark.spark
@pytest.mark.night
@pytest.mark.parametrize("asked", [True, False])
def test_a_cluster_that_does_not_see_a_folder_is_one_sentence(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    """Nor does a machine judge what it was not asked about, because it came later."""
    if not asked:
        monkeypatch.setattr(SparkEngine, "_sight", lambda *_: Sight.WRITES)
    monkeypatch.setenv("PYSPARK_PYTHON", str(cluster.python))
    root = FaithfulRun(11).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    monkeypatch.setattr(RunPaths, "plan", property(lambda _: Path("/etc/hostname")))  # Here only.
    with pytest.raises(EngineError, match=r"^the machines of the cluster cannot read the run"):
        judge_runs([root], engine="spark", spark_master=cluster.master)


def test_a_cluster_is_brought_every_group_that_this_machine_judges(tmp_path: Path) -> None:
    """The quorum's log included."""
    root = FaithfulRun(11).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    facts = load_facts(root)
    paths = {str(RunPaths(root).table(name)): (facts.recorded_id, name) for name in TABLES}
    contents = [Path(path).read_bytes() for path in paths]
    files = pa.RecordBatch.from_pydict({"path": list(paths), "content": contents})
    parts = pa.Table.from_batches(list(_split_files({facts.recorded_id: facts}, paths, [files])))
    places = [parts[name].to_pylist() for name in ("topic", "topic_id", "partition")]
    assert set(zip(*places, strict=True)) == set(StoredGroups(root, facts).rows())
    assert "__cluster_metadata" in places[0]
