"""Logquake's own reference cluster, with nodes as processes of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.files.properties import properties
from cluster.hosts.choose import HostKind
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.programs import ReferencePrograms
from cluster.protocol import Hosts, UserError
from cluster.reference.bugs import Bug
from cluster.reference.process.hosts import CuttingHosts
from cluster.reference.settings import SettingsError, parsed
from cluster.systems.system import Say
from results.environment import Told
from results.record.declared import Declared
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan


@dataclass(slots=True)
class ReferenceSystem:
    """Implements `cluster.systems.system.System` for the reference cluster.

    Args:
        plan: The run's plan.
    """

    plan: Plan

    def refuse(self, *, keep: bool) -> None:
        """Raise if `keep` is set, or if the plan has unsupported hosts, bugs or settings."""
        kind, bug = self.plan.hosts.partition(":")[0], self.plan.bug
        if kind in {HostKind.DOCKER, HostKind.SSH}:
            raise UserError(
                f"the reference cluster cannot run on {kind} hosts, because it needs this"
                " machine's Python; use --hosts namespace or --hosts process"
            )
        if keep:
            raise UserError("a reference cluster cannot be kept after its run; remove --keep")
        if bug is not None and bug not in {*Bug}:
            raise UserError(f"--bug {bug} does not exist; use one of {', '.join(Bug)}")
        for own in ({}, *self.plan.node.values()):
            try:
                parsed(properties({**self.plan.broker, **own}))
            except SettingsError as wrong:
                raise UserError(str(wrong)) from wrong

    def settled(self, say: Say) -> Plan:  # noqa: ARG002 - the protocol's
        """Return the plan unchanged, because the reference cluster adds nothing to it."""
        return self.plan

    def prepare(self, say: Say) -> None:
        """Do nothing: the nodes run in this Python."""

    def declared(self) -> Declared:
        """Declare that Logquake can make all observations of the reference cluster."""
        return Declared(what=self.plan.system)

    def told(self) -> Told:
        """Return nothing: the reference cluster has the version of Logquake itself."""
        return Told()

    def cuts_by_itself(self, hosts: str) -> bool:
        """Return whether nodes cut their own links; only nodes on process hosts do."""
        return hosts == HostKind.PROCESS

    def hosts(self, paths: RunPaths) -> Hosts | None:
        """Return process hosts whose nodes cut their own links; None for other kinds of hosts."""
        if not self.cuts_by_itself(self.plan.hosts):
            return None
        return CuttingHosts(machines(self.plan), paths.processes)

    def cluster(self, hosts: Hosts, paths: RunPaths) -> KafkaCluster:
        """Return the reference cluster's brokers, not started."""
        return KafkaCluster(self.plan, hosts, programs=ReferencePrograms(), paths=paths)

    def commands(self) -> Mapping[str, str]:
        """Return nothing: the reference cluster brings no command-line tools."""
        return {}
