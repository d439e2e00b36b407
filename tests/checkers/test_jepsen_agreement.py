"""317 histories, in both modes of Jepsen's checker: the same verdicts, and the same kinds."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkers.histories.judging import Mode, judge_histories
from checkers.histories.reading import read_histories
from checkers.jepsen.levels import LEVELS, with_levels
from results.record.terms import Validity

FOLDER = Path(__file__).parents[1] / "histories"
CORPUS = FOLDER / "histories.jsonl.gz"
DOCS = Path(__file__).parents[2] / "docs" / "checkers.md"
VERDICTS: dict[str, Any] = json.loads((FOLDER / "verdicts.json").read_text())
NOTES: dict[str, Any] = json.loads((FOLDER / "notes.json").read_text())
pytestmark = [
    pytest.mark.night,
    pytest.mark.timeout(900),
]  # Half a minute alone; the machine may be busy.
MODES = {"ww": [], "no_ww": ["--no-ww-deps"]}

ALWAYS = {"int-send-skip", "G0", "G0-process", "G0-realtime", "PL-1-cycle-exists",
          "strong-PL-1-cycle-exists"}  # fmt: skip
IN_WW = {"G1c", "G1c-process", "G1c-realtime", "PL-2-cycle-exists", "strong-PL-2-cycle-exists"}
NOT_COMPARED = {*LEVELS, *LEVELS.values(), "precommitted-read"}
"""Kinds whose counts mean something else: see docs/checkers.md."""
Counts = dict[str, int]


@dataclass(frozen=True)
class Told:
    """What a checker said of a history."""

    valid: bool | str
    counts: Counts


def jepsens(name: str, mode: str) -> Told:
    """Jepsen's verdict without what the corpus calls an oddity of it."""
    counts: Counts = dict(VERDICTS[name][mode]["errors"])
    notes = NOTES.get(name, {})
    counts.pop("empty-transaction-graph", None) if notes.get("empty_graph") else None
    if "unseen" in counts:
        counts["unseen"] -= notes.get("unseen_oddity", 0)
    counts = {kind: count for kind, count in counts.items() if count}
    allowed = ALWAYS | (IN_WW if mode == "ww" else set())
    return Told(valid=set(counts) <= allowed, counts=counts)


def by_command(mode: str) -> dict[str, Told]:
    """What the command line prints of the whole corpus."""
    program = "from harness.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "check", "--history", str(CORPUS), "--json", *MODES[mode]],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: Told(valid=line["valid"], counts=line["anomalies"]) for line in lines}


def with_picks(mode: str) -> dict[str, Told]:
    """Verdicts on the histories in which Jepsen picked one of several values at an offset."""
    picks = {
        name: {
            ("key", pick["key"]): {
                each["offset"]: each["picked"]
                for each in note["picked"]
                if each["key"] == pick["key"]
            }
            for pick in note["picked"]
        }
        for name, note in NOTES.items()
        if "picked" in note
    }
    histories = [each for each in read_histories(CORPUS) if each.name in picks]
    verdicts = judge_histories(histories, Mode(ww_deps=mode == "ww"), picks=picks)
    return {
        each.run_id: Told(
            valid=each.valid is Validity.VALID,
            counts=with_levels({kind: found.count for kind, found in each.anomalies.items()}),
        )
        for each in verdicts
    }


@pytest.fixture(scope="module")
def printed() -> dict[tuple[str, str], Told]:
    """What the command line says, which knows nothing of Jepsen's picks."""
    with ThreadPoolExecutor(len(MODES)) as both:
        told = dict(zip(MODES, both.map(by_command, MODES), strict=True))
    return {(name, mode): each for mode in MODES for name, each in told[mode].items()}


@pytest.fixture(scope="module")
def ours(printed: dict[tuple[str, str], Told]) -> dict[tuple[str, str], Told]:
    picked = {(name, mode): told for mode in MODES for name, told in with_picks(mode).items()}
    return printed | picked


def documented() -> dict[tuple[str, str], tuple[set[str], set[str]]]:
    """The table of differences: what Jepsen says and we do not, and the other way round."""
    text = DOCS.read_text()
    table = text[text.index("<!-- differences -->") : text.index("<!-- end of differences -->")]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    words = [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows]
    assert all(len(row) == 5 and row[4].strip() for row in rows)
    return {(row[0][0], row[1][0]): (set(row[2]), set(row[3])) for row in words}


def test_the_corpus_is_whole(ours: dict[tuple[str, str], Told]) -> None:
    assert len(VERDICTS) == 317
    assert set(ours) == {(name, mode) for name in VERDICTS for mode in MODES}


def test_only_oddities_are_taken_from_jepsens_verdicts() -> None:
    told = {
        (name, mode): said["valid"] for name in VERDICTS for mode, said in VERDICTS[name].items()
    }
    changed = {(name, mode) for (name, mode), valid in told.items()
               if valid is not jepsens(name, mode).valid}  # fmt: skip
    assert changed == {(name, mode) for name in ("r164", "r179") for mode in MODES}
    assert (NOTES["r164"], NOTES["r179"]) == ({"unseen_oddity": 1}, {"empty_graph": True})


def test_without_jepsens_picks_one_history_has_other_kinds(
    printed: dict[tuple[str, str], Told], ours: dict[tuple[str, str], Told]
) -> None:
    other = {key for key, told in printed.items() if set(told.counts) != set(ours[key].counts)}
    assert other == {("r543", mode) for mode in MODES}
    assert all(printed[key].valid == told.valid for key, told in ours.items())


def test_the_same_histories_are_valid(ours: dict[tuple[str, str], Told]) -> None:
    said = {(name, mode): jepsens(name, mode).valid for name, mode in ours}
    nothing_in_it = {(name, mode) for (name, mode), told in ours.items() if told.valid == "unknown"}
    assert nothing_in_it == {("r179", mode) for mode in MODES}
    assert {key for key, told in ours.items() if told.valid != said[key]} == nothing_in_it


def test_the_same_kinds_are_found_but_for_the_differences_in_the_docs(
    ours: dict[tuple[str, str], Told],
) -> None:
    differences = {}
    for (name, mode), told in ours.items():
        theirs = set(jepsens(name, mode).counts)
        if theirs != set(told.counts):
            differences[name, mode] = (theirs - set(told.counts), set(told.counts) - theirs)
    assert differences == documented()


def test_as_many_are_found_of_the_kinds_whose_numbers_mean_the_same(
    ours: dict[tuple[str, str], Told],
) -> None:
    def compared(counts: Counts) -> Counts:
        return {kind: count for kind, count in counts.items() if kind not in NOT_COMPARED}

    differences = [
        (name, mode) for (name, mode), told in ours.items()
        if compared(told.counts) != compared(jepsens(name, mode).counts)
    ]  # fmt: skip
    assert differences == []
