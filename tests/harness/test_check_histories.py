"""`logquake check --history`: verdicts in lines or for people, exit codes, sentences."""

import json
from pathlib import Path

import pytest

from harness.cli import exit_code
from results.wording.evidence import EVIDENCE

SKIPS = [[[0, 1]], [[2, 3]]]


def history(folder: Path, name: str, *reads: list[list[int]], f: str = "assign") -> Path:
    """A reader that got some records, one poll after the other; each of them was sent."""
    entries: list[dict[str, object]] = []

    def add(process: int, f: str, asked: object, told: object) -> None:
        for kind, value in (("invoke", asked), ("ok", told)):
            entries.append({"process": process, "type": kind, "f": f, "value": value})

    for offset in range(3):
        add(0, "send", [["send", 0, offset + 1]], [["send", 0, [offset, offset + 1]]])
    add(1, f, [0], [0])
    for records in reads:
        add(1, "poll", [["poll"]], [["poll", {"0": records}]])
    add(2, "assign", [0], [0])
    add(2, "poll", [["poll"]], [["poll", {"0": [[0, 1], [1, 2], [2, 3]]}]])
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in entries))
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return history(tmp_path, "good", [[0, 1]], [[1, 2]])


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return history(tmp_path, "bad", *SKIPS)


def check(*words: object) -> int:
    return exit_code(["check", *map(str, words)])


def test_a_line_for_each_history_and_the_worst_of_them_as_exit_code(
    good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("--history", good, "--history", bad, "--json") == 1
    told = capsys.readouterr()
    assert [json.loads(line) for line in told.out.splitlines()] == [
        {"name": "good", "valid": True, "anomalies": {}},
        {"name": "bad", "valid": False, "anomalies": {"poll-skip": 1}},
    ]
    assert told.err == ""
    assert check("--history", good, "--json") == 0


def test_people_are_told_what_is_wrong_and_where(
    good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("--history", good, "--history", bad) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["good: valid", "bad: invalid", "  poll-skip: 1 (not allowed)"]
    assert "process 1 read value 1 of key-0" in lines[3]
    assert lines[-1] == "2 histories: 1 valid, 1 invalid; judge jepsen, engine local"


def test_a_page_of_histories_shows_each_verdict_with_its_evidence(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = history(tmp_path, "<script>alert(1)<s>", *SKIPS)
    page = tmp_path / "pages" / "both.html"
    assert check("--history", good, "--history", hostile, "--page", page) == 1
    assert capsys.readouterr().out.endswith(f"page: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert '<section class="verdict valid">' in text
    assert "good: Valid: every promise was kept." in text
    assert '<section class="verdict invalid">' in text
    assert "&lt;script&gt;alert(1)&lt;s&gt;: Invalid:" in text
    assert "Process 1 read value 1 of key-0" in text
    assert '<span class="badge bad">1 not allowed</span>' in text
    assert f'<th scope="row"><abbr title="{EVIDENCE["value"]}">value</abbr></th>' in text
    assert "<script>" not in text

    assert check("--history", good, "--json", "--page", page) == 0
    told = capsys.readouterr()
    assert (len(told.out.splitlines()), told.err) == (1, f"page: {page}\n")
    assert check("--history", good, "--page", tmp_path / "good.jsonl" / "x.html") == 254
    assert capsys.readouterr().err.count("\n") == 1


def test_a_page_is_written_of_histories_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("sample:valid", "--page", "x.html") == 254
    assert "--page works only with histories" in capsys.readouterr().err


def test_consumers_that_subscribe_may_skip(bad: Path, tmp_path: Path) -> None:
    assert check("--history", bad, "--subscribe") == 0
    assert check("--history", bad, "--assign") == 1
    subscribed = history(tmp_path, "subscribed", *SKIPS, f="subscribe")
    assert check("--history", subscribed) == 0
    assert check("--history", subscribed, "--assign") == 1


def test_without_write_dependencies_a_circle_of_reads_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def entry(process: int, kind: str, *value: object) -> str:
        return json.dumps({"process": process, "type": kind, "f": "txn", "value": value}) + "\n"

    path = tmp_path / "circle.jsonl"
    path.write_text(
        entry(0, "invoke", ["send", 0, 1], ["poll"])
        + entry(1, "invoke", ["send", 1, 1], ["poll"])
        + entry(0, "ok", ["send", 0, [0, 1]], ["poll", {"1": [[0, 1]]}])
        + entry(1, "ok", ["send", 1, [0, 1]], ["poll", {"0": [[0, 1]]}])
    )
    assert check("--history", path, "--json") == 0
    line = json.loads(capsys.readouterr().out)
    assert line == {"name": "circle", "valid": True,
                    "anomalies": {"G1c": 1, "PL-2-cycle-exists": 1}}  # fmt: skip
    assert check("--history", path, "--ww-deps") == 0
    assert check("--history", path, "--no-ww-deps") == 1


def test_other_judges_say_what_they_cannot_know(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("--history", good, "--judge", "contract") == 2
    assert "no final reads and no replicas' logs" in capsys.readouterr().out
    assert check("--history", good, "--judge", "strict", "--json") == 2
    assert json.loads(capsys.readouterr().out) == {
        "name": "good", "valid": "unknown", "anomalies": {},
    }  # fmt: skip


def test_a_history_of_nothing_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nothing.jsonl"
    path.write_text('{"name": "nothing", "ops": []}\n')
    assert check("--history", path, "--json") == 2
    assert json.loads(capsys.readouterr().out) == {
        "name": "nothing", "valid": "unknown", "anomalies": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["latest", "--subscribe"],
            "--assign works only with histories: name a history with --history FILE",
        ),
        (["latest", "--no-ww-deps"], "--ww-deps works only with histories"),
        ([], "name a RUN, or a history with --history FILE"),
        (["latest", "--history", "x"], "judge runs and histories with separate commands"),
        (["--history", "none.edn"], "the file none.edn does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*words) == 254
    told = capsys.readouterr().err
    assert why in told
    assert len(told.splitlines()) == 1


def test_a_malformed_history_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.edn"
    path.write_text("{:process 0 :type :invoke :f :poll}\n{:process 0 :type :done}\n")
    assert check("--history", path) == 254
    told = capsys.readouterr().err.splitlines()
    assert told == [
        (f"logquake: {path}, line 2: the type of an op must be invoke, ok, fail or info")
    ]


@pytest.mark.night
@pytest.mark.spark
def test_spark_gives_the_same_verdicts(
    good: Path, bad: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--history", good, "--history", bad, "--json")
    assert check(*words) == 1
    local = capfd.readouterr().out
    assert check(*words, "--engine", "spark") == 1
    assert capfd.readouterr().out == local
