"""Completion in real shells, and that the file it reads is what the commands are."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import completing, exit_code, spec
from results.samples import find_sample
from tests.machine import needs
from tests.shells import shell

BIN = Path(sys.executable).parent
RUN = "log/20261121T104500Z-7"


@pytest.fixture(name="home")
def a_home_with_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(find_sample("valid"), tmp_path / "runs" / RUN)
    (tmp_path / "lab.toml").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("ZDOTDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "dumb")
    return tmp_path


@pytest.fixture(name="offered")
def what_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], set[str]]:
    def ask(line: str) -> set[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        assert completing.complete("bash_complete") == 0
        return {each.removeprefix("plain,") for each in capsys.readouterr().out.split()}

    return ask


def test_the_file_has_the_commands_as_they_are() -> None:
    """If it fails: python -m harness.cli.spec."""
    assert spec.spec() == completing.stored()


@pytest.mark.parametrize(
    ("line", "some", "none"),
    [
        ("logquake sh", {"show"}, {"run"}),
        ("logquake suite ", {"run", "status"}, {"list"}),
        ("logquake show lo", {RUN}, {"latest"}),
        ("logquake show ", {RUN, "latest"}, {"lab.toml"}),
        ("logquake show sample:v", {"valid"}, {"sample:valid"}),
        ("logquake show --store nowhere lo", set(), {RUN}),
        ("logquake repro leader-epoch-1", {"leader-epoch-1"}, {RUN}),
        ("logquake scenario run late", {"late-leader-and-isr"}, {"latest"}),
        ("logquake run --nemesis kill,pa", {"kill,pause", "kill,partition"}, {"pause"}),
        ("logquake run --system ref", {"reference"}, {"kafka:4.3.1"}),
        ("logquake run --system kafka:4.3", {"4.3.1"}, set()),
        ("logquake run --workload t", {"txn"}, {"log"}),
        ("logquake run --time", {"--time-limit"}, {"--topics"}),
        ("logquake help lost-w", {"lost-write"}, {"isolate"}),
        ("logquake run la", {"file,la"}, {"latest"}),
        ("logquake run ", {"file,"}, {"acks-1"}),
        ("logquake run exa", {"file,exa", "example:acks-1"}, {"example:half-hour"}),
        ("logquake suite run example:h", {"half-hour"}, set()),
        ("logquake show --store ~/runs lo", {RUN}, set()),
        ("logquake show ./ru", {"dir,./ru"}, {RUN}),
        ("logquake scenario run late-leader-and-isr --late ", {"new-leader", "old-leader"}, set()),
        ("logquake scenario run late-leader-and-isr --hosts p", {"process"}, set()),
        ("logquake run --client-kind ", {"java", "librdkafka"}, set()),
        ("logquake help high wa", {"watermark"}, {"warmup_s"}),
        ("logquake help suite r", {"run"}, {"rate"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("home")
def test_the_words_that_fit_are_offered(
    line: str, some: set[str], none: set[str], offered: Callable[[str], set[str]]
) -> None:
    found = offered(line)
    assert some <= found, found
    assert not none & found


def test_a_shell_waits_for_no_library(home: Path) -> None:
    program = (
        "import sys; from harness import cli\n"
        "try:\n    cli.main()\n"
        "except SystemExit:\n"
        "    heavy = {'pydantic', 'rich', 'pyarrow', 'numpy', 'jinja2', 'harness.cli.running'}\n"
        "    print(sorted(heavy & set(sys.modules)))"
    )
    asked = {"_LOGQUAKE_COMPLETE": "bash_complete", "COMP_WORDS": "logquake show "}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, cwd=home, env=os.environ | asked,
    )  # fmt: skip
    *said, heavy = done.stdout.splitlines()
    assert f"plain,{RUN}" in said
    assert heavy == "[]"


@pytest.mark.parametrize("name", ["bash", pytest.param("zsh", marks=needs("zsh"))])
def test_a_real_shell_completes_after_one_command(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["completion", name, "--install"]) == 0
    settings = home / f".{name}rc"
    once = settings.read_text()
    assert exit_code(["completion", name, "--install"]) == 0
    assert settings.read_text() == once
    assert f"added a line to {settings}" in capsys.readouterr().out
    with settings.open("a") as file:
        file.write("PS1='ready> '\n")
    with shell([name, "-i"], os.environ) as typed:
        typed.shows("ready> ")
        typed.types("logquake show log/2026112\t")
        typed.shows(RUN)
        typed.types("\x15logquake show sample:vali\t")
        typed.shows("show sample:valid")
        typed.types(f"\x15{BIN}/logquake hel\t")
        typed.shows("/logquake help")


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_settings_stay_as_they_are_before_the_line(name: str, home: Path) -> None:
    """They may end without a newline, and hold any bytes; the script may be removed later."""
    settings, mine = home / f".{name}rc", b"export EDITOR=vi # \xe9"
    settings.write_bytes(mine)
    assert exit_code(["completion", name, "--install"]) == 0
    first, line = settings.read_text(encoding="latin-1").splitlines()
    assert first == mine.decode("latin-1")
    script = line.rpartition("source ")[2]
    assert f"[ -r {script} ] && source {script}" in line
    Path(script).unlink()
    done = subprocess.run(["bash", settings], capture_output=True, text=True, check=False)
    assert script not in done.stderr


@needs("fish")
def test_fish_completes_with_the_script_that_it_finds_by_itself(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["completion", "fish", "--install"]) == 0
    script = home / ".config" / "fish" / "completions" / "logquake.fish"
    assert f"wrote {script}" in capsys.readouterr().out
    for line, word in (
        ("logquake show log/2026112", RUN),
        ("logquake run --nemesis kill,pa", "kill,pause"),
        (f"{BIN}/logquake hel", "help"),
    ):
        done = subprocess.run(
            ["fish", "-c", f"complete --do-complete '{line}'"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert word in [each.partition("\t")[0] for each in done.stdout.splitlines()], done


def test_a_script_is_printed_and_nothing_is_written(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(home.rglob("*"))
    assert exit_code(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef logquake")
    assert sorted(home.rglob("*")) == before
