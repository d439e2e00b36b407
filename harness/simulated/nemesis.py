"""Plays a plan's schedule of faults in virtual time; the rows are those of `nemesis`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from cluster.protocol import ClusterError, ClusterView
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.errands import Errand, Steps, until
from harness.simulated.faults import Aim, Deed, deed_of
from nemesis.claims import Claims
from nemesis.effects import effect_to_json
from nemesis.roster import Coordinated, roster_of
from nemesis.rows import FaultRow, FaultRows, Spec, roles_of
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from nemesis.targets import NoTargetError, parse_target, resolve_target
from nemesis.virtual import VIRTUAL_KINDS as KINDS
from results.record.clock import NS_PER_S
from results.record.plan import Plan

RESOLVE_LIMIT_S = 10.0
WHOLE_LIMIT_S = 20.0
STEADY_S = 4.0
"""More than a broker's session: all that is told by then is newer than what was done before."""
BACK_LIMIT_S = 30.0
START_LIMIT_S = 30.0
"""More than any fault takes to be begun and confirmed, a stop whose node had to be killed too."""


class _Life:
    """One fault, from its plan to its end."""

    def __init__(
        self, fault: ScheduledFault, cluster: SimulatedCluster, rows: FaultRows, claims: Claims
    ) -> None:
        self.fault = fault
        self.deed: Deed | None = None
        self.over = self.starting = False
        self._cluster, self._rows, self._claims = cluster, rows, claims
        spec = Spec(
            kind=fault.kind,
            family=KINDS[fault.kind].family,
            target=fault.target,
            hold_s=fault.hold_s,
            at_s=fault.at_s,
        )
        self.row = FaultRow(fault_id=fault.fault_id, spec=spec)

    @property
    def confirmed(self) -> bool:
        return self.row.confirmed_ns is not None

    @property
    def in_force(self) -> bool:
        return self.deed is not None and not self.over

    def skip(self, why: str) -> None:
        self._write(replace(self.row, requested_ns=self._now_ns()))
        self._fail(why)
        self.over = True

    def request(self) -> None:
        self._write(replace(self.row, requested_ns=self._now_ns()))

    def give_up(self, why: str) -> None:
        self._fail(why)
        self.over = True

    def begin(self, targets: tuple[str, ...], view: ClusterView | None, rng: Random) -> Steps:
        aim = Aim(fault_id=self.fault.fault_id, kind=self.fault.kind, targets=targets, rng=rng)
        try:
            self._claims.claim(aim.fault_id, targets, KINDS[aim.kind].aspect)
            deed = deed_of(aim, self._cluster)
        except ClusterError as refused:
            self._claims.release(aim.fault_id)
            spec = replace(self.row.spec, roles=roles_of(targets, view))
            self._write(replace(self.row, targets=targets, spec=spec))
            self.give_up(str(refused))
            return
        spec = replace(
            self.row.spec, roles=roles_of(deed.targets, view), links=deed.links, begun=True
        )
        self._write(replace(self.row, targets=deed.targets, spec=spec))
        self.deed, self.starting = deed, True
        yield from deed.inject()
        effect = yield from deed.confirm()
        self.starting = False
        if effect is None:
            self._fail("no effect could be measured in time")
            return
        self._write(replace(self.row, confirmed_ns=self._now_ns(), effect=effect_to_json(effect)))

    def undo(self) -> None:
        if self.deed is not None and not self.over:
            self.deed.heal()

    def heal(self, limit_s: float) -> Steps:
        if self.deed is None or self.over:
            return
        self.deed.heal()
        effect = yield from self.deed.confirm_healed(limit_s)
        if self._ended():
            return  # It was healed meanwhile by whoever ended the main phase.
        if effect is None:
            why = "the heal could not be confirmed in time"
            spec = replace(self.row.spec, not_healed=why)
            heal_effect = json.dumps({"not_healed": why})
            self._write(replace(self.row, spec=spec, heal_effect=heal_effect))
            return
        self.over = True
        self._claims.release(self.fault.fault_id)
        self._write(
            replace(
                self.row,
                spec=replace(self.row.spec, not_healed=None),
                healed_ns=self._now_ns(),
                heal_effect=effect_to_json(effect),
            )
        )

    def _ended(self) -> bool:
        return self.over

    def _fail(self, why: str) -> None:
        spec = replace(self.row.spec, without_effect=why)
        self._write(replace(self.row, spec=spec, effect=json.dumps({"without_effect": why})))

    def _now_ns(self) -> int:
        return self._cluster.simulation.now_ns

    def _write(self, row: FaultRow) -> None:
        self.row = row
        self._rows.write(row)


class SimulatedNemesis:
    """All faults of a run.

    Args:
        plan: The run.
        schedule: Of `deal_schedule`.
        cluster: Whom they hit.
        whole: Whether every partition has a leader and a full ISR.
        live: The folder of the live streams.
    """

    def __init__(
        self,
        plan: Plan,
        schedule: Schedule,
        *,
        cluster: SimulatedCluster,
        whole: Callable[[], bool],
        live: Path,
    ) -> None:
        self._plan, self._schedule, self._cluster, self._whole = plan, schedule, cluster, whole
        self._rows = FaultRows(live)
        self._roster = roster_of(plan, cluster.nodes)
        self._claims = Claims()
        self._lives = [_Life(fault, cluster, self._rows, self._claims) for fault in schedule.faults]
        self._started_ns = 0
        self._stopped = False
        self._errands: list[Errand] = []
        self._under_way: list[_Life] = []
        self._wants_to_be_alone: _Life | None = None
        self._steady_since_ns: int | None = None

    def start(self) -> None:
        """Begin the main phase's faults."""
        agenda = self._cluster.simulation.agenda
        self._started_ns = agenda.now
        lanes: dict[int, list[_Life]] = {}
        for life in self._lives:
            lane = life.fault.fault_id if self._schedule.overlapping else life.fault.lane
            lanes.setdefault(lane, []).append(life)
        self._errands = [Errand(agenda, self._play(lives)) for lives in lanes.values()]

    def end(self) -> Steps:
        """End the main phase: heal everything, and see that it is healed."""
        self._stopped = True
        # What is being done now would otherwise come after its heal, and stay.
        yield from until(
            self._cluster.simulation.agenda,
            lambda: not any(life.starting for life in self._lives),
            limit_s=START_LIMIT_S,
        )
        # Everything is undone before anything is confirmed: one fault may hide another's end.
        for life in reversed(self._lives):
            life.undo()
        for life in self._lives:
            yield from life.heal(BACK_LIMIT_S)
        for node in self._cluster.nodes:
            if self._cluster.state_of(node) is None:
                self._cluster.start_node(node)
        elapsed_s = (self._cluster.simulation.now_ns - self._started_ns) / NS_PER_S
        for life in self._lives:
            if life.row.requested_ns is None and life.fault.at_s <= elapsed_s:
                life.skip("the main phase ended before the faults ahead of it were over")

    def not_healed(self) -> list[str]:
        """Return a sentence for each fault that may still be in force."""
        return [
            f"fault {life.fault.fault_id} ({life.fault.kind}) is not healed"
            for life in self._lives
            if life.in_force
        ]

    def close(self) -> None:
        """End the stream."""
        self._rows.close()

    def _play(self, lives: Sequence[_Life]) -> Steps:
        for life in lives:
            yield max(0.0, life.fault.at_s - self._elapsed_s())
            if self._stopped:
                return
            may_begin = yield from until(
                self._cluster.simulation.agenda,
                partial(self._may_go_on, life),
                limit_s=WHOLE_LIMIT_S,
            )
            if self._wants_to_be_alone is life:
                self._wants_to_be_alone = None
            if not self._stopped and not may_begin:
                life.skip(self._why_not_begun(life))
                continue
            needed_s = life.fault.hold_s + KINDS[life.fault.kind].settle_s
            if self._elapsed_s() + needed_s > self._plan.time_limit_s + (
                needed_s if self._schedule.overlapping else 0
            ):
                life.skip("the faults ahead of it took so long that the main phase is too short")
                continue
            self._under_way.append(life)
            yield from self._live(life)
            if self._is_alone(life):
                self._steady_since_ns = None
                yield from until(
                    self._cluster.simulation.agenda,
                    partial(self._is_steady_again, life),
                    limit_s=WHOLE_LIMIT_S,
                )
            self._under_way.remove(life)
            if self._is_stopped():
                return

    def _may_go_on(self, life: _Life) -> bool:
        return self._stopped or self._may_begin(life)

    def _may_begin(self, life: _Life) -> bool:
        """Tell whether a fault may begin now: what takes records is dealt alone, as by one lane.

        While a broker that lost its power counts as in sync still, another may leave the ISR in
        good order, and what the first one lost is gone: that is no fault of the brokers. So it
        begins when all has been whole for a while, and nothing else begins until all is again.
        """
        if self._schedule.overlapping:
            return not KINDS[life.fault.kind].when_whole or self._whole()
        if self._is_alone(life):
            if self._wants_to_be_alone is not life:
                self._wants_to_be_alone, self._steady_since_ns = life, None
            return self._is_steady()
        return self._wants_to_be_alone is None and not any(map(self._is_alone, self._under_way))

    def _is_alone(self, life: _Life) -> bool:
        return not self._schedule.overlapping and KINDS[life.fault.kind].when_whole

    def _is_steady_again(self, after: _Life) -> bool:
        return self._stopped or self._is_steady(after)

    def _is_steady(self, after: _Life | None = None) -> bool:
        """Tell whether nothing was in force, and every ISR full, for a while."""
        now_ns = self._cluster.simulation.now_ns
        if any(each is not after for each in self._under_way) or not self._whole():
            self._steady_since_ns = None
            return False
        if self._steady_since_ns is None:
            self._steady_since_ns = now_ns
        return now_ns - self._steady_since_ns >= STEADY_S * NS_PER_S

    def _why_not_begun(self, life: _Life) -> str:
        if KINDS[life.fault.kind].when_whole:
            return "it takes what a replica has, and an ISR was not full"
        return "another fault was in force that takes what a replica has"

    def _live(self, life: _Life) -> Steps:
        life.request()
        rng = Random(f"{self._plan.seed}/nemesis/{life.fault.fault_id}")
        drawing = Random(f"{self._plan.seed}/nemesis/{life.fault.fault_id}/target")
        target = parse_target(life.fault.target, self._roster)
        found: list[tuple[tuple[str, ...], ClusterView | None]] = []
        why_not = ["nobody"]

        def resolved() -> bool:
            view = self._cluster.view()
            try:
                nodes = resolve_target(target, view, drawing, roster=self._roster, find=_nobody)
            except NoTargetError as nobody:
                why_not[0] = str(nobody)
                return self._stopped
            if not self._may_have(life.fault, nodes):
                why_not[0] = "another fault had its target all the while"
                return self._stopped
            found.append((nodes, view))
            return True

        agenda = self._cluster.simulation.agenda
        yield from until(agenda, resolved, limit_s=RESOLVE_LIMIT_S, interval_s=0.2)
        if not found or self._stopped:
            life.give_up(why_not[0])
            return
        targets, view = found[0]
        yield from life.begin(targets, view, rng)
        if life.confirmed:
            yield from until(
                agenda, lambda: self._stopped, limit_s=life.fault.hold_s, interval_s=0.05
            )
        if not self._stopped:
            yield from life.heal(BACK_LIMIT_S)

    def _may_have(self, fault: ScheduledFault, nodes: tuple[str, ...]) -> bool:
        """Tell whether nobody has what a dealt fault wants; one written by hand is refused then."""
        aspect = KINDS[fault.kind].aspect
        return self._schedule.overlapping or self._claims.are_free(nodes, aspect)

    def _is_stopped(self) -> bool:
        return self._stopped

    def _elapsed_s(self) -> float:
        return (self._cluster.simulation.now_ns - self._started_ns) / NS_PER_S


def _nobody(_coordinated: Coordinated) -> str | None:
    return None
