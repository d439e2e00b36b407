"""The faults of a scenario: asked for one by one, each with the life of any other fault.

A script knows whom it hits and when, so nothing is dealt or resolved here; what is the same is the
line in the ledger before, the row at each step, the effect that was measured and the heal that was
confirmed. Who confirms a heal may be a task of its own: a story goes on while a broker starts.
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
"""A story that stops a broker wants to see it end by itself, however busy the machine."""
JOIN_LIMIT_S = 10.0
_DOWN = frozenset({"kill", "stop", "power-loss"})
_CUT = "cut"


@dataclass(slots=True, kw_only=True)
class _Scripted:
    """A fault of the script, and the task that is busy with it, if there is one."""

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
        """Wait until nobody is busy with it."""
        if self.task is not None:
            self.task.join()
            self.task = None

    def interrupt(self) -> None:
        """Have whoever confirms its heal give up, and wait for that."""
        self.stop.set()
        self.wait()


class ScriptedFaults:
    """Faults on brokers, controllers and links, at a script's word.

    Every method raises `ClusterError` or `WaitTimeoutError`, one sentence, if what it should do
    could not be confirmed. It is for one task.

    Args:
        cluster: Its nodes, started; `controllers` of its own are hit and healed like brokers.
        hosts: Its machines; cuts need `CanPartition`.
        clock: The run's.
        paths: Where the ledger and the `faults` stream go, and the nodes' files are.
        seed: The run's.
        machines: All that have links; none: the nodes and controllers.
        session_s: For how long a broker that is gone counts as alive.
        state_of: How to learn a process's state; None: the hosts know.
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
        """SIGKILL a node's process; a paused one too, whose pause is over by that."""
        self._take_down("kill", node, Kill)

    def stop(self, node: str, *, wait: bool = True) -> None:
        """SIGTERM a node's process, and wait until it has ended by itself.

        Args:
            node: Which.
            wait: False: return as soon as it is told.
        """
        fault = self._take_down("stop", node, partial(Stop, limit_s=STOP_LIMIT_S), wait=wait)
        effect = fault.life.effect if wait else None
        if isinstance(effect, StopEffect) and node not in effect.graceful:
            raise ClusterError(f"{node} did not end within {STOP_LIMIT_S:g} s, and was killed")

    def power_loss(self, node: str, places: Collection[Place] | None = None) -> None:
        """SIGKILL a node's process, and cut its logs where they were last flushed.

        Args:
            node: Which.
            places: Partitions whose logs are cut; None: all that it has.
        """
        self._take_down("power-loss", node, partial(PowerLoss, places=places))

    def start(self, node: str, *, until_back: bool = True) -> None:
        """Start a node again: the heal of its kill, stop or power loss.

        Args:
            node: Which.
            until_back: Wait until it is registered; otherwise that is confirmed aside.
        """
        for fault in self._faults:
            if fault.kind in _DOWN and node in fault.targets and not fault.healing:
                fault.wait()  # It was told to stop, and may be about to.
        if self.state(node) != "down":
            raise ClusterError(f"{node} cannot be started: it is {self.state(node)}")
        latest = self._latest(node, _DOWN)
        if latest is None:
            # It ended by itself, which is no fault of ours: nothing to heal in its record.
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
        """SIGSTOP a node's process."""
        if self.state(node) != "up":
            raise ClusterError(f"{node} cannot be paused: it is {self.state(node)}")
        self._begin("pause", (node,), Pause)

    def resume(self, node: str) -> None:
        """SIGCONT a node's process: the heal of its pause. That it is back is confirmed aside."""
        fault = self._latest(node, {"pause"})
        if fault is None or self.state(node) != "paused":
            raise ClusterError(f"{node} cannot be resumed: it is {self.state(node)}")
        self._heal(fault, until_back=False)
        wait_until(
            lambda: self.state(node) != "paused",
            timeout_s=CONFIRM_LIMIT_S,
            what=f"{node} to go on",
            interval_s=0.02,
        )

    def cut(self, name: str, links: Collection[Link]) -> None:
        """Drop what travels over links, each directed, at its receiver.

        Args:
            name: By which `join` finds it.
            links: Of any machines of the hosts, `zk` too.
        """
        if name in self._cuts:
            raise ClusterError(f"there is a cut {name!r} already")
        receivers = tuple(sorted({receiver for _, receiver in links}))
        make = partial(Cut, grudge=grudge_of(links))
        self._cuts[name] = self._begin(_CUT, receivers, make)

    def join(self, name: str) -> None:
        """Undo a cut, and see that its links work again."""
        fault = self._cuts.pop(name, None)
        if fault is None:
            raise ClusterError(f"there is no cut {name!r}")
        self._heal(fault, until_back=True, limit_s=JOIN_LIMIT_S)

    def heal_all(self, *, away: Collection[str] = (), limit_s: float = HEAL_LIMIT_S) -> HealReport:
        """Heal whatever is in force, confirm it, and look over nodes and links. Idempotent.

        Args:
            away: Nodes that stay down, because the script leaves them so.
            limit_s: How long to wait for the faults, and for the brokers.
        """
        for fault in self._faults:
            fault.interrupt()
            if fault.kind in _DOWN and set(fault.targets) <= set(away):
                fault.life.leave()
        lives = [fault.life for fault in self._faults if fault.life.in_force]
        return sweep(lives, self._site, away=away, limit_s=limit_s)

    def close(self) -> None:
        """End the `faults` stream; nothing can be recorded after it."""
        for fault in self._faults:
            fault.interrupt()
        self._rows.close()

    def state(self, node: str) -> str:
        """Return `up`, `paused` or `down`, as a node's process is now."""
        process = self._cluster.process(node)
        state = None if process is None else self._site.state_of(process)
        return "down" if state in GONE else "paused" if state in STOPPED else "up"

    def deaf_to(self, node: str) -> tuple[str, ...]:
        """Return the machines whose packets do not reach a node, because of cuts."""
        network = self._site.network
        cut = network.cut_links() if network else frozenset()
        return tuple(sorted(sender for sender, receiver in cut if receiver == node))

    def _take_down(self, kind: str, node: str, make: FaultMaker, *, wait: bool = True) -> _Scripted:
        if self.state(node) == "down":
            raise ClusterError(f"{node} is down already")
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
        """End the records of faults that are over because their process is gone."""
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
