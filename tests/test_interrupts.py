"""The series of interrupted runs: answers, repeated sentences, and repeated steps."""

from pathlib import Path

import pytest

from benchmarks import interrupts
from benchmarks.interrupts import ANSWERED, MOMENTS, Line, doubled, main, table
from benchmarks.night_results import append


def line(code: str, *, wrong: tuple[str, ...] = ()) -> Line:
    return Line(
        part="reference", step="fault", command="logquake run", signal="SIGINT", after="said:x",
        begun_at="20261125T070000Z", commit="0123456789", code=code, load=1.0, answered_s=0.01,
        ended_s=9.0, exit_code=2, sentence="Interrupted at 3 s. Valid | kept.", wrong=wrong,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "is_answer"),
    [
        (b"x\n  interrupted: no more faults", True),
        (b"leads n1   ^C  interrupted: no more", True),
        (b"\x1b[1A\x1b[2K  interrupted: no more", True),
        (b"logquake: interrupted", True),
        (b"the run that was interrupted", False),
        (b"uninterrupted", False),
    ],
)
def test_an_answer_begins_a_line_of_the_terminal(said: bytes, *, is_answer: bool) -> None:
    assert (ANSWERED.search(said) is not None) is is_answer


def test_a_reason_that_is_said_again_as_a_part_of_another_one_is_doubled() -> None:
    before = ["a sentence.", "a sentence.", "Interrupted at 3 s. Unknown: the run failed."]
    assert doubled([*before, "one thing.", "another thing"]) == []
    assert doubled([*before, "No fault was confirmed.", "unseen: no fault was confirmed"]) == [
        "no fault was confirmed"
    ]


def test_moments_have_names_of_their_own() -> None:
    names = [(each.part, each.name) for each in MOMENTS]
    assert len(set(names)) == len(names)
    assert sum(part == "reference" for part, _ in names) >= 20


def test_the_last_line_of_a_step_is_in_the_table_with_what_was_wrong() -> None:
    shown = table([line("old", wrong=("no answer",)), line("new")])
    assert "no answer" not in shown
    row = shown.splitlines()[-1]
    assert row.startswith("| reference | fault | SIGINT | 0.01 s | 9.0 s | 2 | Interrupted at 3 s.")
    assert row.count("|") == shown.splitlines()[0].count("|"), "a bar in a sentence is no cell"
    assert row.endswith("| nothing | 0123456 |")


def test_a_step_is_done_only_by_the_code_of_today_and_without_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(interrupts, "hashed", lambda _folders: "new")
    results = tmp_path / "results.jsonl"
    words = ["--only", "reference/fault", "--list", "--results", str(results)]
    for written, status, how in (
        (line("old"), 1, "open"),
        (line("new", wrong=("no answer",)), 1, "no answer"),
        (line("new"), 0, "passed"),
    ):
        append(results, written)
        assert main(words) == status
        assert f"reference/fault: {how}\n" in capsys.readouterr().out
