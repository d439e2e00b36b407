"""Containers in which images are tried: whose they are, and which of them are left over."""

import os
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from docker.models.containers import Container

from cluster.hosts.docker.daemon import connected
from cluster.hosts.docker.objects import removed
from cluster.hosts.signals import is_running, process_id
from cluster.protocol import ProcessId
from results.record.world import world

TRIAL_LABEL = "logquake.trial"
"""Its value names the process that tries (`Owner`)."""
TRIAL_S = 120
"""A container of a trial lives no longer, whatever becomes of us."""
FORGOTTEN_S = 10 * TRIAL_S
"""Nobody tries anything for so long: of what is older nobody needs to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who tries an image.

    Attributes:
        world: Where its number means it: a boot of a machine, and a namespace of processes, for
            who shares a daemon may live in another (man 7 pid_namespaces).
        process: The process.
    """

    world: str
    process: ProcessId

    @classmethod
    def me(cls) -> "Owner":
        """Return this process."""
        return cls(world=world(), process=process_id(os.getpid()))

    @classmethod
    def of(cls, label: str) -> "Owner | None":
        """Return whom a label names; None: it is none of this version's."""
        try:
            world, pid, start_ticks = label.split(" ")
            return cls(world=world, process=ProcessId(pid=int(pid), start_ticks=int(start_ticks)))
        except ValueError:
            return None

    def label(self) -> str:
        """Return the label."""
        return f"{self.world} {self.process.pid} {self.process.start_ticks}"

    def is_gone(self) -> bool:
        """Tell whether it does not run any more, and this process is one that would see it run."""
        return self.world == world() and not is_running(self.process)


def remove_dead_trials() -> list[str]:
    """Remove containers of trials whose process was killed before it could start them. Idempotent.

    Raises:
        UserError: The daemon does not answer.
        ClusterError: It refuses.
    """
    with connected() as client:
        found = client.containers.list(
            all=True, filters={"label": TRIAL_LABEL}, ignore_removed=True
        )
        now = client.info()["SystemTime"] if found else ""
        return [
            f"removed the container {each.name}"
            for each in found
            # Those that were started the daemon removes by itself, maybe just now.
            if is_left_over(each.labels[TRIAL_LABEL], age_s=age_s(each, now))
            and removed(partial(each.remove, force=True, v=True))
        ]


def is_left_over(label: str, *, age_s: float) -> bool:
    """Tell whether nobody can be trying a container, by its label and its age."""
    owner = Owner.of(label)
    return age_s > FORGOTTEN_S or (owner is not None and owner.is_gone())


def age_s(container: Container, now: str) -> float:
    """Return how long ago a container was made, both by the daemon's clock."""
    made = datetime.fromisoformat(container.attrs["Created"])
    return (datetime.fromisoformat(now) - made).total_seconds()
