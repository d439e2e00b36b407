"""`logquake check --history`: judge histories that other programs recorded."""

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
    """The options of the command line for judging histories.

    Attributes:
        files: The history files to read, in order.
        mode: The judge and its options.
        engine, spark_master: The user's options for the engine. Without them, the local engine is
            used.
        as_json: Whether to print a line of JSON for each history.
        page: The path of the HTML page to write; None: write no page.
    """

    files: tuple[Path, ...]
    mode: Mode
    engine: str | None = None
    spark_master: str | None = None
    as_json: bool = False
    page: Path | None = None


def check_histories(asked: Asked) -> list[Verdict]:
    """Judge history files, and print the verdicts.

    Raises:
        HistoryError: A file cannot be read; the message is one sentence.
        EngineError, UserError: The user chose Spark, and Spark cannot work here.
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
    """Return the verdict of a history as a mapping, which is then printed as one line of JSON.

    For the judge `jepsen`, the key `valid` is true, false or, if there was nothing to judge,
    `"unknown"`.
    """
    counts = {name: each.count for name, each in verdict.anomalies.items()}
    if judge is not Judge.JEPSEN:
        return {"name": verdict.run_id, "valid": verdict.valid.value, "anomalies": counts}
    valid = {Validity.VALID: True, Validity.INVALID: False}.get(verdict.valid, "unknown")
    return {"name": verdict.run_id, "valid": valid, "anomalies": with_levels(counts)}


def mode_of(judge: str | None, *, subscribe: bool | None, ww_deps: bool | None) -> Mode:
    """Return the judge that the command line selects, with the judge's settings."""
    return Mode(
        judge=Judge(judge) if judge else Judge.JEPSEN,
        ww_deps=ww_deps is not False,
        subscribe=subscribe,
    )


def only_of_histories(given: Mapping[str, object], names: Sequence[str]) -> None:
    """Reject options that do not fit together.

    Args:
        given: The options for histories: the name of each option, and its value. The value is None
            if the user did not set the option.
        names: The runs that the user named.

    Raises:
        click.UsageError: The user gave options for histories but no history, or named both runs and
            histories, or named neither.
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
