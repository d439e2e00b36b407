"""The command line without a broker: codes, sentences, and what a command may not import."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from checkers.errors import EngineError
from cluster.protocol import UserError
from harness import cli
from harness.cli import exit_code
from harness.cli.completing import stored
from harness.errors import InternalError
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.plan import PlanError, dump_plan, plan_from
from workloads.registry import WORKLOADS

SHORT = ("--time-limit", "30", "--dry-run", "--hosts", "process")


@pytest.fixture(name="here", autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stored_run(store: Path) -> RunPaths:
    """Make a run that died before its brokers started: all that there is of it is its plan."""
    paths = RunPaths(store / "log" / "20261121T104500Z-7")
    for folder in (paths.live, paths.statistics, paths.nodes):
        folder.mkdir(parents=True)
    paths.plan.write_text(dump_plan(plan_from({"seed": 7})), encoding="utf-8")
    return paths


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bogus"], "No such command 'bogus' (try: logquake -h)"),
        (["run", "--bogus"], "(try: logquake run -h)"),
        (["run", "--seed", "x"], "'x' is not a valid integer"),
        (["run", "--set", "=x"], "--set needs KEY=VALUE"),
        (["run", "--name", "../up", *SHORT], "the plan's name cannot be '../up'"),
        (["run", "--time-limit", "inf", "--dry-run"], "the plan's time_limit_s cannot be inf"),
        (["run", "--rate", "nan", "--dry-run"], "the plan's rate cannot be nan"),
        (
            ["run", "--nemesis", "kil", *SHORT],
            "clock, leadership, topics, outage,",
        ),
        (["run", "--nemesis", "partition", *SHORT], "needs hosts that can cut the network"),
        (["run", "--client", "acks=1", *SHORT], "the plan's client.acks cannot be set"),
        (["run", "--client", "no.such=1", *SHORT], "no.such"),
        (["run", "--workload", "txn", "--acks", "1", *SHORT], "transactions need acks"),
        (
            ["run", "--workload", "txn", "--client", "transaction.timeout.ms=1", *SHORT],
            "the plan's client.transaction.timeout.ms cannot be set",
        ),
        (["run", "no-plan.toml"], "no-plan.toml cannot be read"),
        (["show", "nonsense"], "there is no run 'nonsense'"),
        (["check"], "name a RUN, or a history with --history FILE"),
        (["check", "--engine", "local", "x*"], "no run matches 'x*'"),
        (["show", "sample:nonsense"], "there is no sample"),
        (["show", "sample:valid", "p0#0"], "process 0 has ops p0#1 to p0#"),
        (["serve", "--store", "nowhere"], "there is no folder nowhere to serve"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_user_can_mend_is_one_sentence_and_254(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(words) == 254
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.startswith("logquake: ")
    assert shown.err.count("\n") == 1


def test_a_misspelt_key_is_answered_with_its_neighbour(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "plan.toml").write_text("[budgets]\nirs_s = 3\n", encoding="utf-8")
    assert exit_code(["run", "plan.toml"]) == 254
    assert "did you mean 'budgets.isr_s'" in capsys.readouterr().err
    (here / "plan.toml").write_text('[[faults]]\nat_s = 1\nkind = "kill"\nhold = 3\n')
    assert exit_code(["run", "plan.toml"]) == 254
    said = capsys.readouterr().err
    assert "an unknown key 'hold' in [[faults]] number 1" in said
    assert "did you mean 'hold_s'" in said


def test_a_store_that_is_a_file_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").touch()
    for command in ("runs", "show", "heal", "serve"):
        assert exit_code([command, "--store", "file"]) == 254, command
        assert "file is a file, not a folder" in capsys.readouterr().err


def test_a_store_that_may_not_be_read_is_no_empty_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here.chmod(0o755)
    (here / "runs").mkdir(mode=0)
    # At that address nobody can listen, so that no server stays should the store be taken.
    commands = (["runs"], ["serve", "--host", "192.0.2.1"])
    for command in commands:
        # Root may read whatever there is; and what it imports, others may not.
        assert exit_code([command[0], "--help"]) == 0
    import_module("results.site")
    capsys.readouterr()
    if root := os.geteuid() == 0:
        os.seteuid(65534)
    try:
        codes = [exit_code(command) for command in commands]
    finally:
        if root:
            os.seteuid(0)
    sentence = "logquake: runs cannot be used: no permission; choose another folder"
    assert (codes, capsys.readouterr().err.count(sentence)) == ([254, 254], 2)


def test_without_a_command_the_help_comes(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code([]) == 254
    assert capsys.readouterr().err.startswith("Usage: logquake")


def test_a_command_that_is_not_stored_yet_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(stored()["commands"], "reindex")
    assert exit_code(["-h"]) == 0
    assert "reindex     Rebuild the index" in capsys.readouterr().out


def test_help_names_every_command_and_describes_every_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(["-h"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("Commands:")[2]
    context = click.Context(cli.logquake)
    for name in cli.logquake.list_commands(context):
        command = cli.logquake.get_command(context, name)
        assert command is not None
        assert f"  {name} " in shown
        bare = [
            each.name for each in command.params if isinstance(each, click.Option) and not each.help
        ]
        assert not bare, name


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        (PlanError("p"), 254),
        (UserError("u"), 254),
        (StoreError("s"), 254),
        (EngineError("e"), 254),
        (PermissionError(13, "no", "/nowhere/x"), 254),
        (OSError(30, "read-only", "/nowhere/x"), 254),
        (OSError(28, "full"), 254),
        (InternalError("i"), 255),
        (ZeroDivisionError("z"), 255),
        (KeyboardInterrupt(), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_end_of_a_command_has_its_code(
    failed: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def broken() -> None:
        raise failed

    monkeypatch.setattr(cli, "logquake", broken)
    assert exit_code([]) == code


def test_a_refusal_without_a_file_still_says_what_was_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def broken() -> None:
        raise PermissionError("cannot open '/x/y.parquet'")

    monkeypatch.setattr(cli, "logquake", broken)
    assert exit_code([]) == 254
    assert "cannot open '/x/y.parquet'" in capsys.readouterr().err


def test_init_writes_a_plan_that_runs_and_never_overwrites(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["init"]) == 0
    assert exit_code(["run", "plan.toml", "--dry-run", "--hosts", "process"]) == 0
    (here / "plan.toml").write_text("mine", encoding="utf-8")
    assert exit_code(["init"]) == 254
    assert (here / "plan.toml").read_text(encoding="utf-8") == "mine"
    assert "already exists" in capsys.readouterr().err


def test_a_dry_run_shows_schedule_and_guarantees_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["run", "--seed", "3", "--nemesis", "kill", *SHORT]) == 0
    first = capsys.readouterr().out
    assert "faults in the main phase, seed 3" in first
    assert "(The same command with --seed 3 instead of --dry-run gets this schedule.)" in first
    assert "what the configuration guarantees:" in first
    assert exit_code(["run", "--seed", "3", "--nemesis", "kill", *SHORT]) == 0
    assert capsys.readouterr().out == first
    assert "at the earliest" not in first
    assert not list(here.iterdir())
    assert exit_code(["run", "--seed", "3", "--level", "2", *SHORT]) == 0
    assert "at the earliest" in capsys.readouterr().out
    assert exit_code(["run", "--nemesis", "", *SHORT]) == 0
    assert "no faults in the main phase" in capsys.readouterr().out


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "log"])
def test_a_dry_run_shows_what_differs_from_the_defaults_of_a_workload(
    here: Path, capsys: pytest.CaptureFixture[str], workload: str
) -> None:
    assert exit_code(["run", "--workload", workload, *SHORT]) == 0
    words = capsys.readouterr().out
    assert f'workload = "{workload}"' in words
    assert "rate = " not in words
    assert "(All other keys have their defaults: logquake help KEY.)" in words
    rate = "500" if workload == "txn" else "9"  # By default, transactions come at a lower rate.
    assert exit_code(["run", "--workload", workload, "--rate", rate, *SHORT]) == 0
    assert f"rate = {rate}.0" in capsys.readouterr().out
    assert not list(here.iterdir())


def test_check_of_a_run_that_died_is_unknown_and_the_same_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = stored_run(here / "runs")
    assert exit_code(["check", "latest", "--engine", "local", "--json"]) == 2
    verdict = json.loads(capsys.readouterr().out)[0]
    assert verdict["valid"] == "unknown"
    first = paths.verdict.read_bytes()
    assert exit_code(["check", "latest", "--engine", "local"]) == 2
    assert paths.verdict.read_bytes() == first
    assert exit_code(["check", "latest", "--engine", "local", "--judge", "strict"]) == 2
    assert paths.verdict.read_bytes() == first


def test_check_writes_the_page_again_if_it_stores_the_verdict(here: Path) -> None:
    paths = stored_run(here / "runs")
    assert exit_code(["check", "latest", "--engine", "local"]) == 2
    assert not paths.report.exists()
    paths.report.write_text("old")
    assert exit_code(["check", "latest", "--engine", "local", "--judge", "strict"]) == 2
    assert paths.report.read_text() == "old"
    assert exit_code(["check", "latest", "--engine", "local"]) == 2
    assert "<h1" in paths.report.read_text()


def test_show_imports_nothing_heavy_and_report_and_check_need_no_spark(here: Path) -> None:
    stored_run(here / "runs")
    (here / "file").touch()  # A home where nothing can be written, whoever asks.
    environment = {**os.environ, "PATH": "/nonexistent", "HOME": str(here / "file")}
    for name in ("JAVA_HOME", "MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    for words, never in (
        (["show"], {"pyspark", "matplotlib", "confluent_kafka", "networkx", "kio"}),
        (["report"], {"pyspark", "confluent_kafka", "networkx", "kio"}),
        (["check", "latest", "--engine", "local"], {"pyspark", "confluent_kafka"}),
    ):
        program = (
            "import sys; from harness.cli import exit_code; code = exit_code(sys.argv[1:])\n"
            f"print(code, sorted({never!r} & set(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        code = 2 if words[0] == "check" else 0
        assert done.stderr == f"{code} []\n", words


def test_a_stored_run_is_judged_and_shown_with_short_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample = "sample:leader-epoch-1-high-watermark"
    assert exit_code(["check", sample, "--engine", "local"]) == 1
    assert "message2, acknowledged at offset 1 of peter-test01-0 at 66.277 s to op p1#1" in (
        " ".join(capsys.readouterr().out.split())
    )
    assert exit_code(["show", sample, "p1#1"]) == 0
    assert "p1#1 (op 2): send of process 1, main" in capsys.readouterr().out
