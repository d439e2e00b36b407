"""`logquake repro`: play one run several times, and count how often its result recurs."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from harness.another_system import moved
from harness.bisecting import failure_of, settled_by, unbuilt
from harness.cli.exits import exits
from harness.cli.options import ENGINE, JAVA, STORE
from harness.cli.output import console_of, is_quiet, output_options
from harness.cli.scenarios import choice_options, choices_given
from harness.exit_codes import BISECT_BAD, BISECT_INTERRUPTED, BISECT_SKIP, UNKNOWN, VALID
from harness.interrupt import Answer, at_once
from harness.plans import completed_plan, refuse_what_does_not_tune
from harness.progress import redraws
from harness.reaching import said_again
from harness.repro import (
    AsExpected,
    Repeat,
    SameAsBefore,
    SameFailure,
    Tally,
    Wanted,
    kinds_of,
    repeat,
    was_interrupted,
)
from harness.scenarios.choices import scenario_named, scenario_of, story_values
from harness.scenarios.expectations import expectation
from harness.scenarios.registry import SCENARIOS
from harness.session import Session
from results.nights import write_night
from results.page.side_by_side import Column, Comparison, write_side_by_side
from results.page.side_by_side import Run as Shown
from results.print_table import say_page
from results.record.atomic import StoreError
from results.record.clock import stopwatch_s
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.record.plan import Plan, load_plan, plan_from
from results.record.verdict import Verdict
from results.repeats import RANGE
from results.samples import is_sample
from results.store import Store
from results.trust import refuse_unless_own
from results.verdict_json import read_verdict

CLIENT, KIND = "client_version", "client_kind"
"""The plan keys that name the version and the kind of the clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One plan to rerun on one system, and the result that each rerun is compared with.

    Attributes:
        plan: The plan to play.
        wanted: The result with which each rerun is compared.
        repeats: The id of the run that is rerun. The id is empty if this store does not have that
            run, or if the rerun uses another system or other clients.
        system: The system that the user named. An empty string means the plan's own system.
        notes: The differences from the stored run, in sentences.
        as_before: A phrase with the result of the stored run, for a page that compares systems. An
            empty string means that there is no stored run.
    """

    plan: Plan
    wanted: Wanted
    repeats: str = ""
    system: str = ""
    notes: tuple[str, ...] = ()
    as_before: str = ""


@dataclass(slots=True, kw_only=True)
class _Display:
    """A display of the reruns: tables for the systems or, without a terminal, one line a rerun."""

    console: Console
    tallies: list[Tally]
    playing: int = 0
    begun_s: float | None = field(default=None)
    answered: str = ""

    def __rich__(self) -> Group:
        playing_s = None if self.begun_s is None else stopwatch_s() - self.begun_s
        said = [Text(self.answered)] if self.answered else []
        tables = [
            tally.table(playing_s=playing_s if at == self.playing else None)
            for at, tally in enumerate(self.tallies)
        ]
        return Group(*tables, *said)

    def answer(self, sentence: str) -> None:
        """Show a sentence in response to a signal; a live table shows it within half a second."""
        self.answered = sentence
        if self.console.quiet or not redraws(self.console):
            at_once(console_of(stderr=True) if self.console.quiet else self.console)(sentence)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if self.console.quiet or not redraws(self.console):
            yield
            return
        with Live(self, console=self.console, refresh_per_second=2):
            yield
            self.begun_s = None

    def add(self, repeated: Repeat) -> Tally:
        tally = self.tallies[self.playing]
        tally = replace(tally, repeats=(*tally.repeats, repeated))
        self.tallies[self.playing] = tally
        if not redraws(self.console):
            number, last = len(tally.repeats), tally.repeats[-1]
            same = "; ".join(last.differs) or "the same"
            where = f" on {tally.system}" if tally.system else ""
            self.say(
                f"{number} of {tally.times}{where}: {last.run_id or 'no run'}:"
                f" {last.verdict or 'no verdict'} ({same})"
            )
        return tally

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Player:
    """A player that plays and judges a plan as often as asked, without output."""

    store: Path
    engine: str | None
    spark_master: str | None
    answer: Answer

    def play(self, asked: _Asked, seed: int | None) -> tuple[Verdict, RunPaths]:
        """Play and judge the plan once.

        Args:
            asked: The plan to rerun, on one system.
            seed: The seed; None means the plan's own seed.
        """
        plan = asked.plan
        if seed is not None:
            plan = plan.model_copy(update={"seed": seed})
        session = Session(plan, self.store, Console(quiet=True), answer=self.answer)
        verdict = session.run(engine=self.engine, spark_master=self.spark_master)
        paths = RunPaths(self.store / verdict.run_id)
        if asked.repeats and not was_interrupted(paths):
            why = Why.SAME_SEED if seed is None else Why.FRESH_SEED
            write_night(paths.night, Night(why=why, repeats=asked.repeats))
        return verdict, paths


@click.command()
@click.argument("name", metavar="RUN|SCENARIO")
@click.option(
    "--times", type=click.IntRange(min=1), default=10, show_default=True, help="How many runs."
)
@choice_options
@click.option(
    "--system",
    "systems",
    multiple=True,
    help=(
        "Run it on this system, in the form of `logquake run --system`. Repeat this option to"
        " compare systems side by side with the same seeds."
    ),
)
@JAVA
@click.option("--hosts", default=None, help="ssh:HOSTS.toml, if the stored run was on ssh hosts.")
@click.option("--image", default=None, help="The image, if the stored run was in containers.")
@click.option(
    "--clients",
    default=None,
    help=("The name of your own client settings, if the stored run had some."),
)
@click.option(
    "--client-version",
    default=None,
    metavar="VERSION",
    help=(
        "Run it with this version of librdkafka, to distinguish bugs of the client from bugs of"
        " the broker."
    ),
)
@click.option(
    "--client-kind",
    default=None,
    metavar="KIND",
    help=(
        "Run it with Kafka's own client (java, java:VERSION) or with librdkafka, to distinguish"
        " bugs of the client from bugs of the broker."
    ),
)
@click.option("--fresh-seeds", is_flag=True, help="Use a new seed for each run.")
@click.option(
    "--bisect",
    is_flag=True,
    help=(
        "Exit as `git bisect run` expects: 1 at the first run with the same failure, 0 if no run"
        " has it and each run has a verdict, 125 if this cannot be decided."
    ),
)
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Write a page to FILE: one row for each seed, one column for each system.",
)
@STORE
@ENGINE
@click.option(
    "--spark-master", default=None, help="Run Spark on this cluster, not on this machine."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@output_options
@exits(
    (VALID, "All runs ended the same way. With `--bisect`: none failed in the same way."),
    (BISECT_BAD, "With `--bisect`: a run failed in the same way."),
    (UNKNOWN, "Some run ended in another way, or Ctrl-C came."),
    (BISECT_SKIP, "With `--bisect`: the runs are not conclusive."),
    (BISECT_INTERRUPTED, "With `--bisect`: Ctrl-C ended it."),
)
def repro(  # noqa: PLR0913 - the options of a command
    *,
    name: str,
    times: int,
    elr: bool | None,
    systems: tuple[str, ...],
    hosts: str | None,
    image: str | None,
    clients: str | None,
    client_version: str | None,
    client_kind: str | None,
    fresh_seeds: bool,
    bisect: bool,
    page: Path | None,
    store: Path,
    engine: str | None,
    spark_master: str | None,
    as_json: bool,
    **choices: str | None,
) -> int:
    """Rerun a run or a scenario, to measure how often it recurs.

    A run recurs if it gets the same verdict and the same kinds of anomalies. A scenario recurs if
    it ends as expected. The exit code is 0 if all runs ended the same way, otherwise 2.
    """
    given = choices_given(choices, elr=elr)
    said = {"hosts": hosts, "image": image, "clients": clients}
    if bisect and len(systems) > 1:
        raise click.UsageError("--bisect supports only one --system")
    if page is not None and not page.absolute().parent.is_dir():
        raise click.UsageError(f"--page {page}: there is no folder {page.parent}; create it first")
    said |= {CLIENT: client_version, KIND: client_kind}
    asked = [
        _asked_for(name, given, said, system=system, store=store, bisect=bisect)
        for system in systems or (None,)
    ]
    console = console_of(stderr=as_json, soft_wrap=False)
    tallies = [
        Tally(wanted=each.wanted, times=times, repeats=(), system=each.system) for each in asked
    ]
    progress = console_of(quiet=is_quiet(), stderr=as_json, soft_wrap=False)
    display = _Display(console=progress, tallies=tallies)
    for sentence in dict.fromkeys(note for each in asked for note in each.notes):
        display.say(sentence)
    if bisect and (why := unbuilt(asked[0].plan)):
        display.say(f"skip: {why}")
        return BISECT_SKIP
    seeds = [secrets.randbelow(1_000_000) if fresh_seeds else None for _ in range(times)]
    player = _Player(store=store, engine=engine, spark_master=spark_master, answer=display.answer)
    code, why = _played(player, asked, seeds, display=display, bisect=bisect)
    for sentence in _told(display.tallies, why):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if page is not None:
        written = _paged(page, name, asked, seeds, tallies=display.tallies, store=store)
        say_page(console, written)
    if as_json:
        told = [tally.as_json() for tally in display.tallies]
        click.echo(json.dumps(told[0] if len(told) == 1 else told, indent=1))
    return code


def _played(
    player: _Player,
    asked: Sequence[_Asked],
    seeds: Sequence[int | None],
    *,
    display: _Display,
    bisect: bool,
) -> tuple[int, str]:
    """Play each seed on each system; return the exit code and, after an early end, the reason."""
    with display.shown():
        for number, seed in enumerate(seeds):
            for at, each in enumerate(asked):
                display.playing, display.begun_s = at, stopwatch_s()
                play = partial(player.play, each, seed)
                try:
                    again = repeat(play, each.wanted, first=number == 0, bisect=bisect)
                    tally = display.add(again)
                except (
                    KeyboardInterrupt
                ) as ended:  # A signal during the play leads to a verdict instead.
                    if number == at == 0:
                        raise
                    return BISECT_INTERRUPTED if bisect else UNKNOWN, str(ended)
                if bisect and (settled := settled_by(tally)):
                    return settled
                if tally.repeats[-1].interrupted:
                    return UNKNOWN, ""
    return VALID if all(tally.whole for tally in display.tallies) else UNKNOWN, ""


def _told(tallies: Sequence[Tally], why: str) -> list[str]:
    """Return the result of the reruns on each system, in sentences."""
    told = [each for tally in tallies for each in tally.sentences()]
    ranges = [each for each in told if each == RANGE][:1]
    return [*(each for each in told if each != RANGE), *ranges, *filter(None, (why,))]


def _paged(
    page: Path,
    name: str,
    asked: Sequence[_Asked],
    seeds: Sequence[int | None],
    *,
    tallies: Sequence[Tally],
    store: Path,
) -> Path:
    """Write a page that shows the reruns on all systems side by side."""
    columns = tuple(
        Column(
            system=each.plan.system,
            runs=tuple(
                Shown(
                    paths=RunPaths(store / run.run_id) if run.run_id else None,
                    differs=run.differs,
                    counts=not run.interrupted,
                )
                for run in tally.repeats
            ),
        )
        for each, tally in zip(asked, tallies, strict=True)
    )
    comparison = Comparison(
        what=name,
        wanted=asked[0].as_before or asked[0].wanted.title,
        seeds=tuple(asked[0].plan.seed if seed is None else seed for seed in seeds),
        columns=columns,
        notes=tuple(dict.fromkeys(note for each in asked for note in each.notes)),
    )
    return write_side_by_side(comparison, page)


def _asked_for(
    name: str,
    given: Mapping[str, str],
    said: Mapping[str, str | None],
    *,
    system: str | None,
    store: Path,
    bisect: bool,
) -> _Asked:
    """Find a run or scenario by its name; return its plan and the result that reruns should have.

    Raises:
        StoreError: There is no such run, or it has no verdict.
        PlanError: The choices do not fit the scenario, or a plan key of the stored run affects more
            than that run.
    """
    if name in {each.name for each in SCENARIOS}:
        return _scenario_asked_for(name, given, said, system=system, bisect=bisect)
    if given:
        raise click.UsageError("choices work only with scenarios; remove them for a stored run")
    try:
        paths = Store(store).find(name)
    except StoreError as absent:
        raise StoreError(f"{absent} (and no scenario has that name)") from absent
    if not is_sample(paths):
        refuse_unless_own(paths)
    verdict = read_verdict(paths.verdict)
    if verdict is None:
        raise StoreError(
            f"{paths.run_id} has no verdict to compare with; judge it first: logquake check {name}"
        )
    stored = plan_from(load_plan(paths.plan))
    kinds = kinds_of(verdict)
    title = f"{verdict.valid} with {', '.join(sorted(kinds))}" if kinds else f"{verdict.valid}"
    wanted: SameAsBefore | SameFailure = SameAsBefore(
        title=title, verdict=verdict.valid, kinds=kinds
    )
    if bisect:
        wanted = failure_of(verdict, stored, run_id=paths.run_id)
    plan, notes = stored, tuple[str, ...]()
    as_before = f"{wanted.title}, as {paths.run_id} on {stored.system}"
    if system is not None:
        there = moved(stored, system, run_id=paths.run_id)
        plan, notes = there.plan, there.notes
        wanted = replace(
            wanted, title=f"{wanted.title} (as on {stored.system}; rerun on {plan.system})"
        )
    again = {key: value for key, value in said.items() if key not in {CLIENT, KIND}}
    plan = said_again(plan, {**again, "system": system}, run_id=paths.run_id)
    if played := _with_clients(plan, said):
        plan, clients = played
        wanted = replace(wanted, title=f"{wanted.title} (rerun with {clients})")
    refuse_what_does_not_tune(plan)
    mine = paths.root.parent.parent.resolve() == store.resolve()
    # A folder of the user may by now contain another build of Kafka.
    same = mine and plan.system == stored.system and not plan.named.is_yours
    same &= plan.client_version == stored.client_version
    same &= plan.client_kind == stored.client_kind
    return _Asked(
        plan=plan,
        wanted=wanted,
        repeats=paths.run_id if same else "",
        system=system or "",
        notes=notes,
        as_before=as_before,
    )


def _with_clients(plan: Plan, said: Mapping[str, str | None]) -> tuple[Plan, str] | None:
    """Return a plan with the clients that the user named, and a description of the clients.

    Return None if the user named no clients; then the plan keeps the clients that it has.
    """
    version, kind = said.get(CLIENT), said.get(KIND)
    if not version and not kind:
        return None
    values = plan.model_dump(mode="json", exclude={CLIENT, KIND}, exclude_none=True)
    told = {CLIENT: version, KIND: kind}
    played = plan_from({**values, **{key: value for key, value in told.items() if value}})
    if played.wants_java:
        _, _, version = str(kind).partition(":")
        return played, f"Kafka's Java client {version}".rstrip()
    return played, f"librdkafka {version or ''}".rstrip()


def _scenario_asked_for(
    name: str,
    given: Mapping[str, str],
    said: Mapping[str, str | None],
    *,
    system: str | None,
    bisect: bool,
) -> _Asked:
    if bisect:
        raise click.UsageError(
            "--bisect needs a failed run from the store: name a failed run of this scenario"
        )
    if any(said.values()):
        raise click.UsageError(
            "--hosts, --image, --clients, --client-version and --client-kind need a stored run"
        )
    values = story_values(scenario_named(name), given, system=system)
    plan = completed_plan(values, {}, broker={}, client={})
    expected = scenario_of(plan).expected(plan)
    wanted = AsExpected(title=expectation(expected), kinds=expected.anomalies)
    return _Asked(plan=plan, wanted=wanted, system=system or "")
