import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.shrink import main, shrink_run
from results.page.replicas import replica_window
from results.page.story import drawings_of, story_page
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import Rule
from results.report import render_report
from results.samples import copy_sample, find_sample, sample_paths
from results.store import Store
from results.tables import RunTables, read_table
from results.verdict_json import read_verdict
from tests.results.stories import run_folder, write_story

MakeRun = Callable[..., RunPaths]
MEGABYTE = 1_000_000


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_shrunken_run_keeps_every_row_and_none_of_the_machine(
    make_run: MakeRun, tmp_path: Path
) -> None:
    paths = make_run()
    (paths.live / "polled.worker-0.arrows").write_bytes(b"x" * MEGABYTE)
    data = paths.node("n1") / "data"
    data.mkdir()
    (data / "00000000000000000000.log").write_bytes(b"x")
    (data / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n", encoding="utf-8")
    server = paths.node("n1") / "server.properties"
    server.write_text(f"log.dirs={paths.root}/nodes/n1/data\n", encoding="utf-8")
    paths.ledger.write_text(f'{{"path": "{paths.root}/x"}}\n', encoding="utf-8")

    sample = shrink_run(paths, tmp_path / "samples" / "loss")

    kept = files_of(sample.root)
    assert not [name for name in kept if name.endswith((".arrows", "00000000000000000000.log"))]
    assert "nodes/n1/data/leader-epoch-checkpoint" in kept
    assert kept["nodes/n1/server.properties"] == b"log.dirs=RUN/nodes/n1/data\n"
    assert not [name for name, content in kept.items() if str(tmp_path).encode() in content]
    assert "java" not in json.loads(kept["environment.json"])
    assert sum(map(len, kept.values())) < 1.5 * MEGABYTE
    for name in TABLES:
        before, after = (read_table(each, name).drop(["run_id"]) for each in (paths, sample))
        rows = [sorted(map(repr, table.to_pylist())) for table in (before, after)]
        assert rows[0] == rows[1]
    assert set(read_table(sample, "sends")["run_id"].to_pylist()) == {"samples/loss"}
    verdict = read_verdict(sample.verdict)
    assert verdict is not None
    assert verdict.run_id == "samples/loss"
    assert replica_window(RunTables(sample), verdict.anomalies["lost-write"].examples[0])


def test_a_shrunken_story_is_told_as_before(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH)
    segment = paths.snapshots / "step-01" / "n1" / "data" / "peter-test01-0" / "0.log"
    segment.write_bytes(b"x" * MEGABYTE)
    sample = shrink_run(paths, tmp_path / "samples" / "story")
    assert not [name for name in files_of(sample.root) if name.endswith(".log")]
    told = [story_page(each, page=each.report) for each in (paths, sample)]
    assert told[0] is not None
    assert told[1] is not None
    assert told[0].steps == told[1].steps
    assert told[0].fates == told[1].fates


def test_shrinking_is_a_command_with_clear_refusals(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = make_run(judged=False)
    store = ["--store", str(paths.root.parent.parent), "--samples", str(tmp_path / "samples")]
    assert main([paths.root.name, "loss", *store]) == 254
    assert "has no verdict; judge it: logquake check" in capsys.readouterr().err
    make_run()
    assert main([paths.root.name, "loss", *store]) == 0
    assert "files" in capsys.readouterr().out
    assert main([paths.root.name, "loss", *store]) == 254
    assert "is there already" in capsys.readouterr().err


def test_a_sample_is_copied_with_its_id_to_where_it_may_be_written(
    make_run: MakeRun, tmp_path: Path
) -> None:
    sample = shrink_run(make_run(), tmp_path / "package" / "samples" / "loss")
    sample.root.chmod(0o555)
    copy = copy_sample(sample, tmp_path / "work")
    assert copy.run_id == sample.run_id == "samples/loss"
    assert files_of(copy.root) == files_of(sample.root)
    (copy.root / "verdict.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match="already exists"):
        copy_sample(sample, tmp_path / "work")
    sample.root.chmod(0o755)


def test_an_unknown_sample_names_those_that_there_are() -> None:
    with pytest.raises(StoreError, match="there is no sample 'sample:nope'; use one of"):
        Store(Path("runs")).find("sample:nope")


@pytest.mark.parametrize("folder", sample_paths(), ids=lambda path: path.name)
def test_each_sample_of_the_package_can_be_shown(folder: Path) -> None:
    assert find_sample(f"sample:{folder.name}") == folder
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < 1.5 * MEGABYTE
    verdict = read_verdict(RunPaths(folder).verdict)
    assert verdict is not None
    page = render_report(RunPaths(folder))
    assert f"sample:{folder.name}" in page
    if folder.name.startswith("loss"):
        assert verdict.anomalies["lost-write"].count > 0
        assert "clients were told" in page


STORIES = [path for path in sample_paths() if path.name.startswith("leader-epoch")]


def test_each_story_is_there_by_either_rule() -> None:
    assert [path.name for path in STORIES] == [
        f"leader-epoch-{number}-{rule}"
        for number in (1, 2)
        for rule in ("high-watermark", "leader-epoch")
    ]


@pytest.mark.parametrize("folder", STORIES, ids=lambda path: path.name)
def test_each_story_of_the_package_is_told_beside_the_other(folder: Path) -> None:
    paths = RunPaths(folder)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 300_000
    page = story_page(paths, page=Path("page.html"))
    assert page is not None
    assert page.story.as_expected
    assert page.parting is not None
    assert page.parting.number == (3 if "-1-" in folder.name else 7)
    assert [column.mine for column in page.columns] == [
        folder.name.endswith("high-watermark"),
        folder.name.endswith("leader-epoch"),
    ]
    lost = {row.name for row in page.fates if row.cells[0][1]}
    assert lost == {"message2"}
    assert page.lost_by_all == (() if "-1-" in folder.name else ("message2",))
    assert all(view.files for pair in page.steps for view in pair if view)
    assert not page.troubles


def test_the_pictures_of_the_docs_are_those_of_the_stories() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    text = (docs / "leader-epochs.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\((leader-epochs/[^)]*\.svg)\)", text))
    drawn = {
        f"leader-epochs/{name}.svg" for path in STORIES for name in drawings_of(RunPaths(path))
    }
    assert shown
    assert shown <= drawn
    assert {f"leader-epochs/{path.name}" for path in (docs / "leader-epochs").iterdir()} == drawn
