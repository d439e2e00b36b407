"""The commands `logquake export`, `import` and `timeline`: convert stored runs to other formats."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import click

from cluster.protocol import UserError
from harness.cli.exits import DONE, INTERRUPTED, exits
from harness.cli.options import STORE
from harness.cli.output import console_of
from harness.cli.reporting import ELSEWHERE
from results.export.bundle import bundle_name, read_bundle, write_bundle
from results.export.contents import contents_of
from results.export.jepsen import write_history
from results.export.perfetto import write_perfetto
from results.export.sheets import write_sheets
from results.print_table import say_page
from results.record.paths import RunPaths
from results.report import run_name, write_report
from results.samples import is_sample
from results.store import Store, StoreError, is_alive
from results.tables import DAMAGES
from results.trust import refuse_to_write
from results.wording.amounts import size
from results.wording.plural import many


class Form(StrEnum):
    """The formats to which a run can be exported."""

    BUNDLE = "bundle"
    PERFETTO = "perfetto"
    CSV = "csv"
    JEPSEN = "jepsen"


_HISTORIES = frozenset({".edn", ".json", ".jsonl"})
"""The suffixes of history files (for compressed files, before `.gz`). Bundles have another
suffix."""
_ENDINGS: Mapping[Form, str] = {
    Form.PERFETTO: ".perfetto.json.gz",
    Form.CSV: "-csv",
    Form.JEPSEN: ".edn",
}


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@STORE
@click.option(
    "--as",
    "form",
    type=click.Choice([form.value for form in Form]),
    default=None,
    help=(
        "bundle: one file for logquake import in another store. perfetto: a trace for"
        " ui.perfetto.dev. csv: a folder of tables. jepsen: a history in EDN, or in JSON lines if"
        " FILE ends with .jsonl."
    ),
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help=(
        "The output file, or the folder for csv; the default is in the current folder. If the name"
        " ends with .gz, the file is compressed."
    ),
)
@click.option(
    "--with-nodes",
    is_flag=True,
    help="With --as bundle: include live streams and the brokers' segments, which can be large.",
)
@exits(DONE, INTERRUPTED)
def export(
    *, name: str, store: Path, form: str | None, output: Path | None, with_nodes: bool
) -> int:
    """Export a run for another machine or another program.

    RUN is a folder, an id, latest, or sample:NAME.
    """
    if form is None:
        raise click.UsageError(f"name a format with --as: {', '.join(Form)}")
    chosen = Form(form)
    if with_nodes and chosen is not Form.BUNDLE:
        raise click.UsageError("--with-nodes needs --as bundle")
    run = Store(store).find(name)
    if is_alive(run):
        raise StoreError(f"{run.run_id} is still running: wait for its end, or stop it")
    if chosen is Form.BUNDLE:
        _bundle(run, output or Path(bundle_name(run)), with_nodes=with_nodes)
        return 0
    target = output or Path(f"{run.root.parent.name}-{run.root.name}{_ENDINGS[chosen]}")
    for written in _WAYS[chosen](run, target):
        click.echo(f"{written} ({size(written.stat().st_size)})")
    return 0


def _bundle(run: RunPaths, target: Path, *, with_nodes: bool) -> None:
    contents = contents_of(run, with_nodes=with_nodes)
    files = many(len(contents.files), "file")
    click.echo(f"{run.run_id}: {files}, {size(contents.size_bytes)} to pack", err=True)
    write_bundle(run, target, with_nodes=with_nodes)
    click.echo(f"{target} ({size(target.stat().st_size)})")


_WAYS: Mapping[Form, Callable[[RunPaths, Path], list[Path]]] = {
    Form.PERFETTO: lambda run, target: [write_perfetto(run, target)],
    Form.CSV: write_sheets,
    Form.JEPSEN: lambda run, target: [write_history(run, target)],
}


@click.command("import")
@click.argument("bundle", type=click.Path(path_type=Path))
@STORE
@exits(DONE, INTERRUPTED)
def import_(*, bundle: Path, store: Path) -> int:
    """Import a bundle into the store, and write its page.

    If the store already has the run, the run is not overwritten. `latest` does not change.
    """
    if Path(bundle.name.removesuffix(".gz")).suffix in _HISTORIES:
        raise UserError(
            f"{bundle} is a history, not a bundle: judge it with logquake check --history {bundle}"
        )
    run = read_bundle(bundle, Store(store))
    click.echo(run.root)
    told = run_name(run)
    try:
        say_page(console_of(stderr=True), write_report(run))
    except DAMAGES as damaged:  # The run is in the store even without a page.
        click.echo(f"the page of the run cannot be written: {damaged}", err=True)
    click.echo(f"to judge the run again, type: logquake check {told}", err=True)
    return 0


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@STORE
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=None,
    help="The output file, instead of timeline.html in the run's folder.",
)  # fmt: skip
@exits(DONE, INTERRUPTED)
def timeline(*, name: str, store: Path, output: Path | None) -> int:
    """Write a zoomable page with every operation and every fault.

    RUN is a folder, an id, latest, or sample:NAME.
    """
    from results.timelines.page import write_timeline  # noqa: PLC0415 - Bokeh takes a second

    run = Store(store).find(name)
    if output is None and not is_sample(run):
        refuse_to_write(run, otherwise=ELSEWHERE)
    written = write_timeline(run, output=output)
    click.echo(f"{written} ({size(written.stat().st_size)})")
    return 0
