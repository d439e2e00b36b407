"""The series on broken Kafka builds: patches apply, the series resumes, classes are compiled."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.broken_kafka.__main__ import main
from benchmarks.broken_kafka.compiling import (
    DoesNotCompileError,
    compiled,
    is_cached,
    source_of,
    sources_of,
)
from benchmarks.broken_kafka.patches import AREAS, Patch, load_patches
from benchmarks.broken_kafka.series import UNPATCHED, Line, last_lines, steps_of, table
from benchmarks.night_results import append
from tests.machine import require

PATCHES = load_patches()
LOST = "Invalid: 2 acknowledged messages | were lost."


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    require("java")
    return compiled(
        {"p/Base.java": "package p; public class Base {}"}, tmp_path / "jar", [tmp_path]
    )


def test_there_are_patches_of_every_area() -> None:
    assert len(PATCHES) >= 24
    assert {each.area for each in PATCHES} == set(AREAS)
    assert len({each.digest for each in PATCHES}) == len(PATCHES)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda each: each.name)
def test_a_patch_is_well_formed(patch: Patch) -> None:
    assert patch.find != patch.put
    assert patch.breaks.endswith(".")
    assert "|" not in patch.breaks
    if is_cached(sources_of(patch.artifact)):  # A test of a text needs no network.
        text = source_of(patch.artifact, patch.source)
        assert text != patch.applied()


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.broken_kafka.patches.source_of", lambda *_: "twice twice")
    patch = PATCHES[0].model_copy(update={"find": "twice", "put": "once"})
    with pytest.raises(ValueError, match="2 times in"):
        patch.applied()


def test_classes_are_compiled_and_a_compilers_words_are_told(jar: Path, tmp_path: Path) -> None:
    source = "package q; class Child extends p.Base {}"
    made = compiled({"q/Child.java": source}, tmp_path / "classes", [jar])
    assert [each.name for each in made.rglob("*.class")] == ["Child.class"]
    with pytest.raises(DoesNotCompileError, match="Missing"):
        compiled({"q/Child.java": source.replace("Base", "Missing")}, made, [jar])


def line(patch: Patch | None, seed: int, **given: object) -> Line:
    values: dict[str, object] = {
        "name": patch.name if patch else UNPATCHED, "seed": seed, "plan": "log",
        "digest": patch.digest if patch else "", "command": "logquake run", "run": "",
        "begun_at": "20261126T225452Z", "took_s": 80, "load": (1, 2), "commit": "a", "judge": "a",
        "judging": "j", "verdict": "invalid", "anomalies": ("lost-write",), "sentence": LOST,
    }  # fmt: skip
    return Line.model_validate(values | given)


def rows_of(lines: Sequence[Line], results: Path) -> list[str]:
    for each in lines:
        append(results, each)
    return table(PATCHES[:1], last_lines(results), (1, 2, 3)).splitlines()[2:]


def test_the_table_counts_what_was_played(tmp_path: Path) -> None:
    patch, results = PATCHES[0], tmp_path / "results.jsonl"
    unknown = {"verdict": "unknown", "anomalies": (), "sentence": "Unknown: too little."}
    of_patch, as_it_is = rows_of([line(patch, 1, **unknown)], results)
    assert "| 0 of 1 (1 unknown, 2 not yet played) | | (unknown: Unknown: too little.) |" in (
        of_patch.replace("  ", " ")
    )
    assert "| 0 of 0 (10 not yet played) |" in as_it_is
    of_patch, as_it_is = rows_of([line(patch, 2), line(None, 4)], results)
    assert (
        "| 1 of 2 (1 unknown, 1 not yet played) | `lost-write` | Invalid: 2 acknowledged messages /"
        in (of_patch)
    )
    assert "| 1 of 1 (9 not yet played) | seed 4: invalid |" in as_it_is
    other = line(patch, 3, digest="of another edit")
    assert rows_of([other], results)[0] == of_patch


def test_a_run_is_done_if_it_has_a_line_of_its_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, patch = tmp_path / "results.jsonl", PATCHES[0]
    words = ["--list", "--results", str(results), "--page", str(tmp_path / "page.md")]
    only = ["--only", patch.name]
    assert main([*words, *only]) == 1
    assert capsys.readouterr().out.count("not played") == 3
    append(results, line(patch, 2))
    assert main([*words, *only]) == 0
    assert f"{patch.name}/2: invalid (lost-write)" in capsys.readouterr().out
    assert main([*words, "--only", f"{patch.name}/1"]) == int(not patch.unfound)
    append(results, line(None, 1))
    assert main([*words, "--only", f"{UNPATCHED}/1"]) == 1, "a false alarm"


def test_seeds_go_before_patches() -> None:
    names = [(step.name, step.seed) for step in steps_of(PATCHES[:2], (1, 2))]
    first, second = (each.name for each in PATCHES[:2])
    assert names[:4] == [(first, 1), (second, 1), (first, 2), (second, 2)]
    assert len(names) == 14


@pytest.mark.night
@pytest.mark.kafka
def test_a_broken_kafka_is_found(tmp_path: Path) -> None:
    where = ["--store", str(tmp_path / "runs"), "--results", str(tmp_path / "results.jsonl")]
    only = ["--only", "readers-see-the-end/1", "--page", str(tmp_path / "page.md")]
    assert main([*where, *only]) == 0
