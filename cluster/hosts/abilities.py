"""Report which faults each kind of hosts supports here, and why other faults are impossible."""

from collections.abc import Callable, Mapping
from pathlib import Path

from cluster.hosts import clock, groups
from cluster.hosts.examine import (
    NO_REMEDY,
    Finding,
    disk_trial,
    faulty_disk_trial,
    reset_trial,
    shape_trial,
)
from cluster.protocol import OF_SYSTEMS, Ability
from results.record.plan import ATTACHED, SIMULATED

NO_LINKS = "these nodes share an address, so there are no links between them; use --hosts namespace"
SERVED = ("namespace", "process")
"""The kinds of hosts that can put Logquake's own file system below a node's data."""
NOT_BUILT = "this kind of hosts does not support it"
NOT_SERVED = (
    "on these hosts Logquake's own file system is not below the nodes' data; use --hosts"
    " namespace or --hosts process"
)
SOUND = "simulated disks cannot make requests fail; use --hosts namespace or --hosts process"
REAL_ONLY = "a node in virtual time has neither processors nor memory; use --hosts namespace"
UNSIMULATED = {Ability.RESOURCES: REAL_ONLY, Ability.FAULTY_DISK: SOUND}
"""The abilities that nodes in virtual time lack, each with the reason."""


def abilities_of(hosts: str) -> Mapping[Ability, str]:
    """Return, for each ability, why it is missing on this kind of hosts; "" if it is present.

    An ability that depends on the system alone, not on the hosts, is reported as present.

    Args:
        hosts: The hosts as written in a plan: `namespace`, `docker`, `ssh:FILE`, `process`,
            `attached` or `simulated`.
    """
    kind, _, file = hosts.partition(":")
    if kind == ATTACHED:  # The cluster's own file declares what it lacks.
        return dict.fromkeys(Ability, "")
    if kind == SIMULATED:
        return dict.fromkeys(Ability, "") | UNSIMULATED
    able = _of_ssh(file) if kind == "ssh" else _BY_KIND[kind]()
    faulty = _why_not(faulty_disk_trial()) if kind in SERVED else NOT_SERVED
    disks = {Ability.SLOW_DISK: faulty, Ability.FAULTY_DISK: faulty}
    return {**dict.fromkeys(OF_SYSTEMS, ""), **able, **disks}


def built_for(hosts: str) -> frozenset[Ability]:
    """Return the abilities that a kind of hosts can have on some machine.

    The result does not depend on this machine. A stored plan may come from another machine, and
    this machine must be able to read the abilities in that plan.

    Args:
        hosts: The hosts as written in a plan, or `auto`.
    """
    return frozenset(Ability) - ({*UNSIMULATED} if hosts == SIMULATED else set())


def _of_processes() -> Mapping[Ability, str]:
    return {Ability.CUT: NO_LINKS, Ability.CUT_CLIENTS: NO_LINKS,
            Ability.SHAPE: NO_LINKS, Ability.SHAPE_CLIENTS: NO_LINKS, Ability.DISK: NOT_BUILT,
            Ability.CONNECTIONS: NO_LINKS, Ability.CLOCK: clock.why_not(),
            Ability.RESOURCES: groups.why_not()}  # fmt: skip


def _of_namespaces() -> Mapping[Ability, str]:
    no_shape = _why_not(shape_trial())
    return {Ability.CUT: "", Ability.CUT_CLIENTS: "",
            Ability.SHAPE: no_shape, Ability.SHAPE_CLIENTS: no_shape,
            Ability.CONNECTIONS: _why_not(reset_trial()),
            Ability.DISK: _why_not(disk_trial()), Ability.CLOCK: clock.why_not(),
            Ability.RESOURCES: groups.why_not()}  # fmt: skip


def _of_containers() -> Mapping[Ability, str]:
    return {Ability.CUT: "", Ability.CUT_CLIENTS: "",
            Ability.SHAPE: _why_not(shape_trial()), Ability.SHAPE_CLIENTS: NOT_BUILT,
            Ability.CONNECTIONS: _why_not(reset_trial()), Ability.DISK: NOT_BUILT,
            Ability.CLOCK: NOT_BUILT, Ability.RESOURCES: NOT_BUILT}  # fmt: skip


def _of_ssh(file: str) -> Mapping[Ability, str]:
    from cluster.hosts.ssh.examine import why_not_reset, why_not_shape  # noqa: PLC0415 - as in `choose`
    from cluster.hosts.ssh.file import load_hosts  # noqa: PLC0415 - as above

    hosts = load_hosts(Path(file)) if file else ()
    no_shape, no_reset = why_not_shape(hosts), why_not_reset(hosts)
    return {Ability.CUT: "", Ability.CUT_CLIENTS: NOT_BUILT,
            Ability.SHAPE: no_shape, Ability.SHAPE_CLIENTS: NOT_BUILT, Ability.DISK: NOT_BUILT,
            Ability.CONNECTIONS: no_reset, Ability.CLOCK: NOT_BUILT,
            Ability.RESOURCES: NOT_BUILT}  # fmt: skip


def _why_not(trial: Finding) -> str:
    if trial.works:
        return ""
    why = f"{trial.what} does not work on this machine ({trial.detail})"
    return why if trial.remedy == NO_REMEDY else f"{why}; {trial.remedy}"


_BY_KIND: Mapping[str, Callable[[], Mapping[Ability, str]]] = {
    "process": _of_processes,
    "namespace": _of_namespaces,
    "docker": _of_containers,
}


def able(why_not: Mapping[Ability, str]) -> frozenset[Ability]:
    """From the result of `abilities_of`, return the abilities that are present."""
    return frozenset(each for each, sentence in why_not.items() if not sentence)
