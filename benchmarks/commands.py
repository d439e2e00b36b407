"""Executes every command of the README and of the tutorial, in order, in fresh folders.

    python -m benchmarks.commands            # as the pages have them: an hour
    python -m benchmarks.commands --short    # with shorter times, as the test does

The program prints a line for each command, with its exit code, its duration and its place. Commands
are the shell blocks of a page, and code in a sentence that begins with `.venv/bin/`. A TOML block
is written into the file that the preceding line names. Set-up and test commands are left out. If a
command serves pages, the program requests one page, and then ends the command with Ctrl-C. No
browser opens.

`--short` uses documented options and keys only. The README's first run uses Kafka, with a short
time limit. The other runs use the reference cluster in virtual time. Suites get a small budget, and
one value of each axis.

There are three readers, each with its own folder: one for the README, one for the tutorial, and one
for the lesson on nights, which needs no other lesson. With `--short`, their commands run at the
same time. The README's reader then skips commands that are also in the tutorial.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import tomli_w

from harness.cli.exits import OF_A_VERDICT, exit_codes
from harness.documentation.commands import all_commands
from harness.exit_codes import INVALID, VALID
from results.record.clock import stopwatch_s, wait_until

ROOT = Path(__file__).resolve().parent.parent
BIN = ".venv/bin/"
PROGRAM = f"{BIN}logquake"
APART = ("./setup", f"{BIN}pytest")
"""Programs that set up or test Logquake, and that are not played."""
LIMIT_S, ANSWER_S = 5400.0, 60.0
SUITE = {
    "budget": "90s",
    "plan": {
        "warmup_s": 1, "time_limit_s": 12, "rate": 50, "minimums": {"ok_sends": 20, "ok_polls": 20},
    },
}  # fmt: skip
"""Keys that are written into suite files. The estimated duration of an entry must fit into the
budget. Each nightly run has new seeds, and with some seeds a short run has little traffic."""
ON_REFERENCE = {"systems": ["reference"], "hosts": ["simulated"]}
ON_KAFKA = (
    ("--time-limit", "10"), ("--warmup", "1"), ("--nemesis", "pause"), ("--engine", "local"),
)  # fmt: skip
SHORTER = (
    ("--system", "reference"), ("--hosts", "simulated"), ("--rate", "50"), ("--engine", "local"),
    ("--time-limit", "10"), ("--warmup", "1"), ("--port", "0"),
)  # fmt: skip
"""Options that are added to a command if it supports them and the page does not set them."""
EXAMPLE = "example:"
OF_NO_FILE = "--time-limit"
"""The option that is not added to a command with a file, because the file's faults need time."""
_PART = re.compile(
    r"^ *```(?P<language>\w*)\n(?P<block>.*?)^ *```$|`(?P<code>\.venv/bin/[^`]+)`",
    re.MULTILINE | re.DOTALL,
)
_SHELL = ("sh", "bash", "shell", "console")
_OTHERS = ("", "text", "toml")
_COMMENT = re.compile(r"(^|\s)#.*$")
_FILE = re.compile(r"`([\w.-]+)`:\s*\Z")
"""The end of the line before a block, with the name of its file."""
_SERVES = re.compile(r"serving .* at (http://\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a page: a command that its reader types, or a file that its reader writes.

    Attributes:
        place: The page and the line.
        text: A command, or the text of a file.
        file: The name of the file to write; empty for a command.
    """

    place: str
    text: str
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How a command ended.

    Attributes:
        step: The command, as written on the page.
        code: Its exit code.
        seconds: How long it took.
        output: The printed text.
    """

    step: Step
    code: int
    seconds: float
    output: str

    @property
    def fine(self) -> bool:
        """Whether the command succeeded. A command that judges may also report an invalid run."""
        command = dict(all_commands()).get(name_of(self.step.text))
        judges = command is not None and set(OF_A_VERDICT) <= set(exit_codes(command))
        return self.code in ((VALID, INVALID) if judges else (VALID,))

    def __str__(self) -> str:
        """Return the command's line of the report."""
        mark = " " if self.fine else "!"
        return f"{mark}{self.code:4} {self.seconds:7.1f} s  {self.step.place:36} {self.step.text}"


def pages() -> Mapping[str, Sequence[Path]]:
    """Return the pages of each reader: README, lessons in their order, and the lesson on nights."""
    lessons = (ROOT / "docs" / "tutorial").glob("*.md")
    *first, night = sorted(lessons, key=lambda page: page.read_text("utf-8"))
    return {"readme": [ROOT / "README.md"], "tutorial": first, "night": [night]}


def steps_of(text: str, page: str) -> Iterator[Step]:
    """Yield the steps of a page, in order.

    Raises:
        ValueError: A block may contain a command or a file that would be skipped.
    """
    for found in _PART.finditer(text):
        place = f"{page}:{text.count(chr(10), 0, found.start()) + 1}"
        language, block = found["language"], found["block"]
        if found["code"]:
            yield from _commands(" ".join(found["code"].split()), place)
        elif language in _SHELL:
            yield from _commands(block, place)
        elif language == "toml":
            named = _FILE.search(text, 0, found.start())
            if not named:
                raise ValueError(f"{place}: name the file in the line before the block: `x.toml`:")
            yield Step(place=place, text=block, file=named[1])
        elif language not in _OTHERS or re.search(r"^ *(\$ |\.venv|logquake )", block, re.M):
            raise ValueError(f"{place}: mark a block of commands as sh, so that they are played")


def _commands(block: str, place: str) -> Iterator[Step]:
    for line in re.sub(r" *\\\n *", " ", block).splitlines():
        for part in _COMMENT.sub("", line).split(" && "):
            if part.strip() and part.split()[0] not in APART:
                yield Step(place=place, text=part.strip())


def all_steps() -> Mapping[str, Sequence[Step]]:
    """Return the steps of each reader."""
    return {
        reader: [
            step
            for page in theirs
            for step in steps_of(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))
        ]
        for reader, theirs in pages().items()
    }


def name_of(command: str) -> str:
    """Return the name of a command of Logquake: `suite run`; empty for another program."""
    program, *words = shlex.split(command)
    names = [name for name, _ in all_commands() if words[: len(name.split())] == name.split()]
    return max(names, key=len, default="") if program == PROGRAM else ""


def shorter(command: str, more: Sequence[tuple[str, str]] = SHORTER) -> str:
    """Add the options that make a command short, if the command supports them."""
    options = {
        option
        for name, each in all_commands()
        if name == name_of(command)
        for parameter in each.params
        for option in parameter.opts
    }
    words = shlex.split(command)
    given = {word.partition("=")[0] for word in words}
    has_file = any(word.endswith(".toml") or word.startswith(EXAMPLE) for word in words)
    given |= {OF_NO_FILE} if has_file else set()
    added = [word for pair in more if pair[0] in options - given for word in pair]
    if name_of(command).startswith("suite"):  # `prepare` made a shorter copy of its file.
        command = re.sub(rf"{EXAMPLE}([\w-]+)", r"docs/nightly/\1.toml", command)
    return " ".join([command, *added])


def prepare(folder: Path, *, short: bool) -> None:
    """Make a folder like a fresh checkout that is set up."""
    (folder / ".venv").symlink_to(sys.prefix)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for path in (folder / "docs").rglob("*.toml") if short else ():
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        if "budget" in values:
            values |= SUITE
            axes = {
                key: each[:1] if isinstance(each, list) else each
                for key, each in values.get("axes", {}).items()
            }
            values |= {"axes": axes | ON_REFERENCE} if axes else {}
            path.write_text(tomli_w.dumps(values), encoding="utf-8")


def play_all(folder: Path, *, short: bool) -> Iterator[Played]:
    """Execute the steps of all readers below a folder, and yield how each command ended."""
    readers = {**all_steps()}
    on_kafka = next(each for each in readers["readme"] if name_of(each.text) == "run")
    if short:
        lessons = {each.text for name in ("tutorial", "night") for each in readers[name]}
        readers["readme"] = [
            each for each in readers["readme"] if each is on_kafka or each.text not in lessons
        ]
    playing = []
    for reader, steps in readers.items():
        (folder / reader).mkdir()
        prepare(folder / reader, short=short)
        playing.append(play(steps, folder / reader, short=short, on_kafka=on_kafka))
    if short:
        with ThreadPoolExecutor(len(playing)) as pool:
            for ended in pool.map(lambda each: [*each], playing):
                yield from ended
        return
    for each in playing:
        yield from each


def play(
    steps: Sequence[Step], folder: Path, *, short: bool, on_kafka: Step | None = None
) -> Iterator[Played]:
    """Execute steps in a folder that `prepare` made, and yield how each command ended."""
    for step in steps:
        if step.file:
            (folder / step.file).write_text(step.text, encoding="utf-8")
            continue
        options = ON_KAFKA if step is on_kafka else SHORTER
        yield _played(step, shorter(step.text, options) if short else step.text, folder)


def _played(step: Step, command: str, folder: Path) -> Played:
    log, began_s = folder / "output", stopwatch_s()
    with log.open("wb") as output:
        process = subprocess.Popen(
            # A shell that starts this program in the background may make it ignore Ctrl-C.
            ["env", "--default-signal=INT", "bash", "-c", command],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=os.environ | {"BROWSER": "true"}, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(
            lambda: process.poll() is not None or _SERVES.search(log.read_text("utf-8")),
            timeout_s=LIMIT_S,
            what=f"the end of {command}",
        )
        served = _SERVES.search(log.read_text("utf-8"))
        if process.poll() is None and served:
            with urlopen(served[1], timeout=ANSWER_S) as answer:  # noqa: S310 - of this machine
                assert answer.read(), f"{command} answers with an empty page"
            os.killpg(process.pid, signal.SIGINT)
        code = process.wait(ANSWER_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    took_s = stopwatch_s() - began_s
    return Played(step=step, code=code, seconds=took_s, output=log.read_text("utf-8"))


def main() -> int:
    """Execute all commands, and print a line for each; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="with shorter times, as the test does")
    short = parser.parse_args().short
    failed = False
    with tempfile.TemporaryDirectory() as name:
        for played in play_all(Path(name), short=short):
            print(played, flush=True)
            failed |= not played.fine
            if not played.fine:
                print(played.output)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
