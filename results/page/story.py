"""The page section that draws a scripted run's steps beside those of a run with another rule."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from results.page.axis import Axis, scene_axis, story_axis
from results.page.changes import in_words, listed
from results.page.checkpoints import FileRow, checkpoint_rows
from results.page.drawing import LEFT, Drawing, drawing_of
from results.page.endings import Ending, Fate, ending_of, fates, in_short, lost_under_all
from results.page.scenes import Place, Scene, isr_is_known, scenes_of
from results.page.twins import Parting, compared_choice, in_order, parting, twin_of
from results.record.clock import seconds
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan, plan_from
from results.record.steps import Step, load_steps
from results.record.story import Story, load_story
from results.record.terms import Rule
from results.samples import is_sample
from results.tables import RunTables

RULES = {
    "high-watermark": "The old rule: a follower truncates to its own high watermark",
    "leader-epoch": "Leader epochs: a follower asks where its epoch ends",
    "leader-epoch-v0": "Leader epochs as in KIP-101: a follower asks once",
    "off": "Without eligible leader replicas",
    "on": "With eligible leader replicas (KIP-966)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The data of one scripted run.

    Attributes:
        paths: The run.
        story: The purpose and result of the scenario.
        scenes: The replicas at the end of each step.
        files: Rows of checkpoint files, for each step.
        truncations: Truncations that the brokers' logs report, as text, for each step.
        ending: The fate of the messages.
        choice: The value of the choice that is compared, such as `leader-epoch`; may be empty.
        troubles: Files that could not be read, in sentences.
    """

    paths: RunPaths
    story: Story
    scenes: tuple[Scene, ...]
    files: tuple[tuple[FileRow, ...], ...]
    truncations: tuple[tuple[str, ...], ...]
    ending: Ending
    choice: str
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of one run, ready for the template."""

    step: Step
    drawing: Drawing | None
    changes: tuple[str, ...]
    files: tuple[FileRow, ...]
    truncations: tuple[str, ...]
    called: Mapping[str, str]
    """The name of each node in the scenario."""
    nodes: tuple[str, ...]
    """The nodes of the drawing and of the checkpoint files."""
    who: str
    """The leader and the ISR: `A leads in epoch 0; in sync: A and B`."""
    agreed: str
    """The brokers that responded; empty if one of them disagrees with the cluster's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One run of the page, as a column."""

    title: str
    run_id: str
    href: str | None
    mine: bool
    story: Story


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPage:
    """The page section of a scripted run.

    Attributes:
        story: The scenario's purpose and result, for the run of this page.
        columns: The run alone, or two compared runs. The run with the old rule comes first.
        steps: For each step, one view in each column; None if a run has no such step.
        parting: The first difference between the two runs; None if there is none.
        fates: The fate of each message.
        read: For each column, the messages that a reader got at the end; None if there was no
            reader.
        lost_by_all: Messages that both runs lost.
        unclean: Whether the plan allowed unclean leader elections.
        commands: Commands that make a run with another rule; empty if the store has such a run.
        troubles: Files that could not be read, in sentences.
    """

    story: Story
    columns: tuple[Column, ...]
    steps: tuple[tuple[StepView | None, ...], ...]
    parting: Parting | None
    fates: tuple[Fate, ...]
    read: tuple[str | None, ...]
    lost_by_all: tuple[str, ...]
    unclean: bool
    commands: tuple[str, ...]
    of_quorum: bool
    """Whether the drawings show controllers' metadata logs."""
    what: str
    """The noun that the page uses for the columns, such as `rules` or `runs`."""
    troubles: tuple[str, ...]


def told(paths: RunPaths) -> Told | None:
    """Read the data of a scripted run; return None for an ordinary run."""
    tables = RunTables(paths)
    steps = load_steps(paths.steps)
    try:
        story = load_story(paths.story)
        troubles: tuple[str, ...] = ()
    except (OSError, ValueError):
        story, troubles = None, ("scenario.json is damaged",)
    if not steps and story is None:
        return None
    choice = compared_choice(paths)
    story = story or Story(name=paths.root.parent.name, title="A scripted run")
    place = Place(topic=_topic(paths))
    scenes = scenes_of(tables, steps, place=place, roles=story.roles)
    nodes = [each.node for each in scenes[0].replicas] if scenes else []
    folders = [paths.snapshots / step.name for step in steps]
    return Told(
        paths=paths,
        story=story,
        scenes=tuple(scenes),
        files=tuple(map(tuple, checkpoint_rows(folders, nodes, place=place))),
        truncations=_truncations(tables, scenes, place),
        ending=ending_of(tables, scenes, place=place),
        choice=choice[1] if choice else "",
        troubles=(*troubles, *(f"{each} is damaged" for each in tables.unreadable)),
    )


def story_page(paths: RunPaths, *, page: Path) -> StoryPage | None:
    """Return the page section of a scripted run, or None for an ordinary run.

    Args:
        paths: The run.
        page: Path of the page to write; the link to the other run's page is relative to this path.
    """
    mine = told(paths)
    if mine is None:
        return None
    other_paths = twin_of(paths)
    other = told(other_paths) if other_paths else None
    runs = [mine]
    if other is not None:
        runs = [mine, other] if in_order(mine.paths, other.paths) else [other, mine]
    endings = [each.ending for each in runs]
    return StoryPage(
        story=mine.story,
        columns=tuple(
            _column(each, mine=each is mine, page=page, both=page == paths.report) for each in runs
        ),
        steps=_steps(runs),
        parting=parting(runs[0].scenes, runs[1].scenes) if other else None,
        fates=tuple(fates(endings)),
        read=tuple(None if each.read is None else listed(in_short(each.read)) for each in endings),
        lost_by_all=tuple(lost_under_all(endings)) if other else (),
        unclean=_unclean(paths),
        commands=() if other else tuple(mine.story.other_commands.values()),
        of_quorum=any(scene.step.logs for scene in mine.scenes),
        what=_what(mine.choice),
        troubles=mine.troubles,
    )


def drawings_of(paths: RunPaths) -> dict[str, Drawing]:
    """Return the drawing of each step; a key looks like `leader-epoch-1-high-watermark-step-01`.

    If the store has a run with another rule, the drawings of both runs have the same axis.
    """
    mine = told(paths)
    if mine is None:
        return {}
    other_paths = twin_of(paths)
    other = told(other_paths) if other_paths else None
    key, value = compared_choice(paths) or ("", "")
    stem = "-".join(filter(None, (mine.story.name, key if key != "rule" else "", value)))
    views = [row[0] for row in _steps([mine, other] if other else [mine])]
    return {f"{stem}-{view.step.name}": view.drawing for view in views if view and view.drawing}


def _steps(runs: Sequence[Told]) -> tuple[tuple[StepView | None, ...], ...]:
    whole = story_axis(itertools.chain(*(each.scenes for each in runs)), left=LEFT)
    count = max((len(each.scenes) for each in runs), default=0)
    return tuple(
        tuple(_view(run, at, axis=whole) if at < len(run.scenes) else None for run in runs)
        for at in range(count)
    )


def _view(run: Told, at: int, *, axis: Axis | None) -> StepView:
    scene, before = run.scenes[at], run.scenes[at - 1] if at else None
    own = axis or scene_axis(scene, before=before, left=LEFT)
    called = {each.node: scene.called(each.node) for each in scene.step.nodes}
    called |= {each.node: each.called for each in scene.replicas}
    return StepView(
        step=scene.step,
        drawing=drawing_of(scene, before=before, axis=own) if scene.replicas else None,
        changes=tuple(in_words(before, scene)),
        files=run.files[at],
        truncations=run.truncations[at],
        called=called,
        nodes=tuple(each.node for each in scene.replicas),
        who=_who(scene),
        agreed=_agreed(scene),
    )


def _agreed(scene: Scene) -> str:
    step = scene.step
    official = (step.leader, step.leader_epoch)
    # A broker learns the ISR later from the controller, so its ISR may be old and is not compared.
    said = {
        (each.leader, step.leader_epoch if each.leader_epoch is None else each.leader_epoch)
        for each in step.beliefs
    }
    return listed(scene.called(each.node) for each in step.beliefs) if said == {official} else ""


def _who(scene: Scene) -> str:
    step = scene.step
    if step.logs:
        return ""
    if not isr_is_known(step):
        return "no running broker could report the leader and the ISR"
    epoch = "" if step.leader_epoch is None else f" in epoch {step.leader_epoch}"
    leader = (
        f"{scene.broker(step.leader)} leads{epoch}"
        if step.leader is not None
        else "no broker leads"
    )
    return f"{leader}; in sync: {listed(map(scene.broker, step.isr)) if step.isr else 'no replica'}"


def _what(choice: str) -> str:
    return "rules" if choice in set(Rule) else "runs" if choice else "stories"


def _column(run: Told, *, mine: bool, page: Path, both: bool) -> Column:
    href = None
    # The page in the run's folder is written together with the twin's page. Others are not.
    there = both or run.paths.report.is_file()
    if not mine and there and not is_sample(run.paths) and page.parent.is_dir():
        href = os.path.relpath(run.paths.report.absolute(), page.parent.absolute())
    return Column(
        title=RULES.get(run.choice, run.choice),
        run_id=run.paths.run_id,
        href=href,
        mine=mine,
        story=run.story,
    )


def _truncations(
    tables: RunTables, scenes: Sequence[Scene], place: Place
) -> tuple[tuple[str, ...], ...]:
    here = (pc.field("topic") == place.topic) & (pc.field("partition") == place.partition)
    rows = tables.record("truncations", filters=here).to_pylist()
    found = []
    for scene in scenes:
        step = scene.step
        own = [row for row in rows if step.begun_ns <= (row["observed_ns"] or -1) < step.ended_ns]
        first: dict[tuple[object, ...], dict[str, Any]] = {}
        # Brokers log a truncation repeatedly.
        for row in sorted(own, key=lambda each: each["observed_ns"]):
            first.setdefault((row["node"], row["from_offset"], row["reason"]), row)
        found.append(tuple(_truncation(scene, row) for row in first.values()))
    return tuple(found)


def _truncation(scene: Scene, row: Mapping[str, Any]) -> str:
    who, reason = scene.called(row["node"]), f": {row['reason']}" if row["reason"] else ""
    at = seconds(row["observed_ns"])
    return f"at {at} {who} truncated its log to offset {row['from_offset']}{reason}"


def _topic(paths: RunPaths) -> str:
    try:
        scenario = load_plan(paths.plan).get("scenario")
    except PlanError:
        return ""
    topic = scenario.get("topic", "peter-test01") if isinstance(scenario, dict) else ""
    return str(topic)


def _unclean(paths: RunPaths) -> bool:
    try:
        return plan_from(load_plan(paths.plan)).unclean_elections
    except PlanError:
        return False
