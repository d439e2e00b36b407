import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from results.print_table import print_table
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.samples import find_sample
from results.show import list_runs, print_verdict, show_run
from results.store import Store
from results.verdict_json import read_verdict, write_verdict
from results.wording.glossary import GLOSSARY
from tests.results.hostile import FORBIDDEN, TOPIC, hostile
from tests.results.planted import anomaly, plant

MakeRun = Callable[..., RunPaths]
ESCAPE = "\x1b"


def narrow() -> Console:
    return Console(width=80, file=io.StringIO(), force_terminal=False)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def judged(paths: RunPaths) -> Verdict:
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    return verdict


def test_a_run_says_what_was_lost_where_and_what_the_logs_hold(make_run: MakeRun) -> None:
    console = narrow()
    show_run(make_run(), console)
    lines = printed(console).splitlines()
    assert lines[:2] == [
        "run log/20261121T104500Z-7", "Invalid: 3 acknowledged writes were lost."
    ]  # fmt: skip
    words = [" ".join(line.split()) for line in lines]
    assert "lost-write 3 3 0 3" in words
    measured = "isolate of n1 at 20.0 s: "
    assert [line for line in words if line.startswith(measured) and "probes stopp" in line]
    assert "clients were told v1120 v1121 v1122" in words
    assert "n1, acknowledged it ≠v1191 e5 ≠v1192 e5 ≠v1193 e5" in words
    assert (
        "(v1121: value log-0-1:v1121; e: leader epoch; ≠: differs from the values that clients got)"
    ) in " ".join(words)
    assert "isolate leader(log-0,1) n1 20.0 26.0 yes" in words
    assert "offered 23,500 operations: 98.1% began, missed: 440" in words
    assert "n1 log-0-1 120 27.400 s follower of n2 in epoch 5" in words
    text = " ".join(words)
    for term in ("info", "began", "missed"):  # Each is explained where it stands.
        assert f"{term}: {GLOSSARY[term]}" in text
    assert f"1 is not applicable: unseen ({GLOSSARY['not applicable']})" in text
    assert max(map(len, lines)) <= 80


def test_long_names_are_folded_and_never_cut_off(make_run: MakeRun) -> None:
    paths = make_run()
    name = "an-anomaly-with-a-name-that-is-longer-than-any-terminal-is-wide-" * 3
    summary = judged(paths).anomalies["lost-write"]
    write_verdict(paths, dataclasses.replace(judged(paths), anomalies={name: summary}))
    console = narrow()
    print_verdict(judged(paths), console)
    assert "…" not in printed(console)
    folded = "".join(line.split(" ")[0] for line in printed(console).splitlines())
    assert name in folded


def test_faults_and_truncations_come_before_what_the_verdict_rests_on() -> None:
    console = narrow()
    show_run(RunPaths(find_sample("sample:loss-acks-1")), console)
    lines = printed(console).splitlines()
    order = ("fault ", "truncated its log", "what the verdict rests on", "operation ")
    starts = [next(at for at, each in enumerate(lines) if each.startswith(head)) for head in order]
    assert starts == sorted(starts)


def test_hostile_text_is_printed_and_not_obeyed(make_run: MakeRun) -> None:
    hostile = "[bold red]x[/] \x1b[2J\udcff\u202e"
    paths = make_run()
    loss = judged(paths).anomalies["lost-write"]
    example = dataclasses.replace(loss.examples[0], sentence=hostile, topic=hostile)
    loss = dataclasses.replace(loss, examples=(example,))
    verdict = dataclasses.replace(
        judged(paths), anomalies={hostile: loss}, unknown_because=(hostile,)
    )
    write_verdict(paths, verdict)
    console = Console(width=200, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    show_run(paths, console)
    list_runs(Store(paths.root.parent.parent), console)
    text = printed(console)
    assert f"{ESCAPE}[2J" not in text
    assert r"[bold red]x[/] \x1b[2J\xff\u202e" in text


def test_runs_are_listed_with_verdict_and_sentence_newest_first(make_run: MakeRun) -> None:
    paths = make_run()
    store = Store(paths.root.parent.parent)
    with store.create("other", 8) as running:
        console = narrow()
        list_runs(store, console)
        lines = [" ".join(line.split()) for line in printed(console).splitlines()]
        newest, oldest = sorted((running.run_id, paths.run_id), key=lambda each: each[4:])[::-1]
        assert [line.split(" ")[0] for line in lines[1:]] in (
            [newest, oldest], [oldest, newest]
        )  # fmt: skip
        assert f"{running.run_id} running" in lines
        assert f"{paths.run_id} invalid 3 acknowledged writes were lost." in lines
    console = narrow()
    list_runs(store, console)
    assert "not judged" in printed(console)


def test_a_valid_run_with_what_is_allowed_is_listed_as_that_and_not_in_green(
    tmp_path: Path,
) -> None:
    plant(tmp_path, "20261122T010000Z", anomalies={"lost-write": anomaly(1, allowed=True)})
    console = Console(width=120, file=io.StringIO(), force_terminal=True, color_system="standard")
    list_runs(Store(tmp_path), console)
    line = printed(console).splitlines()[1]
    assert f"{ESCAPE}[36mallowed{ESCAPE}[0m" in line
    assert "1 acknowledged write was lost, and that is allowed." in line


def test_that_a_run_was_interrupted_is_in_the_list_too(make_run: MakeRun) -> None:
    paths = make_run()
    cut = dataclasses.replace(judged(paths), stats={"interrupted_at_s": 12.5})
    write_verdict(paths, cut)
    console = Console(width=200, file=io.StringIO())
    list_runs(Store(paths.root.parent.parent), console)
    assert "Interrupted at 12.5 s. 3 acknowledged writes were lost." in printed(console)


def test_a_reason_that_is_the_witness_is_said_once(make_run: MakeRun) -> None:
    paths = make_run()
    (lost,) = [each for name, each in judged(paths).anomalies.items() if name == "lost-write"]
    sentence = lost.examples[0].sentence
    for reasons in (
        (f"lost-write: {sentence}",),
        ("the run failed: n1", f"lost-write: {sentence}"),
    ):
        verdict = dataclasses.replace(
            judged(paths), valid=Validity.UNKNOWN, unknown_because=reasons
        )
        console = Console(width=2000, file=io.StringIO())
        print_verdict(verdict, console)
        assert printed(console).count(sentence) == 1, reasons


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    console = narrow()
    list_runs(Store(tmp_path / "runs"), console)
    assert "start one with: logquake run" in " ".join(printed(console).split())


def test_hostile_records_reach_the_terminal_as_text(make_run: MakeRun) -> None:
    paths = hostile(make_run(topic=TOPIC))
    for width in (80, 200):
        console = Console(width=width, file=io.StringIO(), force_terminal=True)
        show_run(paths, console)
        text = printed(console)
        assert not [each for each in FORBIDDEN if each in text]
        # Styles of our own are all that a terminal may obey.
        assert set(re.findall(r"\x1b(.[^a-zA-Z]*[a-zA-Z])", text)) <= set(
            re.findall(r"\x1b(\[[0-9;]*m)", text)
        )
        assert "after the long one" in text


def test_the_name_of_a_row_is_on_one_line_so_that_it_can_be_copied() -> None:
    console, name = narrow(), "isolate-then-kill/20261129T053358Z-774384"
    print_table(console, ("run", "what"), [(name, "no acknowledged message was lost. " * 5)])
    assert name in printed(console)
    longer = f"{name}/{name}"
    print_table(console, ("run",), [(longer,)])
    assert longer in printed(console).replace("\n", "").replace(" ", "")
