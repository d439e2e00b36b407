"""`logquake scenario`: scripted runs. Each plays a fixed sequence of steps with an expected end."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.errors import EngineError
from cluster.protocol import UserError
from harness.cli.ending import answer_of, conclude
from harness.cli.exits import DONE, INTERRUPTED, OF_A_VERDICT, exits
from harness.cli.options import ENGINE, JAVA, KEEP, SETTING, STORE, settings
from harness.cli.output import NO_COLOR, console_of, is_quiet, output_options
from harness.dry_run import describe
from harness.errors import InternalError
from harness.exit_codes import BY_VALIDITY, UNKNOWN, VALID
from harness.plans import completed_plan
from harness.repro import was_interrupted
from harness.scenarios.choices import scenario_named, story_values
from harness.scenarios.every import ALL, COLUMNS, Part, Played, as_markdown, as_table, parts
from harness.scenarios.registry import SCENARIOS
from harness.session import Session
from results.record.atomic import StoreError, write_atomically
from results.record.clock import stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError
from results.record.story import load_story
from results.record.verdict import Verdict
from results.verdict_json import verdict_to_json

_CHOICES = (
    ("rule", "How followers truncate: high-watermark, leader-epoch or leader-epoch-v0."),
    ("form", "article: the article's settings; clean: settings that allow no loss."),
    ("way", "With --form clean: restart or move."),
    ("late", "The broker that gets the controller's requests late: new-leader or old-leader."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """The options of the command line, for every scenario that the command plays."""

    console: Console
    store: Path
    engine: str | None
    spark_master: str | None
    options: Mapping[str, object]
    broker: Mapping[str, str]
    keep: bool

    def plan(self, name: str, choices: Mapping[str, str], system: str | None) -> Plan:
        """Return the plan of a scenario."""
        values = story_values(scenario_named(name), choices, system=system)
        return completed_plan(values, self.options, broker=self.broker, client={})

    def play(self, plan: Plan) -> Verdict:
        """Play a plan and judge it."""
        answer = answer_of(self.console)
        session = Session(plan, self.store, self.console, keep=self.keep, answer=answer)
        return session.run(engine=self.engine, spark_master=self.spark_master)

    def played(self, part: Part) -> Played:
        """Play one of many scenarios; if it ends without a verdict, the table shows the error."""
        self.console.rule(part.name, align="left")
        begun_s = stopwatch_s()
        verdict, interrupted = "", False
        differs: tuple[str, ...] = ("the run was not judged",)
        try:
            judged = self.play(self.plan(part.scenario.name, part.choices, part.system))
            paths = RunPaths(self.store / judged.run_id)
            story = load_story(paths.story)
            verdict, differs = judged.valid.value, story.differs if story else differs
            interrupted = was_interrupted(paths)
        except (EngineError, InternalError, PlanError, StoreError, UserError) as failed:
            differs = (str(failed),)
            self.console.print(str(failed), markup=False, highlight=False)
        return Played(
            part=part,
            verdict=verdict,
            differs=differs,
            took_s=stopwatch_s() - begun_s,
            interrupted=interrupted,
        )


@click.group()
def scenario() -> None:
    """Scripted runs, such as the leader-epoch examples."""


@scenario.command(name="list")
@NO_COLOR
@exits(DONE, INTERRUPTED)
def list_scenarios() -> int:
    """List the scenarios, with their choices and systems."""
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for each in SCENARIOS:
        choices = [
            "--elr or --no-elr" if name == "elr" else f"--{name} {' or '.join(choice.values)}"
            for name, choice in each.choices.items()
        ]
        lines = (each.title, *choices, f"on {', '.join(each.systems)}")
        table.add_row(Text(each.name), Text("\n".join(lines)))
    console_of(soft_wrap=False).print(table)
    return VALID


def choice_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a command the options that select a variant of a scenario; see `choices_given`."""
    command = click.option(
        "--elr/--no-elr",
        "elr",
        default=None,
        help="Whether eligible leader replicas (KIP-966) are on.",
    )(command)
    for name, about in reversed(_CHOICES):
        command = click.option(f"--{name}", name, default=None, help=about)(command)
    return command


def choices_given(choices: Mapping[str, str | None], *, elr: bool | None) -> dict[str, str]:
    """Return the choices that the user made for a scenario, by the name of the option."""
    given = {key: value for key, value in choices.items() if value is not None}
    return given if elr is None else {**given, "elr": "on" if elr else "off"}


@scenario.command()
@click.argument("name", metavar="[SCENARIO]", required=False)
@choice_options
@click.option(
    "--all",
    "play_all",
    is_flag=True,
    help="Run every scenario on each system, with each choice.",
)
@click.option(
    "--only",
    default=ALL,
    metavar="GLOB",
    help="With --all: run only the scenarios that match GLOB.",
)
@click.option(
    "--markdown",
    type=click.Path(path_type=Path),
    help="With --all: write the table to this file.",
)
@click.option(
    "--system",
    default=None,
    help="The system to test: kafka:VERSION[:MODE], kafka:PATH, or reference.",
)
@JAVA
@click.option(
    "--hosts",
    type=str,
    default=None,
    help=(
        "Where brokers run: auto (the best kind that works on this machine), namespace, docker,"
        " ssh:HOSTS.toml, process, or simulated (the reference cluster in virtual time)."
    ),
)
@click.option("--image", default=None, help="With --hosts docker: the image.")
@click.option(
    "--seed",
    type=int,
    default=None,
    help="The seed of the run. A scenario has few random choices.",
)
@click.option(
    "--set",
    "broker",
    multiple=True,
    metavar=SETTING,
    help="A setting of the brokers. You can repeat this option.",
)
@STORE
@ENGINE
@click.option(
    "--spark-master", default=None, help="Run Spark on this cluster, not on this machine."
)
@click.option(
    "--dry-run", is_flag=True, help=("Print the steps of the scenario and its plan; start nothing.")
)
@KEEP
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@output_options
@exits(
    *OF_A_VERDICT,
    (VALID, "With `--all`: each run ended as expected."),
    (UNKNOWN, "With `--all`: some run ended in another way, or Ctrl-C came."),
)
def run(  # noqa: PLR0913 - the options of a command
    *,
    name: str | None,
    play_all: bool,
    only: str,
    markdown: Path | None,
    system: str | None,
    hosts: str | None,
    image: str | None,
    seed: int | None,
    elr: bool | None,
    broker: tuple[str, ...],
    store: Path,
    engine: str | None,
    spark_master: str | None,
    dry_run: bool,
    keep: bool,
    as_json: bool,
    **choices: str | None,
) -> int:
    """Play and judge one scenario, or every scenario with --all.

    The exit code is the verdict's: 0 valid, 1 invalid, 2 unknown. With --all it is 0 if every
    scenario ended as expected, otherwise 2.
    """
    console = console_of(quiet=is_quiet(), stderr=as_json)
    stage = _Stage(
        console=console,
        store=store,
        engine=engine,
        spark_master=spark_master,
        options={"hosts": hosts, "image": image, "seed": seed},
        broker=settings("--set", broker),
        keep=keep,
    )
    given = choices_given(choices, elr=elr)
    if play_all:
        if keep:
            raise click.UsageError(
                "--keep keeps one cluster, but --all runs many: remove --keep or --all"
            )
        if name or given:
            raise click.UsageError(
                "--all does not accept a scenario or choices; select scenarios with --only"
            )
        wanted = list(parts(only, system=system))
        if not wanted:
            raise click.UsageError("no scenario matches (see: logquake scenario list)")
        if dry_run:
            click.echo("\n".join(part.name for part in wanted))
            return VALID
        return _play_all(stage, wanted, markdown, as_json=as_json)
    if only != ALL or markdown is not None:
        raise click.UsageError("--only and --markdown need --all")
    if name is None:
        raise click.UsageError("name a scenario (see: logquake scenario list), or use --all")
    plan = stage.plan(name, given, system)
    if dry_run:
        describe(plan, console_of(stderr=as_json), keep=keep)
        return VALID
    verdict = stage.play(plan)
    if as_json:
        click.echo(json.dumps(verdict_to_json(verdict), indent=1, sort_keys=True))
    else:
        conclude(verdict, RunPaths(store / verdict.run_id))
    return BY_VALIDITY[verdict.valid]


def _play_all(
    stage: _Stage, wanted: Sequence[Part], markdown: Path | None, *, as_json: bool
) -> int:
    played: list[Played] = []
    for part in wanted:
        try:
            played.append(stage.played(part))
        except KeyboardInterrupt:  # A signal during the play leads to a verdict instead.
            break
        if markdown is not None:  # Written after each run, so that an error later loses no result.
            write_atomically(markdown, as_markdown(played))
        if played[-1].interrupted:
            break
    console_of(stderr=as_json).print(as_table(played))  # Also with `--quiet`.
    if as_json:
        rows = [dict(zip(COLUMNS, each.cells, strict=True)) for each in played]
        click.echo(json.dumps(rows, indent=1))
    whole = len(played) == len(wanted) and not any(each.differs for each in played)
    return VALID if whole else UNKNOWN
