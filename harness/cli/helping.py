"""`logquake help` and `logquake completion`: about the command line itself."""

import os
import shlex
from pathlib import Path

import click

from harness.cli.completing import SHELLS, script
from harness.cli.exits import DONE, INTERRUPTED, exits


@click.command(name="help")
@click.argument("topic", metavar="[TOPIC]", nargs=-1)
@exits(DONE, INTERRUPTED)
def help_(*, topic: tuple[str, ...]) -> int:
    """Explain a topic; without one, list the topics.

    TOPIC is a subject as `verdicts`, or a name: of a command, fault, anomaly, workload or scenario.
    It may also be a key of a plan or a suite, a kind of hosts, a judge, a verdict, an exit code or
    a term.
    """
    from harness.cli.topics import explained, listed  # noqa: PLC0415 - completion does without

    click.echo(explained(" ".join(topic)) if topic else listed())
    return 0


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS]))
@click.option("--install", is_flag=True, help="Write the script where the shell finds it.")
@exits(DONE, INTERRUPTED)
def completion(*, shell: str, install: bool) -> int:
    """Print or install the script for Tab completion in a shell.

    It completes commands, options, stored runs, scenarios, faults, systems and help topics.
    """
    if not install:
        click.echo(script(shell), nl=False)
        return 0
    place = _place(shell)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(script(shell), encoding="utf-8")
    click.echo(f"wrote {place}")
    settings, line = _settings(shell, place)
    if settings is not None and line not in _lines(settings):
        with settings.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        click.echo(f"added a line to {settings} that reads it")
    click.echo(f"open a new {shell} to use it, or type: source {shlex.quote(str(place))}")
    return 0


def _place(shell: str) -> Path:
    """Return the file where a shell, or its settings, look for completions of a user."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    bash = Path(os.environ.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion")
    return {
        "bash": bash / "completions" / "logquake",
        "zsh": data / "zsh" / "site-functions" / "_logquake",
        "fish": configuration / "fish" / "completions" / "logquake.fish",
    }[shell]


def _settings(shell: str, place: Path) -> tuple[Path | None, str]:
    """Return the file of settings that must read the script, and the line; None: there is none.

    Fish finds the script by itself. Bash does with the package bash-completion, which is not on all
    machines; a script that is read twice does no harm.
    """
    source = f"source {shlex.quote(str(place))}"
    if shell == "bash":
        return Path.home() / ".bashrc", f'[ -n "$BASH_VERSION" ] && {source}'
    if shell == "zsh":
        folder = Path(os.environ.get("ZDOTDIR") or Path.home())
        ready = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"
        return folder / ".zshrc", f"{ready}; {source}"
    return None, ""


def _lines(settings: Path) -> list[str]:
    return settings.read_text(encoding="utf-8").splitlines() if settings.exists() else []
