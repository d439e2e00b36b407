"""The commands `logquake help` and `logquake completion`, which explain the command line itself."""

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
    """Explain a topic; without a topic, list all topics.

    TOPIC is a subject such as `verdicts`, or the name of a command, fault, anomaly, key, workload,
    scenario, kind of hosts, judge, verdict, exit code or term.
    """
    from harness.cli.topics import explained, listed  # noqa: PLC0415 - completion does without

    click.echo(explained(" ".join(topic)) if topic else listed())
    return 0


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS]))
@click.option(
    "--install", is_flag=True, help="Write the script to the place from which the shell loads it."
)
@exits(DONE, INTERRUPTED)
def completion(*, shell: str, install: bool) -> int:
    """Print or install the script for Tab completion in a shell.

    The script completes commands, options, stored runs, scenarios, faults, systems and help topics.
    """
    if not install:
        click.echo(script(shell), nl=False)
        return 0
    place = _place(shell)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(script(shell), encoding="utf-8")
    click.echo(f"wrote {place}")
    settings, line = _settings(shell, place)
    if settings is not None and _added(os.fsencode(line), settings):
        click.echo(f"added a line to {settings} that loads the script")
    click.echo(f"open a new {shell} to use completion, or type: source {shlex.quote(str(place))}")
    return 0


def _place(shell: str) -> Path:
    """Return the path of the user's completion script for a shell."""
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
    """Return the shell's settings file, and the line in it that loads the completion script.

    The result is None for fish, because fish finds the script by itself. Bash finds the script only
    with the package bash-completion, which is not on all machines. If bash loads the script twice,
    this does no harm.
    """
    file = shlex.quote(str(place))
    source = f"[ -r {file} ] && source {file}"
    if shell == "bash":
        return Path.home() / ".bashrc", f'[ -n "$BASH_VERSION" ] && {source}'
    if shell == "zsh":
        folder = Path(os.environ.get("ZDOTDIR") or Path.home())
        ready = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"
        return folder / ".zshrc", f"{ready}; {source}"
    return None, ""


def _added(line: bytes, settings: Path) -> bool:
    """Add a line to a settings file; return False if the file already has the line.

    The file may have any encoding, and its last newline may be missing.
    """
    there = settings.read_bytes() if settings.exists() else b""
    if line in there.splitlines():
        return False
    with settings.open("ab") as file:
        file.write((b"" if there.endswith(b"\n") or not there else b"\n") + line + b"\n")
    return True
