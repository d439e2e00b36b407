"""Execute one fault, from its plan to its confirmed heal. The fault's `FAILURES` are caught."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random

from cluster.coordinators import kept_in
from cluster.protocol import (
    CanFindCoordinators,
    ClusterError,
    ClusterView,
    CoordinatorKind,
    CountsStarts,
)
from nemesis.aftermath import Past, Strikes, is_down, struck_by
from nemesis.brokers import broker_runs
from nemesis.claims import Aspect, Claims
from nemesis.effects import Effect, HealEffect, LeftEffect, SupersededEffect, effect_to_json
from nemesis.ledger import Ledger
from nemesis.lulls import Lulls
from nemesis.protocol import (
    FAILURES,
    Aim,
    Fault,
    LeavesTopics,
    Named,
    OfPartition,
    Patience,
    Site,
)
from nemesis.registry import KINDS
from nemesis.roster import Coordinated, Roster
from nemesis.rows import FaultRow, FaultRows, Spec, Waited, roles_of
from nemesis.scheduled import MIN_HOLD_S, ScheduledFault
from nemesis.targets import (
    NoTargetError,
    Target,
    TopicPartition,
    led_by_others,
    replaceable,
    resolve_target,
)
from nemesis.together import refuse_links_within, widened
from nemesis.undo import DropTopics, Reassign, Restart, Resume
from results.record.clock import RunClock, WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.runtime import Event
from results.record.terms import UNMEASURED

RESOLVE_LIMIT_S = 10.0
"""Seconds to wait for a node with the target's role, for example if a partition has no leader."""
CONFIRM_LIMIT_S = 5.0
TOO_SHORT = "the main phase ended before the effect was confirmed"


class FaultPhase(StrEnum):
    """The current phase of a fault."""

    WAITING = "waiting"
    STARTING = "starting"
    HELD = "held"
    HEALING = "healing"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The ledger and table that a fault writes to, and other data that all faults of a run share.

    Attributes:
        clock: The clock of the run.
        ledger: The ledger of undo steps.
        rows: The `faults` table.
        claims: The claims of faults on nodes.
        seed: The seed of the run.
        hosts: The kind of hosts in the plan.
        roster: All nodes, for targets by role. None if a scenario names its nodes.
        dealt: Whether the schedule is random. In a random schedule, a fault waits some seconds for
            nodes that another fault has claimed. In one written by hand, such a fault fails.
        failover_s: The maximum extra seconds that a scheduled fault is held while its brokers are
            down. The heal waits until other brokers lead the partitions of these brokers. An
            earlier heal would hide a missing failover.
        lives: All faults of the run. Empty until they are created.
        lulls: The periods in which no fault begins.
    """

    clock: RunClock
    ledger: Ledger
    rows: FaultRows
    claims: Claims
    seed: int
    hosts: str = ""
    roster: Roster | None = None
    dealt: bool = False
    failover_s: float = 0.0
    lives: Sequence[Past] = ()
    lulls: Lulls = field(default_factory=lambda: Lulls(0.0))


class Life:
    """One scheduled fault. The runner calls `begin`, `hold`, `heal` and `confirm_healed`.

    Args:
        scheduled: The scheduled fault.
        target: The parsed target expression, or the nodes themselves.
        site: The run's cluster and hosts.
        book: The ledger and table to write to, and the shared data.

    Attributes:
        effect: The measured effect. None until it is measured.
        over_s: The time of the confirmed heal, in seconds by `stopwatch_s`. None before that time.
    """

    def __init__(
        self, scheduled: ScheduledFault, target: Target | Named, *, site: Site, book: Book
    ) -> None:
        self.scheduled = scheduled
        self.phase = FaultPhase.WAITING
        self.effect: Effect | None = None
        self.over_s: float | None = None
        self._target = target
        self._site = site
        self._book = book
        self._fault: Fault | None = None
        self._left: frozenset[TopicPartition] = frozenset()
        self._struck: Strikes | None = None
        """The group of nodes that the fault hits instead of its target, or None."""
        spec = Spec(
            kind=scheduled.kind,
            family=kind.family_for(book.hosts) if (kind := KINDS.get(scheduled.kind)) else "",
            target=scheduled.target,
            hold_s=scheduled.hold_s,
            at_s=scheduled.at_s,
        )
        self.row = FaultRow(fault_id=scheduled.fault_id, spec=spec)

    @property
    def confirmed(self) -> bool:
        """Return whether an effect was measured."""
        return self.row.confirmed_ns is not None

    @property
    def takes(self) -> bool:
        """Return whether the fault may disable its nodes while it is active."""
        return KINDS[self.scheduled.kind].takes

    @property
    def hit(self) -> tuple[str, ...]:
        """Return the fault's targets. Empty until they are chosen."""
        return self.row.targets

    @property
    def of_one(self) -> bool:
        """Return whether all targets of the fault run in one process."""
        return {*self.hit} == {*self._site.together(self.hit[:1])}

    @property
    def reach(self) -> tuple[str, ...]:
        """Return the nodes that the fault can hit instead of its target."""
        roster, kind = self._roster(), KINDS[self.scheduled.kind]
        return roster.everybody if kind.on_controllers else roster.nodes

    @property
    def led(self) -> frozenset[TopicPartition]:
        """Return the partitions that the targets led at first and that other nodes can lead."""
        return self._left

    @property
    def of_processes(self) -> bool:
        """Return whether the fault counts as undone as soon as its brokers run again."""
        kind = KINDS.get(self.scheduled.kind)
        takes_records = kind is None or kind.when_whole
        return not takes_records and self._is_undone_by(Restart, Resume)

    @property
    def of_own_topics(self) -> bool:
        """Return whether the only things that the fault can leave behind are topics of its own."""
        return self._is_undone_by(DropTopics)

    def _is_undone_by(self, *kinds: type) -> bool:
        undo = self._fault.undo() if self._fault else ()
        return bool(undo) and all(isinstance(each, kinds) for each in undo)

    @property
    def begins_alone(self) -> bool:
        """Return whether the fault destroys records. Random schedules start such faults alone."""
        return KINDS[self.scheduled.kind].when_whole

    @property
    def in_force(self) -> bool:
        """Return whether the fault was made and has not ended. Such a fault may need a heal."""
        return self._fault is not None and self.phase is not FaultPhase.OVER

    def note_wait(self, waited: Waited) -> None:
        """Record how the fault waited for its trigger state."""
        self.row = replace(self.row, spec=replace(self.row.spec, waited=waited))

    def skip(self, why: str) -> None:
        """Record that the fault was never started."""
        self._write(replace(self.row, requested_ns=self._book.clock.now_ns()))
        self._fail(why)
        self.phase = FaultPhase.OVER

    def begin(self, stop: Event) -> None:
        """Resolve the target, write the undo steps, inject the fault, and confirm its effect."""
        self.phase = FaultPhase.STARTING
        self._write(replace(self.row, requested_ns=self._book.clock.now_ns()))
        try:
            fault = self._planned(stop)
            self._book.ledger.write(self.scheduled.fault_id, fault.undo())
            self._fault = fault
            spec = replace(self.row.spec, begun=True, incarnations=self._incarnations())
            self._write(replace(self.row, spec=spec))
            fault.inject()
            effect = fault.confirm(Patience(limit_s=CONFIRM_LIMIT_S, stop=self._stops(stop)))
        except FAILURES as failed:
            self._fail(str(failed))
        else:
            if effect is None:
                early = stop.is_set() and self._stops(stop) is not None
                self._fail(TOO_SHORT if early else UNMEASURED)
            else:
                self.effect = effect
                now_ns = self._book.clock.now_ns()
                self._write(replace(self.row, confirmed_ns=now_ns, effect=effect_to_json(effect)))
        if self._fault is None:
            self._book.claims.release(self.scheduled.fault_id)
            self.phase = FaultPhase.OVER
        else:
            self.phase = FaultPhase.HELD

    def _incarnations(self) -> dict[str, int]:
        cluster = self._site.cluster
        if not isinstance(cluster, CountsStarts):
            return {}
        return {node: cluster.incarnation(node) for node in self.row.targets}

    def _stops(self, stop: Event) -> Event | None:
        """Return the event that can end a long confirmation, or None for a short confirmation."""
        kind = KINDS.get(self.scheduled.kind)
        return stop if kind is not None and kind.confirm_s else None

    def hold(self, stop: Event) -> None:
        """If the effect is confirmed, wait for the planned time and, if necessary, a failover."""
        if self.confirmed:
            pause_until(stopwatch_s() + self.scheduled.hold_s, stop)
            self._await_failover(stop)

    @property
    def left(self) -> tuple[tuple[str, int], ...]:
        """Return the partitions of topics that stay after the fault has ended."""
        return tuple(self._fault.places) if isinstance(self._fault, LeavesTopics) else ()

    def _await_failover(self, stop: Event) -> None:
        """Wait until other brokers lead the targets' partitions, or until the time limit."""
        dealt = self._book.dealt and self.scheduled.hold_s >= MIN_HOLD_S  # Short holds stay short.
        if not self._left or not dealt or not KINDS[self.scheduled.kind].ends:
            return
        with suppress(WaitTimeoutError):
            wait_until(
                lambda: led_by_others(self._site.cluster.view(), self._left, self.row.targets),
                timeout_s=self._book.failover_s, what="other leaders", interval_s=0.2, stop=stop,
            )  # fmt: skip

    def heal(self) -> bool:
        """Heal the fault. Return False if an error occurred. Idempotent."""
        if not self.in_force or self._fault is None:
            return True
        self.phase = FaultPhase.HEALING
        try:
            self._fault.heal()
        except FAILURES as failed:
            self._note_not_healed(str(failed))
            return False
        return True

    def confirm_healed(self, patience: Patience) -> bool:
        """Measure whether the fault is healed. If so, mark it in the ledger, and return True."""
        if not self.in_force or self._fault is None:
            return True
        try:
            effect = self._fault.confirm_healed(patience)
        except FAILURES as failed:
            self._note_not_healed(str(failed))
            return False
        if effect is None:
            self._note_not_healed("the heal could not be confirmed in time")
            return False
        self._end(effect)
        return True

    def superseded(self, by_fault: int) -> None:
        """End the fault, because another confirmed fault has ended its effect."""
        if self.in_force:
            self._end(SupersededEffect(by_fault=by_fault))

    def leave(self) -> None:
        """Mark the fault as ended, but do not heal its nodes: the scenario requests this."""
        if self.in_force:
            self._end(LeftEffect(nodes=self.row.targets))

    def _end(self, effect: HealEffect) -> None:
        self._book.ledger.strike(self.scheduled.fault_id)
        self._book.claims.release(self.scheduled.fault_id)
        self._write(
            replace(
                self.row,
                spec=replace(self.row.spec, not_healed=None),
                healed_ns=self._book.clock.now_ns(),
                heal_effect=effect_to_json(effect),
            )
        )
        self.over_s = stopwatch_s()
        self.phase = FaultPhase.OVER

    def _planned(self, stop: Event) -> Fault:
        """Make the fault for the nodes that match its target now."""
        rng = Random(f"{self._book.seed}/nemesis/{self.scheduled.fault_id}")
        if isinstance(self._target, Named):
            targets, view = self._widened(self._target.nodes), self._site.cluster.view()
            make = self._target.make
        else:
            self._target = self._of_one(self._target)
            targets, view = self._resolved(self._target, stop)
            make = KINDS[self.scheduled.kind].make
        self._write(replace(self.row, targets=targets, spec=self._spec_for(targets, view)))
        self._claim(targets)
        role = None if isinstance(self._target, Named) or self._struck else self._target
        place = None if role is None else self._place_of(role, view)
        aim = Aim(
            fault_id=self.scheduled.fault_id, targets=targets, rng=rng, stop=stop, place=place
        )
        fault = make(aim, self._site)
        refuse_links_within(fault, self._site)
        self._claim_moved(fault)
        self._left = replaceable(view, fault.targets)
        about = fault.place if isinstance(fault, OfPartition) else place
        spec = replace(self._spec_for(fault.targets, view), links=fault.links, place=about)
        self._write(replace(self.row, targets=fault.targets, spec=spec))
        return fault

    def _of_one(self, target: Target) -> Target:
        """If the fault moves a coordinator, choose one group or transaction of the target."""
        if not target.coordinated or not KINDS[self.scheduled.kind].moves_coordinators:
            return target
        rng = Random(f"{self._book.seed}/nemesis/{self.scheduled.fault_id}/coordinated")
        return replace(target, coordinated=(rng.choice(target.coordinated),))

    def _place_of(self, target: Target, view: ClusterView | None) -> TopicPartition | None:
        """Return the target's partition, or the internal one with the coordinator's data."""
        if not target.coordinated or not KINDS[self.scheduled.kind].moves_coordinators:
            return target.topic_partition
        (of,) = target.coordinated
        place = kept_in(of.kind, of.key, view.partitions if view else ())
        if place is None:
            raise NoTargetError(f"no internal topic has a partition for {of.key} yet")
        return place

    def _claim(self, targets: tuple[str, ...]) -> None:
        """Claim the fault's aspects of its nodes. A scripted fault claims nothing."""
        if not isinstance(self._target, Named):
            for aspect in KINDS[self.scheduled.kind].aspects:
                # The links of two brokers overlap in the link between them. Separate controllers
                # have none of these links.
                brokers = tuple(self._site.cluster.nodes)
                of_brokers = aspect is Aspect.QUALITY and not {*brokers}.isdisjoint(targets)
                others = brokers if of_brokers and self._book.dealt else ()
                nodes = dict.fromkeys((*targets, *others))
                self._book.claims.claim(self.scheduled.fault_id, nodes, aspect)

    def _claim_moved(self, fault: Fault) -> None:
        """Claim the partitions that this fault moves, until its heal has moved them back."""
        moved = [f"{at.topic}-{at.partition}" for at in fault.undo() if isinstance(at, Reassign)]
        self._book.claims.claim(self.scheduled.fault_id, moved, Aspect.REPLICAS)

    def _resolved(self, target: Target, stop: Event) -> tuple[tuple[str, ...], ClusterView | None]:
        """Return the nodes of the target, and the metadata view by which they were chosen.

        The choice has its own random source. So the fault's other random choices do not depend on
        the chosen node, or on the duration of the search.
        """
        why_not = "no target was found"
        rng = Random(f"{self._book.seed}/nemesis/{self.scheduled.fault_id}/target")

        def resolution() -> tuple[tuple[str, ...], ClusterView | None] | None:
            nonlocal why_not
            if self._book.lulls.is_now():
                return None
            view = self._site.cluster.view()
            roster, find = self._roster(), self._coordinator
            try:
                if (struck := self._in_aftermath(view, rng)) is not None:
                    return struck, view
                nodes = resolve_target(target, view, rng, roster=roster, find=find)
                nodes = self._widened(nodes)
                self._check_there(nodes, view)
                self._check_free(nodes)
            except NoTargetError as nobody:
                why_not = str(nobody)
                return None
            return nodes, view

        try:
            found = wait_until(
                resolution,
                timeout_s=RESOLVE_LIMIT_S + self._book.lulls.each_s,
                what="a target",
                interval_s=0.2,
                stop=stop,
            )
        except WaitTimeoutError as late:
            raise NoTargetError(why_not) from late
        if stop.is_set():
            raise NoTargetError("the main phase ended before the fault could begin")
        return found

    def _in_aftermath(self, view: ClusterView | None, rng: Random) -> tuple[str, ...] | None:
        """Claim and return the node that an aftermath fault hits, or return None.

        Raises:
            NoTargetError: The fault must hit a node that has a fault already, but no suitable node
                is known. To use the fault's own target instead would disable one more node.
        """
        if (strikes := self.scheduled.strikes) is None:
            return None
        others = [each for each in self._book.lives if each is not self]
        found = struck_by(strikes, others, view, self.reach, now_s=stopwatch_s())
        if strikes is Strikes.STRUCK and not found and any(map(is_down, others)):
            raise NoTargetError("no node with a fault is a possible target of this fault")
        if not found:
            return None
        try:
            nodes = self._widened((rng.choice(found),))
            self._check_there(nodes, view)
            self._check_free(nodes)
        except NoTargetError:
            if strikes is Strikes.STRUCK:
                raise
            return None
        self._struck = strikes
        return nodes

    def _widened(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        return widened(nodes, KINDS.get(self.scheduled.kind), self._site)

    def _check_there(self, nodes: tuple[str, ...], view: ClusterView | None) -> None:
        """Reject targets whose brokers must report the effect but do not run or are not listed."""
        if not KINDS[self.scheduled.kind].asks:
            return
        registered = frozenset() if view is None else view.registered
        for node in nodes:
            if node not in registered or not broker_runs(self._site, node):
                raise NoTargetError(f"the broker of {node} is not available to report the effect")

    def _check_free(self, nodes: tuple[str, ...]) -> None:
        """Claim the targets, or reject them while a fault of another lane has claimed them."""
        if not self._book.dealt:
            return
        try:
            self._claim(nodes)
        except ClusterError as theirs:
            self._book.claims.release(self.scheduled.fault_id)
            raise NoTargetError(str(theirs)) from theirs

    def _roster(self) -> Roster:
        nodes = tuple(self._site.cluster.nodes)
        return self._book.roster or Roster(nodes=nodes, voters=nodes, partitions=())

    def _coordinator(self, of: Coordinated) -> str | None:
        cluster = self._site.cluster
        if of.kind is CoordinatorKind.SHARE:
            states = view.partitions if (view := cluster.view()) else {}
            place = kept_in(of.kind, of.key, states)
            state = None if place is None else states.get(place)
            return None if state is None else state.leader
        if not isinstance(cluster, CanFindCoordinators):
            raise NoTargetError("this cluster does not report coordinators")
        return cluster.coordinator(of.kind, of.key)

    def _spec_for(self, targets: tuple[str, ...], view: ClusterView | None) -> Spec:
        spec = replace(self.row.spec, roles=roles_of(targets, view))
        return spec if self._struck is None else replace(spec, target=self._struck.value)

    def _fail(self, why: str) -> None:
        spec = replace(self.row.spec, without_effect=why)
        self._write(replace(self.row, spec=spec, effect=json.dumps({"without_effect": why})))

    def _note_not_healed(self, why: str) -> None:
        spec = replace(self.row.spec, not_healed=why)
        self._write(replace(self.row, spec=spec, heal_effect=json.dumps({"not_healed": why})))

    def _write(self, row: FaultRow) -> None:
        self.row = row
        self._book.rows.write(row)
