"""The fault `read-only`: a broker is stopped, and its disk is read-only when it starts again.

This happens if a file system detects damage and is remounted read-only. While a broker has files
open for writing, the remount fails with EBUSY (mount(2)). So the fault first stops the broker
cleanly. Then it starts the broker once on the read-only disk. The broker cannot write its lock file
and ends by itself with EROFS. The heal makes the disk writable and starts the broker. No data is
lost.
"""

from cluster.protocol import ClusterError
from nemesis.brokers import GONE, on_each
from nemesis.disk_effects import DiskRightEffect, ReadOnlyEffect
from nemesis.disks import HitDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.stop import STOP_LIMIT_S
from nemesis.undo import Restart, UnlockDisk
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

READ_ONLY = "EROFS"
GONE_LIMIT_S = 10.0
REFUSAL_LIMIT_S = 40.0
"""Seconds within which Java starts on a busy machine and finds that it cannot write."""


class ReadOnly:
    """A fault that stops brokers. They then cannot start, because their disks are read-only.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit disks.

    Raises:
        ClusterError: The hosts do not limit disks, or the brokers cannot be killed.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._site, self._stop = site, aim.stop
        self._hit = HitDisks(aim, site)
        self._graceful: list[str] = []
        self._refused: dict[str, int] = {}
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[UnlockDisk | Restart, ...]:
        """Return the undo steps: make the disks writable, and start the brokers."""
        disks = tuple(UnlockDisk(node=node) for node in self.targets)
        return (*disks, *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """Stop the brokers, make their disks read-only, and try to start the brokers.

        Raises:
            ClusterError: A broker does not end: either when it is stopped, or when it is started on
                the read-only disk. Or a disk cannot be made read-only.
        """
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._hit.note_before(node)
            if self._site.cluster.stop_node(node, STOP_LIMIT_S):
                self._graceful.append(node)
        if not self._hit.brokers.wait_states(GONE, Patience(limit_s=GONE_LIMIT_S)):
            raise ClusterError(
                f"{', '.join(self.targets)} did not exit, so no disk was made read-only"
            )
        for node in self.targets:
            self._lock(node)
            self._try_start(node)

    def confirm(self, patience: Patience) -> ReadOnlyEffect | None:
        """Confirm that the disks reject a test page."""
        if not self._hit.brokers.wait_states(GONE, patience):
            return None
        errors = self._hit.refuse(READ_ONLY)
        if errors is None:
            return None
        return ReadOnlyEffect(
            took_s=stopwatch_s() - self._started_s,
            errors=errors,
            graceful=tuple(self._graceful),
            processes=self._hit.brokers.changes(),
            refused=self._refused,
        )

    def heal(self) -> None:
        """Make the disks writable, and start the brokers that are down."""
        self._hit.brokers.note_heal()
        on_each(self.targets, self._unlock)

    def confirm_healed(self, patience: Patience) -> DiskRightEffect | None:
        """Confirm that the disks accept a test page, and that the brokers are registered again."""
        return self._hit.wait_right(patience)

    def _unlock(self, node: str) -> None:
        self._hit.disks.unlock_disk(node)
        self._hit.brokers.start_missing([node])

    def _lock(self, node: str) -> None:
        """Make a disk read-only once all threads of the ended broker have closed their files.

        The process counts as ended when its first thread has ended. On a busy machine, its other
        threads end later.
        """
        refusal: ClusterError | None = None

        def locked() -> bool:
            nonlocal refusal
            try:
                self._hit.disks.lock_disk(node)
            except ClusterError as busy:
                refusal = busy
                return False
            return True

        try:
            wait_until(
                locked,
                timeout_s=GONE_LIMIT_S,
                what=f"all files on the disk of {node} to be closed",
                stop=self._stop,
            )
        except WaitTimeoutError as late:
            raise ClusterError(str(refusal or late)) from late

    def _try_start(self, node: str) -> None:
        process = self._site.cluster.start_node(node)
        try:
            wait_until(
                lambda: self._site.state_of(process) in GONE,
                timeout_s=REFUSAL_LIMIT_S,
                what=f"{node} to find that it cannot write to its disk",
                stop=self._stop,
            )
        except WaitTimeoutError as late:
            raise ClusterError(str(late)) from late
        finally:
            # The fault ends this broker, so its end is not a failure of the run.
            self._hit.killer.kill_node(node)
        self._refused[node] = process.pid


SAYS = {
    "read-only": InWords(
        does="a broker's disk is read-only, so that the broker cannot start",
        injected="SIGTERM, remount read-only, a start that fails",
        proven="a test write gets EROFS; the broker exited by itself",
        undone="remount; a start; a test write succeeds",
    ),
}
