"""`logquake doctor` and `logquake heal`: this machine, and what dead runs left on it."""

from pathlib import Path

import click
from rich.console import Console

from cluster.protocol import UserError
from harness.cli.options import STORE
from harness.doctor import examine_machine, print_findings
from harness.heal import heal_store


@click.command()
@STORE
def doctor(*, store: Path) -> int:
    """Say what works on this machine, and what to do about the rest."""
    print_findings(examine_machine(store), Console(soft_wrap=True))
    return 0


@click.command()
@STORE
def heal(*, store: Path) -> int:
    """Undo whatever dead runs left behind, on this machine and on their hosts."""
    healed = heal_store(store)
    for sentence in healed.done or ["nothing was healed" if healed.failed else "nothing to heal"]:
        click.echo(sentence)
    if healed.failed:
        raise UserError("; ".join(healed.failed))
    return 0
