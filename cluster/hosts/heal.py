"""Removes what a dead run left on its hosts, whatever their kind.

What runs on this machine is ended first, as of every kind: the stage, the agents, and with them
what holds a run's namespaces. Then each kind removes what outlives its processes. What cannot be
reached now is told, and keeps nothing else from being healed.
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
"""Removes something; returns a sentence for each thing done. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What came of healing a dead run.

    Attributes:
        done: What was done, in sentences; none if there was nothing to do.
        failed: What could not be done now, in sentences: try again later.
    """

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def heal_hosts(paths: RunPaths) -> Healed:
    """Remove what a dead run left on its hosts. Idempotent.

    Args:
        paths: The run's; its controller must not be alive any more.
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
    """Remove what trials of hosts left, which no run's folder knows. Idempotent."""
    from cluster.hosts.docker import trials  # noqa: PLC0415 - as in `choose`

    done: list[str] = []
    failed: list[str] = []
    for way in (groups.remove_dead_trials, trials.remove_dead_trials):
        # There may be neither control groups nor a daemon, and most likely there was none.
        try:
            with suppress(UserError):
                done += way()
        except ClusterError as refused:
            failed.append(str(refused))
    return Healed(done=tuple(done), failed=tuple(failed))


def hosts_of(paths: RunPaths) -> str | None:
    """Return the hosts in the plan of a run, as they stand there; None if it cannot be read.

    Nothing else of the plan is looked at: a run of another version must be healed, too.
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
    # A plan may be gone; what the run noted of its ssh hosts tells where it was, and no more.
    yield from _ssh_ways(file, paths)
    if kind == "docker" or hosts is None:
        yield partial(_heal_docker, paths.root, known=hosts is not None)


def _ssh_ways(hosts_file: str, paths: RunPaths) -> Sequence[Way]:
    from cluster.hosts.ssh.heal import ssh_ways  # noqa: PLC0415 - as in `choose`

    file = Path(hosts_file)
    with suppress(RuntimeError):  # A user without a home has no file of hosts either.
        file = file.expanduser()
    try:
        return list(ssh_ways(file, paths))
    except (ClusterError, OSError) as refused:
        return [partial(_raise, refused)]


def _raise(refused: Exception) -> Sequence[str]:
    raise refused


def _heal_docker(root: Path, *, known: bool) -> list[str]:
    """Remove containers of a run, of which it may not be known whether it had any."""
    from cluster.hosts.docker.objects import heal_docker  # noqa: PLC0415 - as in `choose`

    try:
        return heal_docker(root)
    except UserError:
        if known:
            raise
        return []  # There is no daemon, and most likely was none.
