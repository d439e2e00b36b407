"""Remove everything that a dead run left on the hosts, for every kind of hosts.

First the processes on this machine are killed: the stage (the process that plays the run), the
agents, and the processes that keep the run's namespaces alive. Then each kind of hosts removes
everything that remains after the processes have ended. A host that cannot be reached now is
reported. All other hosts are healed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cluster.hosts import groups
from cluster.hosts.leavings import remove_leavings
from cluster.hosts.leftovers import kill_leftovers
from cluster.protocol import ClusterError, UserError
from results.record.clock import WaitTimeoutError
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan

Way = Callable[[], Sequence[str]]
"""A healing step: a function that removes things, and returns a sentence for each action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """The result of healing a dead run.

    Attributes:
        done: A sentence for each action; an empty list if there was nothing to do.
        failed: A sentence for each action that failed and should be retried later.
    """

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def heal_hosts(paths: RunPaths) -> Healed:
    """Remove everything that a dead run left on its hosts. Idempotent.

    Args:
        paths: The run's paths. The run's controller process must have ended.
    """
    done: list[str] = []
    failed: list[str] = []
    for way in _ways(paths):
        try:
            done += way()
        except (ClusterError, OSError, WaitTimeoutError) as refused:
            failed.append(str(refused))
    return Healed(done=tuple(done), failed=tuple(failed))


def heal_trials() -> Healed:
    """Remove everything that trials of hosts left outside of all runs. Idempotent."""
    from cluster.hosts.docker import trials  # noqa: PLC0415 - as in `choose`

    done: list[str] = []
    failed: list[str] = []
    for way in (groups.remove_dead_trials, trials.remove_dead_trials):
        # Without control groups or a daemon, there was most likely no trial to clean up.
        try:
            with suppress(UserError):
                done += way()
        except ClusterError as refused:
            failed.append(str(refused))
    return Healed(done=tuple(done), failed=tuple(failed))


def hosts_of(paths: RunPaths) -> str | None:
    """Return the hosts that a run's plan names; None if the plan cannot be read.

    Only this key of the plan is read, because runs of other versions must be healed, too.
    """
    try:
        hosts = load_plan(paths.plan).get("hosts")
    except PlanError:
        return None
    return hosts if isinstance(hosts, str) else None


def _ways(paths: RunPaths) -> Iterator[Way]:
    yield partial(kill_leftovers, paths.processes)
    yield partial(groups.remove_groups, paths.processes)
    yield partial(remove_leavings, paths.processes)
    hosts = hosts_of(paths)
    kind, _, file = (hosts or "").partition(":")
    # The plan may be missing. The run's note on its ssh hosts still names the hosts.
    yield from _ssh_ways(file, paths)
    if kind == "docker" or hosts is None:
        yield partial(_heal_docker, paths.root, known=hosts is not None)


def _ssh_ways(hosts_file: str, paths: RunPaths) -> Sequence[Way]:
    from cluster.hosts.ssh.heal import ssh_ways  # noqa: PLC0415 - as in `choose`

    file = Path(hosts_file)
    with suppress(RuntimeError):  # A user without a home folder has no hosts file there either.
        file = file.expanduser()
    try:
        return list(ssh_ways(file, paths))
    except (ClusterError, OSError) as refused:
        return [partial(_raise, refused)]


def _raise(refused: Exception) -> Sequence[str]:
    raise refused


def _heal_docker(root: Path, *, known: bool) -> list[str]:
    """Remove a run's containers. If the run had Docker hosts but no daemon runs, raise an error."""
    from cluster.hosts.docker.objects import heal_docker  # noqa: PLC0415 - as in `choose`

    try:
        return heal_docker(root)
    except UserError:
        if known:
            raise
        return []  # There is no daemon now, and most likely there was none.
