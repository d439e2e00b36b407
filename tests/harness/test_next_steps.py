"""How commands end: the verdict, then its page, then what to type; and what --quiet leaves."""

import dataclasses
import io
import os
import shlex
import shutil
from pathlib import Path

import pytest
import tomli_w
from rich.console import Console

from harness.cli import exit_code
from harness.next_steps import NextStep, after_night, named, next_steps, print_next
from results.print_table import say_page
from results.record.paths import RunPaths
from results.record.plan import Plan, load_plan, plan_from
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.samples import find_sample
from results.store import Store
from results.verdict_json import read_verdict

LOSS = "Invalid: 980 acknowledged writes were lost."


def stored(store: Path, sample: str) -> RunPaths:
    with Store(store).create("log", 7) as paths:
        shutil.copytree(find_sample(sample), paths.root, dirs_exist_ok=True)
    return paths


def judged(paths: RunPaths) -> tuple[Verdict, Plan]:
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    return verdict, plan_from(load_plan(paths.plan))


@pytest.fixture(name="here", autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_after_a_failure_one_looks_at_it_and_repeats_it(here: Path) -> None:
    paths = stored(Path("runs"), "loss-acks-1")
    commands = [each.command for each in next_steps(*judged(paths), paths)]
    assert commands == ["logquake show latest", "logquake repro latest", "logquake serve"]
    elsewhere = stored(here / "other", "loss-acks-1")
    assert named(elsewhere) == f"other/{elsewhere.run_id}"
    assert next_steps(*judged(elsewhere), elsewhere)[-1].command == (
        f"logquake serve --store {here}/other"
    )


def test_after_an_unknown_verdict_the_reason_decides_what_to_change() -> None:
    paths = stored(Path("runs"), "valid")
    verdict, plan = judged(paths)
    short = dataclasses.replace(
        verdict, valid=Validity.UNKNOWN, unknown_because=("not-enough-traffic: 3 ok sends",)
    )
    plan = plan.model_copy(update={"time_limit_s": 300.0})
    assert next_steps(short, plan, paths)[0].command == (
        "logquake run runs/latest/plan.toml --time-limit 600"
    )
    cut = dataclasses.replace(short, stats={"interrupted_at_s": 3.0})
    assert next_steps(cut, plan, paths)[0].command == "logquake run runs/latest/plan.toml"


@pytest.mark.parametrize(
    ("reason", "values", "command"),
    [
        ("not-enough-traffic: 3", {"time_limit_s": 400_000.0}, "--time-limit 604800"),
        ("not-enough-traffic: 3", {"time_limit_s": 604_800.0}, None),
        ("final-read-incomplete: 1", {"rate": 20.0}, "--rate 10"),
        ("final-read-incomplete: 1", {"rate": 0.0}, None),
    ],
)
def test_a_remedy_changes_something_and_is_taken(
    reason: str, values: dict[str, float], command: str | None
) -> None:
    paths = stored(Path("runs"), "valid")
    verdict, plan = judged(paths)
    verdict = dataclasses.replace(verdict, valid=Validity.UNKNOWN, unknown_because=(reason,))
    plan = plan.model_copy(update=values)
    steps = [each.command for each in next_steps(verdict, plan, paths)]
    runs = [each for each in steps if each.startswith("logquake run ")]
    assert runs == ([f"logquake run runs/latest/plan.toml {command}"] if command else [])


@pytest.mark.parametrize("key", ["hosts", "image", "clients", "system"])
@pytest.mark.parametrize("valid", [*Validity])
def test_what_a_run_reached_beyond_itself_is_said_again(key: str, valid: Validity) -> None:
    paths = stored(Path("runs"), "valid")
    verdict, _ = judged(paths)
    value = {
        "hosts": "ssh:a lab.toml", "image": "mine", "clients": "prod", "system": "kafka:/my kafka",
    }[key]  # fmt: skip
    values = load_plan(paths.plan) | {key: value, "faults": None, "nemesis": ["kill"], "level": 2}
    paths.plan.write_text(tomli_w.dumps({k: v for k, v in values.items() if v is not None}))
    verdict = dataclasses.replace(verdict, valid=valid)
    for each in (*next_steps(verdict, plan_from(values), paths), *after_night([paths], Path())):
        words = shlex.split(each.command)
        assert (f"--{key}" in words) is (words[1] in {"run", "repro"}), each
        assert words[1] not in {"run", "repro"} or value in words


@pytest.mark.parametrize("width", [20, 80])
def test_each_command_is_whole_on_one_line(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    steps = after_night([], Path("a folder/" * 12))
    print_next(steps, console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[-2:] == [f"  {steps[0].command}", f"      {steps[0].does}"]
    wide = Console(file=io.StringIO(), width=400)
    print_next(steps, wide)
    assert isinstance(wide.file, io.StringIO)
    assert wide.file.getvalue().splitlines()[-1] == f"  {steps[0].command}  {steps[0].does}"


def test_after_a_valid_run_there_is_a_harder_one() -> None:
    paths = stored(Path("runs"), "valid")
    verdict, plan = judged(paths)
    plan = plan.model_copy(update={"faults": None, "nemesis": ("kill",), "level": 2})
    steps = [each.command for each in next_steps(verdict, plan, paths)]
    assert steps[:2] == [
        "logquake run runs/latest/plan.toml --level 3",
        "logquake run runs/latest/plan.toml --escalate",
    ]
    top = plan.model_copy(update={"level": 6})
    assert not any("--level" in each.command for each in next_steps(verdict, top, paths))


def test_after_a_night_the_first_failure_is_named() -> None:
    paths = stored(Path("runs"), "loss-acks-1")
    assert [each.command for each in after_night([paths], Path("runs"))] == [
        f"logquake show {paths.run_id}", f"logquake repro {paths.run_id}", "logquake serve",
    ]  # fmt: skip
    assert len(after_night([], Path("runs"))) == 1


@pytest.mark.parametrize("words", [["show", "latest"], ["check", "latest", "--engine", "local"]])
def test_commands_end_with_what_to_type_and_never_with_themselves(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    stored(Path("runs"), "loss-acks-1")
    exit_code(words)
    said = capsys.readouterr().out
    ends = said.partition("\nnext:\n")[2]
    assert "logquake repro latest" in ends
    assert f"logquake {words[0]} " not in ends
    assert LOSS in said.splitlines()[:2]


@pytest.mark.parametrize(
    "words",
    [
        ["--quiet", "show", "latest"],
        ["show", "latest", "-q"],
        ["check", "latest", "--engine", "local", "--quiet"],
    ],
)
def test_quiet_leaves_the_verdicts_sentences(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    stored(Path("runs"), "loss-acks-1")
    exit_code(words)
    said = capsys.readouterr()
    first, *others = said.out.splitlines()
    assert (first, said.err) == (LOSS, "")
    assert all(line.startswith(("Value log-0-0:", "Besides: ")) for line in others)
    assert exit_code(["--quiet", "show", "nonsense"]) == 254
    assert "there is no run 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["doctor"], ["suite", "status", "a.toml"]])
def test_a_command_without_a_verdict_refuses_quiet(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["--quiet", *words]) == 254
    said = capsys.readouterr()
    assert (said.out, "leave out --quiet" in said.err) == ("", True)
    assert exit_code(["--quiet", words[0], "-h"]) == (254 if len(words) == 1 else 0)


def test_no_color_holds_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    stored(Path("runs"), "loss-acks-1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    seen = list[str | None]()
    monkeypatch.setattr(
        "harness.cli.looking.list_runs",
        lambda _store, console: seen.append(os.environ.get("NO_COLOR") if console.no_color else ""),
    )
    for words in (["runs"], ["runs", "--no-color"], ["--no-color", "runs"], ["runs"]):
        assert exit_code(words) == 0
    assert seen == ["", "1", "1", ""]


def test_a_page_is_a_link_on_terminals_alone(here: Path) -> None:
    page = here / "report of mine.html"
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=20)
        say_page(console, page)
        assert isinstance(console.file, io.StringIO)
        said = console.file.getvalue()
        assert str(page) in said
        assert ("\x1b]8;id=" in said and page.as_uri() in said) is terminal


@pytest.mark.parametrize(
    ("program", "on_path", "typed"),
    [
        (".venv/bin/logquake", False, ".venv/bin/logquake show latest"),
        ("{here}/.venv/bin/logquake", False, ".venv/bin/logquake show latest"),
        ("/else where/logquake", False, "'/else where/logquake' show latest"),
        (".venv/bin/logquake", True, "logquake show latest"),
        ("/usr/bin/pytest", False, "logquake show latest"),
    ],
)
def test_a_suggested_command_works_as_it_is_typed(
    program: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, on_path: bool
) -> None:
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "logquake").write_text("#!/bin/sh\n")
    (folder / "logquake").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [program.format(here=tmp_path)])
    monkeypatch.setenv("PATH", str(folder) if on_path else "/bin")
    console = Console(file=io.StringIO(), width=80)
    print_next([NextStep(command="logquake show latest", does="shows it")], console)
    assert isinstance(console.file, io.StringIO)
    assert f"  {typed}  shows it" in console.file.getvalue()
