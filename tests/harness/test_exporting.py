"""`logquake export`, `import` and `timeline`, as they are typed."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import exit_code
from harness.heal import heal_store
from results.samples import find_sample

SAMPLE = "sample:leader-epoch-1-high-watermark"
RUN = "samples/leader-epoch-1-high-watermark"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def numbers_of(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return an anomaly's numbers, and the places of its examples, by its name."""
    return {
        name: (each["count"], each["allowed"], each["trusted"], each["class"],
               [(at["topic"], at["partition"], at["offset"]) for at in each["examples"]])
        for name, each in verdict["anomalies"].items()
    }  # fmt: skip


def test_a_run_goes_by_a_bundle_to_another_store_and_is_judged_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(["export", SAMPLE, "--as", "bundle", "-o", "out/some.tar.gz"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("out/some.tar.gz (")
    assert " files, " in said.err
    assert " to pack" in said.err

    assert exit_code(["import", "out/some.tar.gz", "--store", "other"]) == 0
    said = capsys.readouterr()
    assert said.out == f"other/{RUN}\n"
    page = Path("other", RUN, "report.html")
    assert f"page: {page}\n" in said.err
    assert "Invalid: 1 acknowledged write was lost." in page.read_text(encoding="utf-8")
    assert f"logquake check other/{RUN}" in said.err

    assert exit_code(["check", "--engine", "local", f"other/{RUN}", "--json"]) == 1
    (judged,) = json.loads(capsys.readouterr().out)
    stored = json.loads((find_sample(SAMPLE) / "verdict.json").read_text(encoding="utf-8"))
    assert numbers_of(judged) == numbers_of(stored), "its texts may be newer"
    # Nothing of it was ever on this machine.
    assert heal_store(Path("other")).done == ()

    assert exit_code(["import", "out/some.tar.gz", "--store", "other"]) == 254
    assert "already" in capsys.readouterr().err


def test_a_bundle_with_a_damaged_table_is_taken_in_and_says_that_it_has_no_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = Path("runs", RUN)
    shutil.copytree(find_sample(SAMPLE), copy, copy_function=shutil.copyfile)
    file = copy / "record" / "replica_records.parquet"
    rows = pq.read_table(file)
    nodes = pa.nulls(rows.num_rows, pa.string())
    pq.write_table(rows.set_column(rows.schema.get_field_index("node"), "node", nodes), file)
    assert exit_code(["export", RUN, "--as", "bundle", "-o", "some.tar.gz"]) == 0
    capsys.readouterr()
    assert exit_code(["import", "some.tar.gz", "--store", "other"]) == 0
    said = capsys.readouterr()
    assert said.out == f"other/{RUN}\n"
    assert "the page of the run cannot be written: unsupported operand" in said.err
    assert not any(line.startswith("page:") for line in said.err.splitlines())


@pytest.mark.parametrize(
    ("form", "end"),
    [
        ("bundle", ".logquake.tar.gz"),
        ("perfetto", ".perfetto.json.gz"),
        ("csv", "-csv/ops.csv"),
        ("jepsen", ".edn"),
    ],
)
def test_a_form_has_a_name_of_its_own(
    form: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{RUN.replace('/', '-')}{end}"
    assert exit_code(["export", SAMPLE, "--as", form]) == 0
    assert Path(name).is_file()
    assert name in capsys.readouterr().out


def test_a_file_has_the_name_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["export", SAMPLE, "--as", "jepsen", "-o", "h.jsonl"]) == 0
    assert json.loads(Path("h.jsonl").read_text(encoding="utf-8").splitlines()[0])["index"] == 0
    capsys.readouterr()
    assert exit_code(["check", "--history", "h.jsonl", "--json"]) == 1
    assert "lost-write" in capsys.readouterr().out


def test_the_time_line_lies_beside_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["timeline", SAMPLE, "-o", "whole.html"]) == 0
    assert capsys.readouterr().out.startswith("whole.html (")
    assert "the run's report" not in Path("whole.html").read_text(encoding="utf-8")
    assert exit_code(["export", SAMPLE, "--as", "bundle", "-o", "some.tar.gz"]) == 0
    assert exit_code(["import", "some.tar.gz"]) == 0
    capsys.readouterr()
    assert exit_code(["timeline", RUN]) == 0
    assert capsys.readouterr().out.startswith(f"runs/{RUN}/timeline.html (")
    page = Path("runs", RUN, "timeline.html").read_text(encoding="utf-8")
    assert 'href="./report.html"' in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", SAMPLE], "--as: bundle, perfetto, csv, jepsen"),
        (["export", SAMPLE, "--as", "svg"], "svg"),
        (["export", SAMPLE, "--as", "csv", "--with-nodes"], "--with-nodes needs --as bundle"),
        (["export", "nothing", "--as", "csv"], "there is no run"),
        (["import", "nothing.tar.gz"], "there is no file"),
        (["import", "plain.tar"], "not a bundle"),
        (["import", "h.edn.gz"], "judge it with logquake check --history h.edn.gz"),
        (["timeline", "nothing"], "there is no run"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open("plain.tar", "w"):
        pass
    assert exit_code(arguments) == 254
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
