"""`logquake node`: run a command on a node of a kept cluster."""

from pathlib import Path

import click

from harness.cli.exits import DONE, INTERRUPTED, exits
from harness.cli.options import STORE
from harness.entering import run_on
from harness.exit_codes import VALID
from harness.keep import end_kept, load_kept, programs_of
from results.store import Store
from results.trust import refuse_unless_own


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("name", metavar="[NODE]", required=False)
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--end", is_flag=True, help="End the kept cluster; its files stay.")
@STORE
@exits(
    DONE,
    INTERRUPTED,
    ("any", "With COMMAND: its exit code."),
)
def node(*, run: str, name: str | None, command: tuple[str, ...], end: bool, store: Path) -> int:
    """Run a command on a node of a kept run, or end the run's cluster.

    logquake node latest n1 -- cat data/peter-test01-0/leader-epoch-checkpoint

    The command runs in the node's network and in the node's folder. Its environment has NODE,
    BOOTSTRAP (host:port,...), BROKER (this node's host:port), ZOOKEEPER, KAFKA_JAVA and
    KAFKA_CLASSPATH. The exit code of the command becomes the exit code of `logquake node`. Without
    NODE, the addresses of all nodes are printed.
    """
    paths = Store(store).find(run)
    refuse_unless_own(paths)
    if end:
        if name is not None:
            raise click.UsageError("--end ends the whole cluster: do not name a node")
        for sentence in end_kept(paths) or ["there is no kept cluster to end"]:
            click.echo(sentence)
        return VALID
    kept = load_kept(paths)
    if name is None:
        for each, machine in kept.machines.items():
            words = (each, machine.address or "-", machine.folder, machine.container)
            click.echo("  ".join(filter(None, words)))
        return VALID
    if not command:
        raise click.UsageError("name a command: logquake node RUN NODE -- COMMAND...")
    return run_on(kept, name, command, programs=programs_of(paths))
