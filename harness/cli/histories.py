"""`logquake check --history`: judge what others recorded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from checkers.histories.judging import Mode, judge_files
from checkers.jepsen.levels import with_levels
from harness.cli.output import console_of, is_quiet
from harness.judgement import Engine, choose_engine
from results.history_page import write_history_page
from results.print_table import say_page
from results.record.terms import Judge, Validity
from results.record.verdict import Verdict
from results.show_histories import print_histories


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says of histories.

    Attributes:
        files: To be read, in order.
        mode: How to judge.
        engine, spark_master: As given; the local engine does unless Spark is asked for.
        as_json: Whether to print a line of JSON for each history.
        page: Where their page is written; None: there is none.
    """

    files: tuple[Path, ...]
    mode: Mode
    engine: str | None = None
    spark_master: str | None = None
    as_json: bool = False
    page: Path | None = None


def check_histories(asked: Asked) -> list[Verdict]:
    """Judge files of histories, and print the verdicts.

    Raises:
        HistoryError: A file cannot be read, in one sentence.
        EngineError, UserError: Spark was asked for, and cannot work here.
        StoreError: The page cannot be written.
    """
    spark = asked.engine == "spark" or asked.spark_master is not None
    chosen = choose_engine("spark", asked.spark_master) if spark else Engine(name="local")
    verdicts = judge_files(
        asked.files, asked.mode, engine=chosen.name, spark_master=chosen.spark_master
    )
    if asked.as_json:
        for verdict in verdicts:
            click.echo(json.dumps(as_line(verdict, asked.mode.judge), ensure_ascii=False))
    else:
        print_histories(verdicts, console_of())
    if asked.page is not None:
        page = write_history_page(verdicts, asked.page)
        say_page(console_of(quiet=is_quiet(), stderr=asked.as_json), page)
    return verdicts


def as_line(verdict: Verdict, judge: Judge) -> Mapping[str, object]:
    """Return what is printed of a history for machines.

    Jepsen's verdict is true or false, and `"unknown"` if there was nothing to judge.
    """
    counts = {name: each.count for name, each in verdict.anomalies.items()}
    if judge is not Judge.JEPSEN:
        return {"name": verdict.run_id, "valid": verdict.valid.value, "anomalies": counts}
    valid = {Validity.VALID: True, Validity.INVALID: False}.get(verdict.valid, "unknown")
    return {"name": verdict.run_id, "valid": valid, "anomalies": with_levels(counts)}


def mode_of(judge: str | None, *, subscribe: bool | None, ww_deps: bool | None) -> Mode:
    """Return how to judge, by what the command line says."""
    return Mode(
        judge=Judge(judge) if judge else Judge.JEPSEN,
        ww_deps=ww_deps is not False,
        subscribe=subscribe,
    )


def only_of_histories(given: Mapping[str, object], names: Sequence[str]) -> None:
    """Refuse what makes no sense together.

    Args:
        given: Options of histories, None where they were not given.
        names: Runs that were named.

    Raises:
        click.UsageError: Options of histories without one; runs beside histories; neither.
    """
    options = [name for name, value in given.items() if value is not None]
    if given["--history"] is None:
        if options:
            raise click.UsageError(
                f"{options[0]} works only with histories: name a history with --history FILE"
            )
        if not names:
            raise click.UsageError("name a RUN, or a history with --history FILE")
    elif names:
        raise click.UsageError("judge runs and histories with separate commands")
