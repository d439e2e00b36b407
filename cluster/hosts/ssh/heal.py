"""Remove at once what a dead run left on its ssh hosts, before the hosts' wardens do it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.file import SshHost, load_hosts
from cluster.hosts.ssh.run import FILE, SshRun, id_of, noted_run
from cluster.protocol import ClusterError
from results.record.paths import RunPaths
from results.trust import is_own_file


def ssh_ways(hosts_file: Path, paths: RunPaths) -> Iterator[Callable[[], list[str]]]:
    """For each host, yield a function that removes what a dead run left on the host.

    Yield nothing if the run left nothing. Each function returns one sentence for each of its
    actions. It raises `ClusterError` if an action failed. After all functions have succeeded, the
    run counts as healed, and later calls skip its hosts.

    Args:
        hosts_file: `HOSTS.toml`. The keys and ports in this file may have changed since the run.
        paths: The run's paths. The run's controller process must have ended.
    """
    file = paths.processes.with_name(FILE)
    run = noted_run(file)
    if run is None:
        return
    if run.run != id_of(paths.root):
        raise ClusterError(
            f"{file} belongs to a run in another folder or on another machine: heal the run"
            " there. When the run's lease ends, its hosts undo everything by themselves"
        )
    own = _own_hosts(hosts_file, paths)
    left = set(run.hosts)
    for node, host in run.hosts.items():
        yield partial(_heal, run, node, own=own, noted=host, left=left)
    yield partial(_forget, file, left)


def heal_ssh(hosts_file: Path, paths: RunPaths) -> list[str]:
    """Remove everything that a dead run left on its ssh hosts; return a sentence for each action.

    Raises:
        ClusterError: A host cannot be reached, or an action on it failed.
    """
    return [said for way in ssh_ways(hosts_file, paths) for said in way()]


def _heal(
    run: SshRun, node: str, *, own: tuple[SshHost, ...], noted: SshHost, left: set[str]
) -> list[str]:
    host = _today(own, noted)
    connection = SshConnection(host)
    try:
        undone = connection.call("undo", run.order(host))
    finally:
        connection.close()
    done = [f"{node}: {sentence}" for sentence in undone["done"]]
    if undone["failed"]:
        raise ClusterError(
            f"{host.name} is not as it was before the run: {'; '.join(undone['failed'])}"
        )
    left.discard(node)
    return done


def _forget(file: Path, left: set[str]) -> list[str]:
    if not left:
        file.unlink(missing_ok=True)
    return []


def _own_hosts(hosts_file: Path, paths: RunPaths) -> tuple[SshHost, ...]:
    """Return the hosts of the user's own file, the only source of keys and host keys.

    Raises:
        ClusterError: The file cannot be read, or others may have written it.
    """
    store = paths.root.resolve().parent.parent
    if not is_own_file(hosts_file) or hosts_file.resolve().is_relative_to(store):
        raise ClusterError(
            f"Logquake does not contact the run's hosts: their file {hosts_file} must belong to"
            f" you, be writable only by you, and be outside of the store {store}"
        )
    return load_hosts(hosts_file)


def _today(own: tuple[SshHost, ...], noted: SshHost) -> SshHost:
    """Return how to connect to a host now, according to the user's current hosts file.

    When the run began, the hosts file named a user and a folder for this host. The run's files
    belong to that user and are in that folder. With another user or folder, heal would find nothing
    and wrongly report the host as healed.

    Raises:
        ClusterError: The file no longer contains the host, or it now names another user or folder
            for the host.
    """
    for host in own:
        if host.address == noted.address:
            if (host.user, host.folder, host.sudo) == (noted.user, noted.folder, noted.sudo):
                return host
            raise ClusterError(
                f"{noted.name} is not healed: the run used the user {noted.user} and the folder"
                f" {noted.folder}, but your hosts file names others; restore these two values"
                " (and sudo) in the file"
            )
    raise ClusterError(
        f"{noted.name} ({noted.address}) is not healed, because your hosts file does not have"
        " this host; add it to the file"
    )
