"""`logquake check`: judge stored runs again."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.console import Console

from harness.cli.ending import next_of
from harness.cli.exits import OF_A_VERDICT, exits
from harness.cli.histories import Asked, check_histories, mode_of, only_of_histories
from harness.cli.options import STORE
from harness.cli.output import console_of, is_quiet, output_options
from harness.exit_codes import BY_VALIDITY, UNKNOWN
from harness.judgement import choose_engine, is_uri, judge_uris
from harness.next_steps import print_next
from harness.rejudging import judge_again, refuse_to_judge
from results.print_table import say
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.terms import VALIDITY_RANK, Judge
from results.record.verdict import Verdict
from results.show import print_sentence, print_verdict
from results.store import Store
from results.verdict_json import verdict_to_json
from results.wording.naming import names_of


@click.command()
@click.argument("names", metavar="[RUN...]", nargs=-1)
@STORE
@click.option(
    "--judge",
    type=click.Choice([judge.value for judge in Judge]),
    default=None,
    help=(
        "Use this judge, not the run's own. contract: allow what the configuration does not"
        " promise; strict: allow only what no system promises to prevent; jepsen: judge as"
        " Jepsen does (the default for histories)."
    ),
)
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default=None,
    help=(
        "The engine that runs the checks. Default: Spark if Java is installed, otherwise"
        " local. For histories, the default is local."
    ),
)
@click.option(
    "--spark-master", default=None, help="Run Spark on this cluster, not on this machine."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@output_options
@click.option(
    "--history",
    "histories",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help=(
        "Judge a history of another tool: Jepsen's EDN, or JSON lines. The file may be"
        " compressed (.gz)."
    ),
)
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="With --history: write a page with the verdicts to FILE.",
)
@click.option(
    "--assign/--subscribe",
    "assign",
    default=None,
    help=(
        "With --history: how consumers got their keys. Default: subscribe if an op of the"
        " history has subscribe."
    ),
)
@click.option(
    "--ww-deps/--no-ww-deps",
    "ww_deps",
    default=None,
    help="With --history: whether the log's order makes writes depend on each other. Default: yes.",
)
@exits(*OF_A_VERDICT)
def check(  # noqa: PLR0913 - click passes each option
    *,
    names: tuple[str, ...],
    store: Path,
    histories: tuple[Path, ...],
    page: Path | None,
    assign: bool | None,
    ww_deps: bool | None,
    judge: str | None,
    engine: str | None,
    spark_master: str | None,
    as_json: bool,
) -> int:
    """Judge stored runs again.

    RUN is a folder, a pattern, an id, latest, sample:NAME, or a path that Spark reads, for example
    hdfs://NAMENODE/runs/log/* or s3a://BUCKET/runs/log/RUN. If a run on this machine has a page,
    the page is written again. With --judge, the stored verdict and the page stay as they are.
    """
    given = {
        "--history": histories or None,
        "--page": page,
        "--assign": assign,
        "--ww-deps": ww_deps,
    }
    only_of_histories(given, names)
    if histories:
        subscribe = None if assign is None else not assign
        mode = mode_of(judge, subscribe=subscribe, ww_deps=ww_deps)
        asked = Asked(
            files=histories,
            mode=mode,
            engine=engine,
            spark_master=spark_master,
            as_json=as_json,
            page=page,
        )
        return _worst(check_histories(asked))
    chosen = choose_engine(engine, spark_master)
    console = console_of(stderr=as_json)
    if chosen.why and not is_quiet():
        console.print(chosen.why, markup=False)
    by_whom = Judge(judge) if judge else None
    runs = _runs_here([name for name in names if not is_uri(name)], store, kept=by_whom is None)
    verdicts = judge_again(runs, by_whom, chosen)
    uris = [name for name in names if is_uri(name)]
    if uris:
        found, kept = judge_uris(uris, judge=by_whom, engine=chosen, store=by_whom is None)
        verdicts += found
        for sentence in kept:
            console.print(sentence, markup=False)
    if as_json:
        click.echo(
            json.dumps([verdict_to_json(each) for each in verdicts], indent=1, sort_keys=True)
        )
    else:
        _print_all(verdicts, runs, console)
    if by_whom is None:
        _write_pages_again(runs, console)
    return _worst(verdicts)


def _write_pages_again(runs: Sequence[RunPaths], console: Console) -> None:
    """Write the pages of the runs that have one again, because the stored verdict changed."""
    from results.report import write_report  # noqa: PLC0415 - most runs of `check` need no page

    for run in runs:
        if run.report.exists():
            try:
                write_report(run)
            except StoreError as trouble:
                say(console, f"the page of {run.run_id} is old: {trouble}", style="yellow")


def _print_all(verdicts: Sequence[Verdict], runs: Sequence[RunPaths], console: Console) -> None:
    elsewhere = len(verdicts) - len(runs)  # Their ops are not here, so they have no names.
    named: list[Callable[[str], str]] = [*map(names_of, runs), *[str] * elsewhere]
    for verdict, in_words in zip(verdicts, named, strict=True):
        if len(verdicts) > 1:
            say(console, f"run {verdict.run_id}", style="bold")
        if is_quiet():
            print_sentence(verdict, console, names=in_words)
        else:
            print_verdict(verdict, console, names=in_words)
    if len(verdicts) == len(runs) == 1 and not is_quiet():
        print_next(next_of(runs[0], verdicts[0], after="check"), console)


def _runs_here(names: Sequence[str], store: Path, *, kept: bool) -> list[RunPaths]:
    """Return each run that the user named and that is on this machine, without duplicates.

    Args:
        names: The names on the command line.
        store: The store.
        kept: Whether verdicts are stored. If they are stored, each run must belong to the user.

    Raises:
        StoreError: No run has such a name, a run is in progress, or a run belongs to another user.
    """
    found = (run for name in names for run in Store(store).find_all(name))
    runs = list({run.root.resolve(): run for run in found}.values())
    for run in runs:
        refuse_to_judge(run, kept=kept)
    return runs


def _worst(verdicts: Sequence[Verdict]) -> int:
    worst = max((each.valid for each in verdicts), key=VALIDITY_RANK.__getitem__, default=None)
    return UNKNOWN if worst is None else BY_VALIDITY[worst]
