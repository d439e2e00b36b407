"""Label the trial containers of images, and remove the trial containers of dead processes."""

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
"""The label of a trial container. The label's value names the process that tests the image
(`Owner`)."""
TRIAL_S = 120
"""The lifetime of a trial container in seconds, even if Logquake is killed."""
FORGOTTEN_S = 10 * TRIAL_S
"""The age in seconds from which a trial container counts as left over, even if the owner runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that tests an image.

    Attributes:
        world: The boot and the process namespace in which the process id is valid. Users of one
            daemon may live in different process namespaces (man 7 pid_namespaces).
        process: The process.
    """

    world: str
    process: ProcessId

    @classmethod
    def me(cls) -> "Owner":
        """Return the current process as owner."""
        return cls(world=world(), process=process_id(os.getpid()))

    @classmethod
    def of(cls, label: str) -> "Owner | None":
        """Return the owner that a label names.

        The result is None if another version of Logquake wrote the label.
        """
        try:
            world, pid, start_ticks = label.split(" ")
            return cls(world=world, process=ProcessId(pid=int(pid), start_ticks=int(start_ticks)))
        except ValueError:
            return None

    def label(self) -> str:
        """Return the label for the trial containers of this process."""
        return f"{self.world} {self.process.pid} {self.process.start_ticks}"

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended.

        The result is False for a process of another boot or namespace, because such a process is
        not visible here.
        """
        return self.world == world() and not is_running(self.process)


def remove_dead_trials() -> list[str]:
    """Remove trial containers that were never started, because the owner was killed. Idempotent.

    Raises:
        UserError: The daemon does not answer.
        ClusterError: The daemon refuses.
    """
    with connected() as client:
        found = client.containers.list(
            all=True, filters={"label": TRIAL_LABEL}, ignore_removed=True
        )
        now = client.info()["SystemTime"] if found else ""
        return [
            f"removed the container {each.name}"
            for each in found
            # The daemon removes started containers by itself, perhaps at this moment.
            if is_left_over(each.labels[TRIAL_LABEL], age_s=age_s(each, now))
            and removed(partial(each.remove, force=True, v=True))
        ]


def is_left_over(label: str, *, age_s: float) -> bool:
    """Return whether a trial container's label or age shows that no process uses it any more."""
    owner = Owner.of(label)
    return age_s > FORGOTTEN_S or (owner is not None and owner.is_gone())


def age_s(container: Container, now: str) -> float:
    """Return a container's age in seconds, by the daemon's clock."""
    made = datetime.fromisoformat(container.attrs["Created"])
    return (datetime.fromisoformat(now) - made).total_seconds()
