"""`logquake hunt`: play random runs that look for behavior that no earlier run has shown."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli.exits import OF_A_VERDICT, exits
from harness.cli.options import JAVA, STORE
from harness.cli.output import output_options
from harness.cli.suite import lead_night
from harness.suites.expansion import suite_named
from harness.suites.hunting.failures import FAILURES
from harness.suites.hunting.families import families_of
from harness.suites.hunting.hunter import refuse_unplayable
from harness.suites.hunting.keeping import write_results_of_hunt
from harness.suites.hunting.parts import distinct, part_of
from harness.suites.leading import Resumption
from harness.suites.night import NightState
from harness.suites.suite import Suite, SuiteError, suite_from
from results.hunt_page import PAGE, TABLE

JOURNAL = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("hunt_file", metavar="HUNT.toml", type=click.Path(path_type=Path))
@STORE
@JAVA
@click.option(
    "--resume",
    "mode",
    flag_value=Resumption.RESUME.value,
    help=("Resume an unfinished part; never start a new one."),
)
@click.option("--new", "mode", flag_value=Resumption.NEW.value, help="Start a new part.")
@click.option("--name", default=None, help="A name for this hunt, instead of the name in the file.")
@click.option(
    "--system",
    "systems",
    multiple=True,
    help="The system to hunt on, instead of the systems in the file. You can repeat this option.",
)
@click.option(
    "--control", default=None, help="The system on which each failure is rerun, as a control."
)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    help="A workload, instead of the workloads in the file. You can repeat this option.",
)
@click.option(
    "--nemesis",
    default=None,
    help=("Families of faults, separated by commas, instead of the families in the file."),
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    help="A kind of clients, instead of the kinds in the file. You can repeat this option.",
)
@click.option(
    "--budget",
    default=None,
    help="The time for this hunt (30m, 8h, 1h30m), instead of the time in the file.",
)
@click.option(
    "--before",
    "parts",
    metavar="JOURNAL",
    multiple=True,
    type=JOURNAL,
    help="The journal of a part from another store. You can repeat this option.",
)
@click.option(
    "--merge",
    is_flag=True,
    help="Do not start any run. Only write the table and the page of all parts.",
)
@click.option(
    "--dry-run", is_flag=True, help=("Print the possible settings of the runs; start nothing.")
)
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="With --merge: write the table and the page to this folder.",
)
@output_options
@exits(*OF_A_VERDICT)
def hunt(
    *,
    hunt_file: Path,
    store: Path,
    mode: str | None,
    parts: tuple[Path, ...],
    merge: bool,
    dry_run: bool,
    into: Path | None,
    **options: str | tuple[str, ...] | None,
) -> int:
    """Play random runs that look for new behavior.

    After Ctrl-C no more runs start, and the command waits for the runs in progress. To resume the
    hunt, repeat the command. A part is one night of a hunt. STORE/.suites/NAME/NIGHT holds the
    part's journal.jsonl, hunt.md, hunt.html, and failures/ with a plan and a bundle for each
    failure. The exit code is the code of the worst verdict.
    """
    found = suite_named(hunt_file)
    if found.hunt is None:
        raise SuiteError(f"{hunt_file} has no [hunt]; run it with: logquake suite run")
    found = changed(found, options)
    states = [part_of(path) for path in parts]
    for path, state in zip(parts, states, strict=True):
        if state.suite != found.name:
            click.echo(
                f"note: {path} belongs to the hunt {state.suite}, not to {found.name}", err=True
            )
    if merge:
        return _merged(found, states, parts, into)
    if into is not None:
        raise click.UsageError("--into needs --merge")
    if dry_run:
        return _shown(found)
    command = ("hunt", *words_of({**options, "parts": parts}))
    return lead_night(command, hunt_file, store, mode, before=parts, changed=found)


def changed(suite: Suite, options: Mapping[str, str | tuple[str, ...] | None]) -> Suite:
    """Return a hunt whose options on the command line replace the values in the hunt's file.

    Raises:
        SuiteError: The hunt with these options is not valid.
    """
    told: dict[str, Any] = {key: value for key, value in options.items() if value not in {None, ()}}
    values = suite.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    values |= {key: told.pop(key) for key in ("name", "budget") if key in told}
    if "nemesis" in told:
        told["families"] = tuple(str(told.pop("nemesis")).split(","))
    control = told.pop("control", None)
    if control is not None:
        told["controls"] = dict.fromkeys(told.get("systems") or values["hunt"]["systems"], control)
    elif "systems" in told:
        told["controls"] = {}
    return suite_from({**values, "hunt": {**values["hunt"], **told}}, "the hunt with these options")


def words_of(options: Mapping[str, str | tuple[str | Path, ...] | None]) -> Iterator[str]:
    """Yield the words that the user types for these options."""
    flags = {option.name: option.opts[0] for option in hunt.params}
    for key, value in options.items():
        for each in (value,) if isinstance(value, str) else value or ():
            yield from (flags[key], str(each))


def _shown(found: Suite) -> int:
    """Print the settings that a hunt can choose on this machine; return the exit code."""
    assert found.hunt is not None
    refuse_unplayable(found)
    said = {
        "workloads": found.hunt.workloads,
        "clients": found.hunt.clients,
        **{f"faults on {system}": [*each] for system, each in families_of(found).items()},
    }
    for what, values in said.items():
        click.echo(f"{what}: {', '.join(values)}")
    return 0


def _merged(
    found: Suite, parts: Sequence[NightState], journals: Sequence[Path], into: Path | None
) -> int:
    if not parts:
        raise click.UsageError("--merge needs parts: name each part with --before JOURNAL")
    folder = into or Path()
    files = [each.parent / FAILURES for each in journals]
    write_results_of_hunt(found, distinct(parts), folder, store=None, files=files)
    click.echo(folder / TABLE)
    click.echo(folder / PAGE)
    return 0
