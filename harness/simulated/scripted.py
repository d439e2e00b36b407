"""What the steps of a story do in virtual time: messages that are sent, and faults."""

import json
from collections.abc import Callable, Collection, Generator
from dataclasses import replace
from random import Random

import numpy as np

from cluster.protocol import ClusterError, Link
from harness.simulated.asker import came, passed
from harness.simulated.clock import VirtualClock
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.errands import Errand, Steps, until
from harness.simulated.faults import Aim, Deed, deed_of, deed_of_links
from harness.simulated.worker import ClientHosts
from nemesis.effects import SupersededEffect, effect_to_json
from nemesis.registry import KINDS
from nemesis.rows import FaultRow, FaultRows, Spec, roles_of
from results.record.clock import NS_PER_S
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import F
from results.record.topics import CreatedTopic
from workloads.protocol import Reservation, Send, SendResult
from workloads.scripted import REPORT_GRACE_S, Script, SendOutcome, outcomes_of, unreported

BACK_LIMIT_S = 60.0
FIRST_OF_SCRIPT = 200
"""Of those who make clients: behind all others."""
_DOWN = frozenset({"kill", "stop", "power-loss"})


class Sending:
    """Messages that are under way; the time that they take passes while somebody waits."""

    def __init__(self, cluster: SimulatedCluster, steps: Callable[["Sending"], Steps]) -> None:
        self.outcomes: list[SendOutcome] = []
        self._simulation = cluster.simulation
        self._errand = Errand(cluster.simulation.agenda, steps(self))

    def result(self) -> list[SendOutcome]:
        """Wait until each is answered or given up."""
        came(self._simulation, lambda: self._errand.over, limit_s=3600)
        return self.outcomes


class Aside:
    """Begins what goes on beside a story; it needs no thread here."""

    def __init__(self, begin: Callable[..., Sending]) -> None:
        self._begin = begin
        self._begun: list[Sending] = []

    def submit(self, _send: object, /, *words: object, **named: object) -> Sending:
        """Begin to send, by the way of simulated clients."""
        sending = self._begin(*words, **named)
        self._begun.append(sending)
        return sending

    def shutdown(self, *, wait: bool) -> None:
        """Wait for what was begun: each message has a limit. Idempotent."""
        if wait:
            for sending in self._begun:
                sending.result()


class SimulatedScript(Script):
    """The clients of a simulated story; see `workloads.scripted.Script`.

    Args:
        plan: Its settings of clients apply.
        topic: The story's.
        cluster: The brokers.
        paths: The run.
    """

    def __init__(
        self, plan: Plan, topic: CreatedTopic, *, cluster: SimulatedCluster, paths: RunPaths
    ) -> None:
        clock = VirtualClock(agenda=cluster.simulation.agenda)
        super().__init__(plan, topic, "", clock=clock, live=paths.live)
        self._cluster, self._calls = cluster, 0

    def begin_to_send(
        self,
        count: int,
        *,
        acks: str = "all",
        together: bool = False,
        within_s: float = 30.0,
        only_to: str | None = None,
    ) -> Sending:
        """Begin to send the next messages, as `Script.send` does."""
        plan = self.plan_of_sends(acks, together=together, within_s=within_s)
        nodes = [only_to] if only_to else list(self._cluster.nodes)
        self._calls += 1
        hosts = ClientHosts(
            self._cluster.simulation,
            plan,
            [self._cluster.hosts[node].id for node in nodes],
            first=FIRST_OF_SCRIPT + self._calls,
        )
        sizes = [count] if together else [1] * count
        return Sending(self._cluster, lambda sending: self._steps(sending, hosts, sizes, plan))

    def _steps(self, sending: Sending, hosts: ClientHosts, sizes: list[int], plan: Plan) -> Steps:
        producer, recorder = hosts.producer(), self.recorder(plan.acks)
        for size in sizes:
            values = self.next_values(size)
            recorder.reserve(Reservation(value_from=values[0], value_to=values[-1] + 1))
            op = Send(key=self.key, values=np.array(values, dtype=np.int64))
            op_id = self.begin(recorder, F.SEND, self.new_process())
            recorder.sending(op_id, op)
            results: list[SendResult] = []
            producer.send(op, results.append)
            yield from until(
                self._cluster.simulation.agenda,
                _any(results),
                limit_s=plan.delivery_timeout_s + REPORT_GRACE_S,
                interval_s=0.01,
            )
            result = results[0] if results else unreported(size)
            recorder.sent(op_id, result)
            self.end(recorder, op_id, result.worst, result.error)
            sending.outcomes += outcomes_of(values, result)


def _any(results: list[SendResult]) -> Callable[[], bool]:
    return lambda: bool(results)


class _Fault:
    """One fault of a story, and its row."""

    def __init__(self, kind: str, deed: Deed, row: FaultRow) -> None:
        self.kind, self.deed, self.row = kind, deed, row
        self.healing = self.over = False


class SimulatedFaults:
    """Faults at a script's word, as `nemesis.scripted.ScriptedFaults` on real hosts.

    Args:
        cluster: Whom they hit.
        paths: Where rows go.
        seed: The run's.
    """

    def __init__(self, cluster: SimulatedCluster, paths: RunPaths, seed: int) -> None:
        self._cluster, self._seed = cluster, seed
        self._simulation = cluster.simulation
        self._rows = FaultRows(paths.live)
        self._started_ns = cluster.simulation.now_ns
        self._faults: list[_Fault] = []
        self._cuts: dict[str, _Fault] = {}

    def kill(self, node: str) -> None:
        """Kill a node's process; a paused one too."""
        self._take_down("kill", node)

    def stop(self, node: str, *, wait: bool = True) -> None:
        """Stop a node's process in good order."""
        if not wait:
            raise ClusterError("a stop that nobody waits for is not simulated")
        self._take_down("stop", node)

    def power_loss(self, node: str, places: object = None) -> None:
        """Take a node's power."""
        del places
        self._take_down("power-loss", node)

    def start(self, node: str, *, until_back: bool = True) -> None:
        """Start a node again: the heal of its kill, stop or power loss."""
        latest = self._latest(node, _DOWN)
        if self.state(node) != "down" or latest is None:
            raise ClusterError(f"{node} cannot be started: it is {self.state(node)}")
        self._heal(latest, until_back=until_back)

    def pause(self, node: str) -> None:
        """Have a node's process stand still."""
        if self.state(node) != "up":
            raise ClusterError(f"{node} cannot be paused: it is {self.state(node)}")
        self._begin("pause", self._deed("pause", node))

    def resume(self, node: str) -> None:
        """Let it go on."""
        fault = self._latest(node, {"pause"})
        if fault is None or self.state(node) != "paused":
            raise ClusterError(f"{node} cannot be resumed: it is {self.state(node)}")
        self._heal(fault, until_back=False)

    def cut(self, name: str, links: Collection[Link]) -> None:
        """Cut links, each directed."""
        if name in self._cuts:
            raise ClusterError(f"there is a cut {name!r} already")
        number = len(self._faults) + 1
        deed = deed_of_links(f"fault-{number}", tuple(links), self._cluster)
        self._cuts[name] = self._begin("cut", deed)

    def join(self, name: str) -> None:
        """Undo a cut."""
        fault = self._cuts.pop(name, None)
        if fault is None:
            raise ClusterError(f"there is no cut {name!r}")
        self._heal(fault, until_back=True)

    def heal_all(self) -> list[str]:
        """Heal whatever is in force; return a sentence for each that is not healed."""
        failed = []
        for fault in self._faults:
            if fault.over:
                continue
            try:
                self._heal(fault, until_back=True)
            except ClusterError as still:
                failed.append(str(still))
        return failed

    def close(self) -> None:
        """End the stream."""
        self._rows.close()

    def state(self, node: str) -> str:
        """Return `up`, `paused` or `down`."""
        return {None: "down", "T": "paused"}.get(self._cluster.state_of(node), "up")

    def deaf_to(self, node: str) -> tuple[str, ...]:
        """Return the machines that a node does not hear, because of cuts."""
        return tuple(sorted({
            sender
            for fault in self._cuts.values()
            for sender, receiver in fault.deed.links
            if receiver == node
        }))  # fmt: skip

    def _deed(self, kind: str, node: str) -> Deed:
        number = len(self._faults) + 1
        rng = Random(f"{self._seed}/nemesis/{number}")
        aim = Aim(fault_id=number, kind=kind, targets=(node,), rng=rng)
        return deed_of(aim, self._cluster)

    def _take_down(self, kind: str, node: str) -> None:
        if self.state(node) == "down":
            raise ClusterError(f"{node} is down already")
        ended = [each for each in self._faults if node in each.deed.targets and not each.over]
        by = self._begin(kind, self._deed(kind, node))
        for each in ended:
            if each.kind != "cut":
                self._end(each, effect_to_json(SupersededEffect(by_fault=by.row.fault_id)))

    def _begin(self, kind: str, deed: Deed) -> _Fault:
        now_ns = self._simulation.now_ns
        spec = Spec(
            kind=kind,
            family=KINDS[kind].family if kind in KINDS else "",
            target=",".join(deed.targets),
            hold_s=0,
            at_s=(now_ns - self._started_ns) / NS_PER_S,
            roles=roles_of(deed.targets, self._cluster.view()),
            links=deed.links,
            begun=True,
        )
        number = len(self._faults) + 1
        row = FaultRow(fault_id=number, spec=spec, targets=deed.targets, requested_ns=now_ns)
        fault = _Fault(kind, deed, row)
        self._faults.append(fault)
        self._rows.write(row)
        passed(self._simulation, deed.inject())
        effect = passed(self._simulation, deed.confirm())
        if effect is None:
            why = "no effect could be measured in time"
            self._write(fault, replace(
                row,
                spec=replace(spec, without_effect=why),
                effect=json.dumps({"without_effect": why}),
            ))  # fmt: skip
            raise ClusterError(f"{kind} of {spec.target} had no effect: {why}")
        self._write(fault, replace(
            row, confirmed_ns=self._simulation.now_ns, effect=effect_to_json(effect)
        ))  # fmt: skip
        return fault

    def _heal(self, fault: _Fault, *, until_back: bool) -> None:
        if not fault.healing:
            fault.healing = True
            fault.deed.heal()
        if not until_back:
            Errand(self._simulation.agenda, _finished(self._confirm(fault)))
        elif not passed(self._simulation, self._confirm(fault)):
            raise ClusterError(f"{fault.kind} of {', '.join(fault.deed.targets)} is not healed")

    def _confirm(self, fault: _Fault) -> Generator[float, None, bool]:
        effect = yield from fault.deed.confirm_healed(BACK_LIMIT_S)
        if fault.over:
            return True
        if effect is not None:
            self._end(fault, effect_to_json(effect))
            return True
        why = "the heal could not be confirmed in time"
        self._write(fault, replace(
            fault.row,
            spec=replace(fault.row.spec, not_healed=why),
            heal_effect=json.dumps({"not_healed": why}),
        ))  # fmt: skip
        return False

    def _end(self, fault: _Fault, heal_effect: str) -> None:
        fault.over = True
        self._write(fault, replace(
            fault.row,
            spec=replace(fault.row.spec, not_healed=None),
            healed_ns=self._simulation.now_ns,
            heal_effect=heal_effect,
        ))  # fmt: skip

    def _latest(self, node: str, kinds: Collection[str]) -> _Fault | None:
        for fault in reversed(self._faults):
            if fault.kind in kinds and node in fault.deed.targets and not fault.over:
                return fault
        return None

    def _write(self, fault: _Fault, row: FaultRow) -> None:
        fault.row = row
        self._rows.write(row)


def _finished(steps: Generator[float, None, bool]) -> Steps:
    yield from steps
