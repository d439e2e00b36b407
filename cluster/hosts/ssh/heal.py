"""Removes at once what a dead run left on its ssh hosts; their wardens would a little later."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.file import SshHost, load_hosts
from cluster.hosts.ssh.run import FILE, SshRun, noted_run
from cluster.protocol import ClusterError, UserError
from results.record.paths import RunPaths


def ssh_ways(hosts_file: Path, paths: RunPaths) -> Iterator[Callable[[], list[str]]]:
    """Return what heals each host of a dead run; nothing if it left nothing anywhere.

    Each returns a sentence for each thing done, and raises `ClusterError` if not all could be. When
    all have been done, nobody has to ask the hosts again.

    Args:
        hosts_file: `HOSTS.toml`, which may tell another key or port than when the run began.
        paths: The run's; its controller must not be alive any more.
    """
    run = noted_run(paths.processes.with_name(FILE))
    if run is None:
        return
    file = paths.processes.with_name(FILE)
    left = set(run.hosts)
    for node, host in run.hosts.items():
        yield partial(_heal, run, node, host=_today(hosts_file, host), left=left)
    yield partial(_forget, file, left)


def heal_ssh(hosts_file: Path, paths: RunPaths) -> list[str]:
    """Remove what a dead run left on its ssh hosts; return a sentence for each thing done.

    Raises:
        ClusterError: A host cannot be reached, or did not do all of it.
    """
    return [said for way in ssh_ways(hosts_file, paths) for said in way()]


def _heal(run: SshRun, node: str, *, host: SshHost, left: set[str]) -> list[str]:
    connection = SshConnection(host)
    try:
        undone = connection.call("undo", run.order(host))
    finally:
        connection.close()
    done = [f"{node}: {sentence}" for sentence in undone["done"]]
    if undone["failed"]:
        raise ClusterError(f"{host.name} is not as it was: {'; '.join(undone['failed'])}")
    left.discard(node)
    return done


def _forget(file: Path, left: set[str]) -> list[str]:
    if not left:
        file.unlink(missing_ok=True)
    return []


def _today(hosts_file: Path, host: SshHost) -> SshHost:
    """Return how a host is reached today, if the file still has it.

    What was made there lies where the run had it, and is its user's: whoever looked elsewhere would
    find nothing, and take the host for healed.
    """
    try:
        hosts = load_hosts(hosts_file)
    except UserError:
        return host
    today = next((each for each in hosts if each.address == host.address), host)
    return replace(today, folder=host.folder, user=host.user, sudo=host.sudo)
