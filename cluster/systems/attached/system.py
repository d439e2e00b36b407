"""The system under test `attached:FILE.toml`: a cluster that already runs."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.hosts.choose import HostKind
from cluster.protocol import Hosts, UserError
from cluster.systems.attached.asking import ALTER, Attached, Told
from cluster.systems.attached.cluster import AttachedCluster
from cluster.systems.attached.contract import budgets_for, played_settings, unread
from cluster.systems.attached.hosts import AttachedHosts
from cluster.systems.system import Say
from results.environment import Told as Environment
from results.record.attached_file import PREFIX
from results.record.declared import Declared, Sight
from results.record.nodes import FIRST_CONTROLLER, MOST_CONTROLLERS, broker_names, node_id
from results.record.paths import RunPaths
from results.record.plan import ATTACHED, Plan, plan_from
from results.record.plan_parts import PlannedFault

MOST_NODES = 9
_TOPIC = re.compile(rf"(?:{PREFIX}[0-9a-f]{{8}}-)?\blog-(?=\d)")
"""This pattern matches a run's topic in a planned fault. An earlier run's prefix is optional."""
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "kill": ("status", "kill", "start"),
    "stop": ("status", "stop", "kill", "start"),
    "pause": ("status", "pause", "resume", "start"),
    "cut": ("reach", "cut", "join"),
}
"""For each ability, the user's commands that inject, undo and verify the ability's faults."""
_NEVER = {
    "cut-clients": (
        "a cut between the harness and a node would also cut off the harness's commands"
    ),
    "one-way": "commands of an attached cluster cut in both directions",
    "shape": "an attached cluster has no command that degrades links",
    "shape-clients": "an attached cluster has no command that degrades links",
    "connections": "an attached cluster has no command that breaks a connection",
    "disk": "an attached cluster has no command that fills a disk",
    "clock": "an attached cluster has no command that shifts a clock",
    "faulty-disk": "an attached cluster has no command that makes disk requests fail",
    "resources": "an attached cluster has no command that limits a server's resources",
    "slow-disk": "an attached cluster has no command that slows a disk down",
    "files": "Logquake only reads the files of an attached cluster and never writes them",
    "topics": "on an attached cluster, the topics of this fault would not have the run's prefix",
    "quorum": "it is not known which nodes keep the metadata of an attached cluster",
}
_LEFT_BEHIND = (
    "The run's topics and groups were deleted. Records in internal topics (commits of groups,"
    " states of transactions) cannot be removed."
)


@dataclass(slots=True)
class AttachedSystem:
    """Implements `cluster.systems.system.System` for an attached cluster.

    Args:
        plan: The run's plan.

    Raises:
        PlanError, UserError: The cluster's file, or a file named in it, cannot be read.
    """

    plan: Plan
    _attached: Attached | None = None
    _told: Told | None = None

    @property
    def attached(self) -> Attached:
        """The cluster described by the file."""
        if self._attached is None:
            self._attached = Attached(Path(self.plan.named.path).expanduser().absolute())
        return self._attached

    def refuse(self, *, keep: bool) -> None:
        """Raise if `keep` is set, or if the plan has a scenario, broker settings or other hosts."""
        plan = self.plan
        if plan.scenario is not None:
            raise UserError(
                f"the scenario {plan.scenario.name} needs its own brokers; use a release, such as"
                " --system kafka:4.3.1"
            )
        if plan.hosts not in {"auto", HostKind.ATTACHED}:
            raise UserError(f"an attached cluster has its own hosts; remove --hosts {plan.hosts}")
        # In a plan that was already run, these are the settings of that time. They are read again.
        if plan.prefix is None and (plan.broker or plan.node or plan.features):
            raise UserError(
                "Logquake does not change the settings of an attached cluster; remove --set and"
                " [broker]"
            )
        what = {"--keep": keep, "--bug": plan.bug, "--image": plan.image, "disk_mb": plan.disk_mb}
        if given := [name for name, value in what.items() if value]:
            raise UserError(f"{given[0]} has no effect on an attached cluster; remove it")

    def settled(self, say: Say) -> Plan:
        """Return the plan with the cluster's brokers, settings and budgets, and with a new prefix.

        Raises:
            UserError: The cluster does not answer, or a run cannot use it.
            PlanError: The plan does not fit the cluster.
        """
        told = self._asked()
        path, file = self.attached.path, self.attached.file
        ids = sorted(map(node_id, told.endpoints))
        _refuse_brokers(path, ids, [*file.node])
        if told.ours:
            raise UserError(
                f"the cluster has topics of another run ({told.ours[0]}); wait for the end of"
                f" that run, or, if its process has died, type: logquake heal {path}"
            )
        say(f"cluster {told.cluster_id}: brokers {', '.join(map(str, ids))}")
        prefix = f"{PREFIX}{secrets.token_hex(4)}-"
        settings = played_settings(told)
        changed: dict[str, object] = {
            "system": f"attached:{path}",
            "hosts": ATTACHED,
            "nodes": len(ids),
            "broker_ids": ids,
            "prefix": prefix,
            "min_insync": settings.least_insync,
            "broker": dict(settings.of_all),
            "node": {node: dict(own) for node, own in settings.of_single.items()},
            "budgets": budgets_for(self.plan.budgets, told).model_dump(),
        }
        if file.version is not None:
            changed["version"] = file.version
        if self.plan.faults is not None:
            changed["faults"] = [_of_run(fault, prefix) for fault in self.plan.faults]
        checked = plan_from(self.plan.model_dump(mode="json", exclude_none=True) | changed)
        # The copy still distinguishes the user's values from defaults.
        return self.plan.model_copy(update={key: getattr(checked, key) for key in changed})

    def prepare(self, say: Say) -> None:
        """Do nothing: the cluster already runs."""

    def declared(self) -> Declared:
        """Return the possible observations, and why each missing ability is missing."""
        told = self._asked()
        sees = {Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}
        if self._lacks("status") is None:
            sees.add(Sight.ENDS)
        if self._lacks("files") is None:
            sees.add(Sight.REPLICA_LOGS)
        lacking = {
            ability: next(filter(None, map(self._lacks, needs)), "")
            for ability, needs in _NEEDS.items()
        }
        cannot = {ability: why for ability, why in lacking.items() if why}
        if not told.may(ALTER):
            why = "the user for the attached cluster does not have the ALTER permission"
            cannot |= {"elect": why, "reassign": why}
        return Declared(
            what=f"the attached cluster {told.cluster_id}"[:200],
            sees=frozenset(sees),
            cannot={**_NEVER, **cannot},
            notes=(_LEFT_BEHIND,),
            unread=unread(told),
        )

    def told(self) -> Environment:
        """Return the cluster's id."""
        return Environment(brokers={"cluster_id": self._asked().cluster_id})

    def cluster_id(self) -> str:
        """Return the cluster id, which the user types to confirm."""
        return self._asked().cluster_id

    def cuts_by_itself(self, hosts: str) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: an attached cluster's nodes cannot cut links themselves."""
        return False

    def hosts(self, paths: RunPaths) -> AttachedHosts:
        """Return the attached cluster's machines."""
        assert self.plan.prefix is not None, "`settled` was not called for the plan"
        return AttachedHosts(
            self.attached, broker_names(self.plan), prefix=self.plan.prefix, paths=paths
        )

    def cluster(self, hosts: Hosts, paths: RunPaths) -> AttachedCluster:  # noqa: ARG002 - the protocol's
        """Return the attached cluster's brokers, which already run."""
        assert isinstance(hosts, AttachedHosts), "an attached cluster has its own hosts"
        return AttachedCluster(self.plan, hosts, sees=self.declared().sees)

    def commands(self) -> Mapping[str, str]:
        """Return nothing: an attached cluster brings no command-line tools."""
        return {}

    def _asked(self) -> Told:
        if self._told is None:
            self._told = self.attached.told()
        return self._told

    def _lacks(self, what: str) -> str | None:
        """Return a sentence about a node that lacks a command; None if every node has it."""
        file, path = self.attached.file, self.attached.path
        for broker_id in sorted(map(node_id, self._asked().endpoints)):
            if getattr(file.commands(broker_id), what) is None:
                return f"n{broker_id} has no command `{what}` in {path.name}"
        return None


def _of_run(fault: PlannedFault, prefix: str) -> dict[str, object]:
    """Return a planned fault with this run's topic names."""
    values = fault.model_dump(mode="json", exclude_none=True)
    named = {key: values[key] for key in ("target", "when") if key in values}
    return values | {key: _TOPIC.sub(f"{prefix}log-", text) for key, text in named.items()}


def _refuse_brokers(path: Path, ids: list[int], named: list[int]) -> None:
    if missing := sorted({*named} - {*ids}):
        raise UserError(
            f"{path}: broker {missing[0]} of [node.{missing[0]}] is not registered; start it, or"
            " remove its table"
        )
    if len(ids) > MOST_NODES:
        raise UserError(
            f"the cluster has {len(ids)} brokers, but at most {MOST_NODES} are supported"
        )
    if taken := [each for each in ids if 0 <= each - FIRST_CONTROLLER < MOST_CONTROLLERS]:
        raise UserError(
            f"broker {taken[0]}: the ids {FIRST_CONTROLLER} to"
            f" {FIRST_CONTROLLER + MOST_CONTROLLERS - 1} are reserved for controllers; use"
            " another id"
        )
