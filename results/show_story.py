"""Print a scripted run in a terminal: each step's sentence, and the replicas' logs as text."""

from rich.console import Console
from rich.text import Text

from results.page.changes import in_words
from results.page.endings import in_short
from results.page.logs import Log, Run
from results.page.scenes import UP, ReplicaAt, Scene
from results.page.story import Told, told
from results.print_table import say
from results.record.paths import RunPaths
from results.wording.inert import inert
from results.wording.naming import said

_STYLES = ("blue", "dark_orange", "green", "magenta", "cyan", "red")
"""Colours of leader epochs. The epoch is also written next to each record."""
_MAX_RUNS = 12


def print_story(paths: RunPaths, console: Console) -> None:
    """Print the steps of a scripted run; for an ordinary run, print nothing."""
    run = told(paths)
    if run is None:
        return
    choices = "".join(f", {key} {value}" for key, value in run.story.choices.items())
    say(console, f"scenario {run.story.name}{choices}: {run.story.title}", style="bold")
    for at, scene in enumerate(run.scenes):
        _print_step(scene, run.scenes[at - 1] if at else None, console)
    _print_end(run, console)
    for trouble in run.troubles:
        say(console, f"{trouble} and was left out", style="yellow")


def _print_step(scene: Scene, before: Scene | None, console: Console) -> None:
    say(console, "")
    say(console, f"{scene.step.number}. {scene.step.tells}", style="bold")
    for replica in scene.replicas:
        console.print(_line(replica), soft_wrap=True)
    if changes := in_words(before, scene):
        say(console, " ".join(said(each) for each in changes), style="dim")
    if scene.step.failed:
        say(console, f"the story ended at this step: {scene.step.failed}", style="bold yellow")


def _line(replica: ReplicaAt) -> Text:
    """Return a replica's log as a line: `A n1  [message1 e0][message2 e0] hw 2 end 2 leader`."""
    name = replica.node if replica.called == replica.node else f"{replica.called} {replica.node}"
    line = Text(inert(f"  {name:<7}"))
    line.append_text(_log(replica.log))
    mark = "-" if replica.high_watermark is None else str(replica.high_watermark)
    disk = " on disk" if replica.on_disk and replica.high_watermark is not None else ""
    line.append(f" hw {mark}{disk} end {replica.log.end}")
    words = [
        replica.state if replica.state != UP else "",
        replica.role or ("leader" if replica.leader else ""),
        replica.belief,
        "" if replica.in_isr is None else "in the ISR" if replica.in_isr else "not in the ISR",
        *(f"cannot hear {each}" for each in replica.deaf_to),
    ]
    line.append(inert(f"  {', '.join(filter(None, words))}".rstrip()))
    return line


def _log(log: Log) -> Text:
    text = Text()
    hidden = len(log.runs) - _MAX_RUNS
    if hidden > 0:
        text.append(f"[{log.runs[0].first} … {log.runs[hidden - 1].last}]")
    for run in log.runs[max(0, hidden) :]:
        for first, last in _parts(run):
            epoch = "-" if run.epoch is None else str(run.epoch)
            names = [run.name_at(offset) or str(offset) for offset in dict.fromkeys((first, last))]
            style = "" if run.epoch is None else _STYLES[run.epoch % len(_STYLES)]
            text.append(inert(f"[{' … '.join(dict.fromkeys(names))} e{epoch}]"), style=style)
    return text if log.runs else Text("[]")


def _parts(run: Run) -> list[tuple[int, int]]:
    """Split a short series of records into single offsets; keep a long series as one range."""
    if run.last - run.first < 3:  # noqa: PLR2004 - as many boxes as fit beside two others
        return [(offset, offset) for offset in range(run.first, run.last + 1)]
    return [(run.first, run.last)]


def _print_end(run: Told, console: Console) -> None:
    story = run.story
    say(console, "")
    if run.ending.read is not None:
        say(console, f"a reader gets: {', '.join(in_short(run.ending.read)) or 'no message'}")
    if story.moral:
        say(console, story.moral)
    if story.as_expected is not None:
        verdict = "as expected" if story.as_expected else "not as expected"
        say(console, f"{verdict}: {story.expected}", style="green" if story.as_expected else "red")
    for each in story.differs:
        say(console, each, style="red")
