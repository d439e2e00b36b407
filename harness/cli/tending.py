"""`logquake doctor` and `logquake heal`: check this machine, and clean up after dead runs."""

from pathlib import Path

import click

from harness.cli.exits import DONE, INTERRUPTED, exits
from harness.cli.options import STORE
from harness.cli.output import NO_COLOR, console_of
from harness.doctor import examine_machine, print_findings
from harness.exit_codes import NOT_HEALED, VALID
from harness.heal import heal_attached, heal_store
from harness.offers import offers, print_offers
from results.wording.inert import inert


@click.command()
@STORE
@click.option("--hosts", default=None, help="Also try these machines: ssh:HOSTS.toml.")
@NO_COLOR
@exits(DONE, INTERRUPTED)
def doctor(*, store: Path, hosts: str | None) -> int:
    """Report what works on this machine, and the remedy for the rest."""
    print_findings(examine_machine(store), console_of())
    console = console_of(soft_wrap=False)
    console.print("\nfaults that each kind of hosts supports on this machine:")
    print_offers(offers(hosts), console)
    return VALID


@click.command()
@click.argument("file", metavar="[FILE.toml]", required=False, type=click.Path(path_type=Path))
@STORE
@exits(
    (VALID, "Everything is undone."),
    (NOT_HEALED, "Something could not be undone now. Run the command again."),
    INTERRUPTED,
)
def heal(*, file: Path | None, store: Path) -> int:
    """Undo what dead runs left behind.

    The command heals this machine and the hosts that the runs used. With the FILE of an attached
    cluster, it heals that cluster instead. The exit code is 1 if something could not be undone.
    """
    healed = heal_store(store) if file is None else heal_attached(file, store)
    for sentence in healed.done or ["nothing was healed" if healed.failed else "nothing to heal"]:
        click.echo(inert(sentence))
    if healed.failed:
        click.echo(inert(f"logquake: {'; '.join(healed.failed)}"), err=True)
        return NOT_HEALED
    return VALID
