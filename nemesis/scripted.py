"""The faults of a scenario. The scenario's script requests them one at a time.

A script knows its targets and times, so nothing is chosen at random or resolved here. All other
steps are the same as in a schedule: a line in the ledger, a row for each step, a measured effect,
and a confirmed heal. A background task may confirm a heal, so that the script can continue while a
broker starts.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from cluster.protocol import (
    Cluster,
    ClusterError,
    Hosts,
    Link,
    ProcessId,
)
from cluster.sessions import OUR_SESSION_S
from nemesis.broker_effects import StopEffect
from nemesis.brokers import GONE, STOPPED
from nemesis.claims import Claims
from nemesis.cluster_effects import Place
from nemesis.cut import Cut
from nemesis.grudges import grudge_of
from nemesis.kill import Kill
from nemesis.ledger import Ledger
from nemesis.life import CONFIRM_LIMIT_S, Book, Life
from nemesis.pause import Pause
from nemesis.power_loss import PowerLoss
from nemesis.protocol import FaultMaker, Named, Patience, Site
from nemesis.rows import FaultRows
from nemesis.scheduled import ScheduledFault
from nemesis.stop import Stop
from nemesis.sweep import HEAL_LIMIT_S, HealReport, all_back, sweep
from results.record.clock import RunClock, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.runtime import Event, Task, new_event, start

BACK_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
"""Seconds within which a broker ends by itself, even on a busy machine. Scripts expect that brokers
end gracefully."""
JOIN_LIMIT_S = 10.0
_DOWN = frozenset({"kill", "stop", "power-loss"})
_CUT = "cut"


@dataclass(slots=True, kw_only=True)
class _Scripted:
    """A fault of the script, and its background task if it has one."""

    kind: str
    targets: tuple[str, ...]
    life: Life
    healing: bool = False
    task: Task[object] | None = None
    stop: Event = field(default_factory=new_event)

    @property
    def fault_id(self) -> int:
        return self.life.scheduled.fault_id

    def in_background(self, deed: Callable[[], object]) -> None:
        name = f"fault-{self.fault_id}"
        self.task = start(deed, name)

    def wait(self) -> None:
        """Wait until the fault's background task has ended."""
        if self.task is not None:
            self.task.join()
            self.task = None

    def interrupt(self) -> None:
        """Stop the background task that confirms the fault's heal, and wait for its end."""
        self.stop.set()
        self.wait()


class ScriptedFaults:
    """Faults on brokers, controllers and links, at the request of a script.

    If a method cannot confirm its action, it raises `ClusterError` or `WaitTimeoutError` with one
    sentence. Only one task may use an instance.

    Args:
        cluster: The nodes, already started. Separate `controllers` are hit and healed like brokers.
        hosts: The machines. Cuts need `CanPartition`.
        clock: The clock of the run.
        paths: The paths of the ledger, the `faults` stream, and the nodes' files.
        seed: The seed of the run.
        machines: All machines that have links. Empty if only the nodes and controllers have links.
        session_s: Seconds for which the cluster counts an ended broker as alive.
        state_of: Returns the state of a process. None if the hosts report it.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        hosts: Hosts,
        clock: RunClock,
        paths: RunPaths,
        seed: int,
        machines: Sequence[str] = (),
        session_s: float = OUR_SESSION_S,
        state_of: Callable[[ProcessId], str | None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._site = Site.of(cluster, hosts, state_of, machines=machines, session_s=session_s)
        self._clock, self._seed = clock, seed
        self._ledger, self._rows = Ledger(paths.ledger), FaultRows(paths.live)
        self._started_s = stopwatch_s()
        self._faults: list[_Scripted] = []
        self._cuts: dict[str, _Scripted] = {}

    def kill(self, node: str) -> None:
        """Kill a node's process with SIGKILL, even if the process is paused."""
        self._take_down("kill", node, Kill)

    def stop(self, node: str, *, wait: bool = True) -> None:
        """Send SIGTERM to a node's process, and wait until it has ended by itself.

        Args:
            node: The node.
            wait: False to return at once. Then a background task sends the signal and waits.
        """
        fault = self._take_down("stop", node, partial(Stop, limit_s=STOP_LIMIT_S), wait=wait)
        effect = fault.life.effect if wait else None
        if isinstance(effect, StopEffect) and node not in effect.graceful:
            raise ClusterError(f"{node} did not exit within {STOP_LIMIT_S:g} s and was killed")

    def power_loss(self, node: str, places: Collection[Place] | None = None) -> None:
        """Kill a node's process with SIGKILL, and truncate its logs to the last flush.

        Args:
            node: The node.
            places: Partitions whose logs are truncated. None for all.
        """
        self._take_down("power-loss", node, partial(PowerLoss, places=places))

    def start(self, node: str, *, until_back: bool = True) -> None:
        """Start a node again. This heals its kill, stop or power loss.

        Args:
            node: The node.
            until_back: Whether to wait until the node is registered. Otherwise a background task
                confirms this, unless the node had ended by itself.
        """
        for fault in self._faults:
            if fault.kind in _DOWN and node in fault.targets and not fault.healing:
                fault.wait()  # A stop may still be in progress.
        if self.state(node) != "down":
            raise ClusterError(f"{node} cannot be started: it is {self.state(node)}")
        latest = self._latest(node, _DOWN)
        if latest is None:
            # It ended by itself, so there is no fault to heal.
            self._cluster.start_node(node)
            if until_back:
                wait_until(
                    lambda: all_back(self._site, (node,)),
                    timeout_s=BACK_LIMIT_S,
                    what=f"{node} to be registered",
                )
            return
        self._heal(latest, until_back=until_back)

    def pause(self, node: str) -> None:
        """Pause a node's process with SIGSTOP."""
        if self.state(node) != "up":
            raise ClusterError(f"{node} cannot be paused: it is {self.state(node)}")
        self._begin("pause", (node,), Pause)

    def resume(self, node: str) -> None:
        """Continue a node's process with SIGCONT. A background task confirms that this worked."""
        fault = self._latest(node, {"pause"})
        if fault is None or self.state(node) != "paused":
            raise ClusterError(f"{node} cannot be resumed: it is {self.state(node)}")
        self._heal(fault, until_back=False)
        wait_until(
            lambda: self.state(node) != "paused",
            timeout_s=CONFIRM_LIMIT_S,
            what=f"{node} to continue",
            interval_s=0.02,
        )

    def cut(self, name: str, links: Collection[Link]) -> None:
        """Drop the packets of directed links at the receiver.

        Args:
            name: The name of the cut for `join`.
            links: The links. They can be between any machines of the hosts, including `zk`.
        """
        if name in self._cuts:
            raise ClusterError(f"the cut {name!r} already exists")
        receivers = tuple(sorted({receiver for _, receiver in links}))
        make = partial(Cut, grudge=grudge_of(links))
        self._cuts[name] = self._begin(_CUT, receivers, make)

    def join(self, name: str) -> None:
        """Remove a cut, and confirm that its links work again."""
        fault = self._cuts.pop(name, None)
        if fault is None:
            raise ClusterError(f"the cut {name!r} does not exist")
        self._heal(fault, until_back=True, limit_s=JOIN_LIMIT_S)

    def heal_all(self, *, away: Collection[str] = (), limit_s: float = HEAL_LIMIT_S) -> HealReport:
        """Heal and confirm all active faults, and check nodes and links. Idempotent.

        Args:
            away: Nodes that stay down, because the script leaves them down.
            limit_s: The time limit for the faults, and again for the brokers.
        """
        for fault in self._faults:
            fault.interrupt()
            if fault.kind in _DOWN and set(fault.targets) <= set(away):
                fault.life.leave()
        lives = [fault.life for fault in self._faults if fault.life.in_force]
        return sweep(lives, self._site, away=away, limit_s=limit_s)

    def close(self) -> None:
        """End the `faults` stream. Nothing can be recorded after that."""
        for fault in self._faults:
            fault.interrupt()
        self._rows.close()

    def state(self, node: str) -> str:
        """Return the current state of a node's process: `up`, `paused` or `down`."""
        process = self._cluster.process(node)
        state = None if process is None else self._site.state_of(process)
        return "down" if state in GONE else "paused" if state in STOPPED else "up"

    def deaf_to(self, node: str) -> tuple[str, ...]:
        """Return the machines whose packets to a node are cut."""
        network = self._site.network
        cut = network.cut_links() if network else frozenset()
        return tuple(sorted(sender for sender, receiver in cut if receiver == node))

    def _take_down(self, kind: str, node: str, make: FaultMaker, *, wait: bool = True) -> _Scripted:
        if self.state(node) == "down":
            raise ClusterError(f"{node} is already down")
        ended = [fault for fault in self._faults if fault.life.in_force and node in fault.targets]
        ended = [fault for fault in ended if fault.kind != _CUT]
        if wait:
            fault = self._begin(kind, (node,), make)
            self._supersede(ended, fault)
            return fault
        fault = self._new(kind, (node,), make)

        def take_down() -> None:
            fault.life.begin(fault.stop)
            if fault.life.confirmed:
                self._supersede(ended, fault)

        fault.in_background(take_down)
        return fault

    def _supersede(self, ended: Sequence[_Scripted], by: _Scripted) -> None:
        """Mark the given earlier faults as ended, because their process no longer exists."""
        for fault in ended:
            fault.interrupt()
            fault.life.superseded(by.fault_id)

    def _begin(self, kind: str, targets: tuple[str, ...], make: FaultMaker) -> _Scripted:
        fault = self._new(kind, targets, make)
        fault.life.begin(fault.stop)
        if not fault.life.confirmed:
            why = fault.life.row.spec.without_effect
            raise ClusterError(f"{kind} of {', '.join(targets)} had no effect: {why}")
        return fault

    def _new(self, kind: str, targets: tuple[str, ...], make: FaultMaker) -> _Scripted:
        scheduled = ScheduledFault(
            fault_id=len(self._faults) + 1,
            at_s=round(stopwatch_s() - self._started_s, 3),
            kind=kind,
            target=",".join(targets),
            hold_s=0,
        )
        book = Book(
            clock=self._clock, ledger=self._ledger, rows=self._rows, claims=Claims(),
            seed=self._seed,
        )  # fmt: skip
        life = Life(scheduled, Named(nodes=targets, make=make), site=self._site, book=book)
        fault = _Scripted(kind=kind, targets=targets, life=life)
        self._faults.append(fault)
        return fault

    def _latest(self, node: str, kinds: Collection[str]) -> _Scripted | None:
        for fault in reversed(self._faults):
            if fault.kind in kinds and node in fault.targets and fault.life.in_force:
                return fault
        return None

    def _heal(self, fault: _Scripted, *, until_back: bool, limit_s: float = BACK_LIMIT_S) -> None:
        fault.interrupt()
        fault.stop.clear()
        fault.healing = True
        what = f"{fault.kind} of {', '.join(fault.targets)}"
        if not fault.life.heal():
            raise ClusterError(f"{what} is not healed: {fault.life.row.spec.not_healed}")
        patience = Patience(limit_s=limit_s, stop=fault.stop)
        if not until_back:
            fault.in_background(lambda: fault.life.confirm_healed(patience))
        elif not fault.life.confirm_healed(patience):
            raise ClusterError(f"{what} is not healed: {fault.life.row.spec.not_healed}")
