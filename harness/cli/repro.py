"""`logquake repro`: the same run again and again, and how often it comes out the same way."""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from harness.cli.options import ENGINE, JAVA, STORE
from harness.cli.scenarios import choice_options, choices_given
from harness.exit_codes import UNKNOWN, VALID
from harness.interrupt import Answer, at_once
from harness.plans import completed_plan, refuse_what_does_not_tune
from harness.reaching import said_again
from harness.repro import (
    AsExpected,
    Repeat,
    SameAsBefore,
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
from results.record.atomic import StoreError
from results.record.clock import stopwatch_s
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.record.plan import Plan, load_plan, plan_from
from results.record.verdict import Verdict
from results.samples import is_sample
from results.store import Store
from results.trust import refuse_unless_own
from results.verdict_json import read_verdict


@dataclass(slots=True, kw_only=True)
class _Display:
    """The table of the runs: live on a terminal, elsewhere a line a run."""

    console: Console
    tally: Tally
    begun_s: float | None = field(default=None)
    answered: str = ""

    def __rich__(self) -> Group:
        playing_s = None if self.begun_s is None else stopwatch_s() - self.begun_s
        said = [Text(self.answered)] if self.answered else []
        return Group(self.tally.table(playing_s=playing_s), *said)

    def answer(self, sentence: str) -> None:
        """Answer a signal, inside of its handler: the live table shows it within half a second."""
        self.answered = sentence
        if not self.console.is_terminal:
            at_once(self.console)(sentence)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(self, console=self.console, refresh_per_second=2):
            yield
            self.begun_s = None

    def add(self, repeated: Repeat) -> None:
        self.tally = replace(self.tally, repeats=(*self.tally.repeats, repeated))
        if not self.console.is_terminal:
            number, last = len(self.tally.repeats), self.tally.repeats[-1]
            same = "; ".join(last.differs) or "the same"
            self.console.print(
                f"{number} of {self.tally.times}: {last.run_id or 'no run'}:"
                f" {last.verdict or 'no verdict'} ({same})",
                markup=False, highlight=False, soft_wrap=True,
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Player:
    """Plays one plan as often as it is asked to, and says nothing.

    Attributes:
        repeats: The id of the run that is repeated; empty: none of this store is.
    """

    plan: Plan
    store: Path
    repeats: str
    engine: str | None
    spark_master: str | None
    fresh_seeds: bool
    answer: Answer

    def play(self) -> tuple[Verdict, RunPaths]:
        plan = self.plan
        if self.fresh_seeds:
            plan = plan.model_copy(update={"seed": secrets.randbelow(1_000_000)})
        session = Session(plan, self.store, Console(quiet=True), answer=self.answer)
        verdict = session.run(engine=self.engine, spark_master=self.spark_master)
        paths = RunPaths(self.store / verdict.run_id)
        if self.repeats and not was_interrupted(paths):
            why = Why.FRESH_SEED if self.fresh_seeds else Why.SAME_SEED
            write_night(paths.night, Night(why=why, repeats=self.repeats))
        return verdict, paths


@click.command()
@click.argument("name", metavar="RUN|SCENARIO")
@click.option("--times", type=click.IntRange(min=1), default=10, show_default=True, help="Runs.")
@choice_options
@click.option("--system", default=None, help="Of a scenario: kafka:VERSION[:MODE].")
@click.option("--hosts", default=None, help="Of a run by ssh, said again: ssh:HOSTS.toml.")
@click.option("--image", default=None, help="Of a run in containers, said again.")
@click.option("--clients", default=None, help="Of a run with settings of yours, said again.")
@JAVA
@click.option("--fresh-seeds", is_flag=True, help="Another seed each time, not the run's own.")
@STORE
@ENGINE
@click.option("--spark-master", default=None, help="A Spark cluster instead of this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print the result for machines.")
def repro(  # noqa: PLR0913 - the options of a command
    *,
    name: str,
    times: int,
    elr: bool | None,
    system: str | None,
    hosts: str | None,
    image: str | None,
    clients: str | None,
    fresh_seeds: bool,
    store: Path,
    engine: str | None,
    spark_master: str | None,
    as_json: bool,
    **choices: str | None,
) -> int:
    """Play a run, or a scenario, again and again, and count.

    Of a run that is the same verdict with the same kinds of anomalies; of a scenario the end that
    it expects. The exit code is 0 if all N came out the same way, otherwise 2.
    """
    given = choices_given(choices, elr=elr)
    said = {"hosts": hosts, "image": image, "clients": clients}
    plan, wanted, repeated = _asked_for(name, given, said, system=system, store=store)
    console = Console(stderr=as_json)
    display = _Display(console=console, tally=Tally(wanted=wanted, times=times, repeats=()))
    player = _Player(
        plan=plan,
        store=store,
        repeats=repeated,
        engine=engine,
        spark_master=spark_master,
        fresh_seeds=fresh_seeds,
        answer=display.answer,
    )
    why = ""
    with display.shown():
        for number in range(times):
            display.begun_s = stopwatch_s()
            try:
                display.add(repeat(player.play, wanted, first=number == 0))
            except KeyboardInterrupt as ended:  # Not while it was played: that ends in a verdict.
                if number == 0:
                    raise
                why = str(ended)
                break
            if display.tally.repeats[-1].interrupted:
                break
    for sentence in filter(None, (why, *display.tally.sentences())):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if as_json:
        click.echo(json.dumps(display.tally.as_json(), indent=1))
    return VALID if display.tally.whole else UNKNOWN


def _asked_for(
    name: str,
    given: Mapping[str, str],
    said: Mapping[str, str | None],
    *,
    system: str | None,
    store: Path,
) -> tuple[Plan, Wanted, str]:
    """Return what is to be played, what coming out the same way means for it, and which run it was.

    Raises:
        StoreError: There is no such run, or it has no verdict.
        PlanError: The choices of a scenario do not fit, or a run's plan reaches beyond it.
    """
    if name in {each.name for each in SCENARIOS}:
        if any(said.values()):
            raise click.UsageError("--hosts, --image and --clients are a stored run's")
        values = story_values(scenario_named(name), given, system=system)
        plan = completed_plan(values, {}, broker={}, client={})
        expected = scenario_of(plan).expected(plan)
        return plan, AsExpected(title=expectation(expected), kinds=expected.anomalies), ""
    if given or system:
        raise click.UsageError("choices and --system are a scenario's; a stored run has its plan")
    try:
        paths = Store(store).find(name)
    except StoreError as absent:
        raise StoreError(f"{absent} (no scenario is called so either)") from absent
    if not is_sample(paths):
        refuse_unless_own(paths)
    verdict = read_verdict(paths.verdict)
    if verdict is None:
        raise StoreError(f"{paths.run_id} has no verdict to compare with: logquake check {name}")
    kinds = kinds_of(verdict)
    title = f"{verdict.valid} with {', '.join(sorted(kinds))}" if kinds else f"{verdict.valid}"
    plan = said_again(plan_from(load_plan(paths.plan)), said, run_id=paths.run_id)
    refuse_what_does_not_tune(plan)
    mine = paths.root.parent.parent.resolve() == store.resolve()
    before = SameAsBefore(title=title, verdict=verdict.valid, kinds=kinds)
    return plan, before, paths.run_id if mine else ""
