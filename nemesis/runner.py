"""Execute a run's schedule of faults, and heal all faults at the end."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from cluster.protocol import Cluster, Hosts, ProcessId
from cluster.sessions import hidden_s, session_s
from nemesis.claims import Claims
from nemesis.ledger import Ledger
from nemesis.life import Book, FaultPhase, Life
from nemesis.lulls import Lulls
from nemesis.protocol import Patience, Site
from nemesis.registry import KINDS
from nemesis.room import Room
from nemesis.roster import roster_of
from nemesis.rows import FaultRows, Waited
from nemesis.schedule import Schedule
from nemesis.scheduled import CALM_S
from nemesis.sweep import HEAL_LIMIT_S, HealReport, sweep
from nemesis.targets import parse_target
from nemesis.triggers import look, parse_trigger
from nemesis.turns import Turns
from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import Event, all_of

BACK_LIMIT_S = 20.0
"""Seconds to wait until a heal is confirmed. After this, other faults may start if only a minority
is down."""
WHOLE_LIMIT_S = 20.0
"""Seconds to wait for a healthy cluster. A fault that destroys records waits for full ISRs.
Meanwhile other faults wait until that fault has ended. A fault of a kind with `Kind.divides` waits
until no other fault disables a node."""
GENTLE_LIMIT_S = 8.0
"""Seconds to wait for the heal of a fault that disables no node. Another fault waits for such a
fault only if it destroys records, or changes the same aspect of a node. If the heal fails, it is
retried later."""
STRUCK_LIMIT_S = 10.0
"""Seconds that a fault waits if it must hit a node that already has a fault. If no node is down
after this time, the fault hits its own target."""
LATE_LIMIT_S = 1.0
_BEYOND_S = 2.0
"""If no broker takes over, the heal waits for the longest time of a takeover (`Plan.takeover_s`),
and this many seconds longer."""
LOOK_S = 0.1
"""Seconds between two checks for a state that a fault waits for."""
SAW_STATES = 4
"""While a fault waits for its state, other states are recorded: the last ones, at most this
many."""
RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInForce:
    """A fault in progress, for the live display.

    Attributes:
        fault_id: The id of the fault in the `faults` table.
        kind: A name in the registry.
        target: The role expression.
        targets: The target nodes. Empty until they are chosen.
        phase: The current phase of the fault.
        since_ns: The time of the request, in nanoseconds since the run's start.
    """

    fault_id: int
    kind: str
    target: str
    targets: tuple[str, ...]
    phase: FaultPhase
    since_ns: int


class Nemesis:
    """All faults of a run.

    Args:
        plan: The plan of the run.
        schedule: The result of `deal_schedule`.
        cluster: The brokers, already started.
        hosts: The machines. Network partitions need `CanPartition`.
        clock: The clock of the run.
        paths: The paths of the ledger and of the `faults` stream.
        state_of: Returns the state of a process. None if the hosts report it.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        schedule: Schedule,
        cluster: Cluster,
        hosts: Hosts,
        clock: RunClock,
        paths: RunPaths,
        state_of: Callable[[ProcessId], str | None] | None = None,
    ) -> None:
        self._schedule = schedule
        self._time_limit_s = plan.time_limit_s
        self._kind_of_hosts = plan.hosts
        self._site = Site.of(cluster, hosts, state_of, session_s=session_s(plan))
        self._roster = roster_of(plan, cluster.nodes)
        self._rows = FaultRows(paths.live)
        self._lives: list[Life] = []
        self._lulls = Lulls(schedule.lull_s)
        book = Book(
            clock=clock,
            ledger=Ledger(paths.ledger),
            rows=self._rows,
            claims=Claims(),
            seed=plan.seed,
            hosts=plan.hosts,
            roster=self._roster,
            dealt=not schedule.overlapping,
            failover_s=0.0 if _for_nobody(plan, schedule) else plan.takeover_s + _BEYOND_S,
            lives=self._lives,
            lulls=self._lulls,
        )
        self._lives += [
            Life(
                fault,
                parse_target(fault.target, self._roster),
                site=self._site,
                book=book,
            )
            for fault in schedule.faults
        ]
        self._turns = Turns(
            self._lives,
            self._site,
            wanted=plan.topic_partitions,
            steady_s=hidden_s(plan),
            lulls=self._lulls,
        )
        self._room = Room(self._lives, len(cluster.nodes))

    def run(self, stop: Event) -> None:
        """Execute the faults of the main phase. Then `heal_all` must heal the faults still active.

        Args:
            stop: The event that ends the main phase.
        """
        started_s = stopwatch_s()
        self._lulls.begin(started_s)
        if self._schedule.overlapping:
            self._run_overlapping(started_s, stop)
        else:
            self._run_lanes(started_s, stop)
        elapsed_s = stopwatch_s() - started_s
        for life in filter(self._was_promised, self._lives):
            if life.phase is FaultPhase.WAITING and life.scheduled.at_s <= elapsed_s:
                life.skip("the main phase ended before earlier faults had ended")

    def heal_all(self, *, limit_s: float = HEAL_LIMIT_S) -> HealReport:
        """Heal and confirm all active faults, and check brokers and links. Idempotent.

        Args:
            limit_s: The time limit for all faults together, and then once more for all brokers.
        """
        lives = [life for life in self._lives if life.in_force]
        return sweep(lives, self._site, limit_s=limit_s)

    def in_force(self) -> list[FaultInForce]:
        """Return the faults that are in progress now."""
        return [
            FaultInForce(
                fault_id=row.fault_id,
                kind=row.spec.kind,
                target=row.spec.target,
                targets=row.targets,
                phase=life.phase,
                since_ns=row.requested_ns or 0,
            )
            for life in self._lives
            if life.phase not in {FaultPhase.WAITING, FaultPhase.OVER}
            for row in [life.row]
        ]

    def left(self) -> list[tuple[str, int]]:
        """Return the partitions of topics that faults leave. At the end, all must be in sync."""
        return [place for life in self._lives for place in life.left]

    def close(self) -> None:
        """End the `faults` stream. Nothing can be recorded after that."""
        self._rows.close()

    def _run_lanes(self, started_s: float, stop: Event) -> None:
        lanes: dict[int, list[Life]] = {}
        for life in self._lives:
            lanes.setdefault(life.scheduled.lane, []).append(life)
        all_of(
            [partial(self._run_in_turn, lives, started_s, stop) for lives in lanes.values()],
            "faults",
        )

    def _run_in_turn(self, lives: Sequence[Life], started_s: float, stop: Event) -> None:
        left = list(lives)
        while left:
            life = self._next(left, stopwatch_s() - started_s)
            left.remove(life)
            # A fault that a late lane prefers may start before it is due.
            due_s = started_s + min(life.scheduled.at_s, left[0].scheduled.at_s if left else inf)
            self._mend_until(due_s, lives, stop)
            if self._turns.stopped_before(life, due_s, stop):
                return
            if self._schedule.spares_majority and not self._found_room(life, lives, stop):
                if stop.is_set():
                    return
                continue
            with self._room.kept(life):
                self._take_turn(life, lives, started_s, stop)
            if stop.is_set():
                return
        self._mend_until(inf, lives, stop)

    def _next(self, left: Sequence[Life], now_s: float) -> Life:
        """Return a lane's next fault. A late lane prefers families that have not had a turn.

        A late lane cannot execute all its faults. So it first executes faults of families that have
        not had a turn. A turn without an effect, or without a target, counts as a turn. Otherwise a
        family without an effect in this run would take the turns of all others.

        Args:
            left: The remaining faults of the lane, in the order of the schedule.
            now_s: Seconds since the main phase began.
        """
        if now_s <= left[0].scheduled.at_s + CALM_S:
            return left[0]
        had_turns = {
            each.row.spec.family for each in self._lives if each.phase is not FaultPhase.WAITING
        }
        new = (
            each
            for each in left
            if each.row.spec.family not in had_turns
            and now_s + self._lasts_s(each) <= self._time_limit_s
        )
        return next(new, left[0])

    def _take_turn(self, life: Life, lives: Sequence[Life], started_s: float, stop: Event) -> None:
        """Wait for a due fault's turn and execute the fault, or record why it does not start."""
        mend = partial(self._heal_late, lives, stop)
        mend()
        whole = Patience(limit_s=WHOLE_LIMIT_S, stop=stop)
        latest_s = started_s + self._time_limit_s - self._lasts_s(life)
        why_not = self._turns.refusal(life, latest_s=latest_s, patience=whole, mend=mend)
        if stop.is_set():
            return
        if why_not is None:
            with self._turns.taken(life, patience=whole, mend=mend):
                self._live(life, stop)
        elif life.begins_alone or self._was_promised(life):
            life.skip(why_not)

    def _was_promised(self, life: Life) -> bool:
        """Return whether a fault that never gets its turn must be reported as skipped.

        If the schedule has more faults than time, only the faults due in the first half of the main
        phase count. If a machine is too slow even for these faults, the run does not meet its
        level.
        """
        return not self._schedule.is_supply or life.scheduled.at_s <= self._time_limit_s / 2

    def _lasts_s(self, life: Life) -> float:
        return KINDS[life.scheduled.kind].lasts_s(life.scheduled.hold_s, self._kind_of_hosts)

    def _live(self, life: Life, stop: Event) -> None:
        """Begin, hold and heal a fault. If the main phase ends first, leave the fault active."""
        life.begin(stop)
        life.hold(stop)
        limit_s = BACK_LIMIT_S if life.takes else GENTLE_LIMIT_S
        if not stop.is_set():
            self._heals(life, stop, limit_s)

    def _run_overlapping(self, started_s: float, stop: Event) -> None:
        all_of([partial(self._run_alone, life, started_s, stop) for life in self._lives], "faults")

    def _run_alone(self, life: Life, started_s: float, stop: Event) -> None:
        if pause_until(started_s + life.scheduled.at_s, stop) or not self._has_come(life, stop):
            return
        life.begin(stop)
        life.hold(stop)
        while not stop.is_set() and not self._heals(life, stop):
            pause_until(stopwatch_s() + RETRY_S, stop)

    def _has_come(self, life: Life, stop: Event) -> bool:
        """Wait for the fault's trigger state. If the state is not reached, skip the fault."""
        if life.scheduled.when is None:
            return True
        trigger, begun_s = parse_trigger(life.scheduled.when, self._roster), stopwatch_s()
        saw: deque[str] = deque(maxlen=SAW_STATES)
        came = True
        while came and not (sight := look(trigger, self._site.cluster.view())).holds:
            if sight.seen not in [*saw][-1:]:
                saw.append(sight.seen)
            came = not pause_until(stopwatch_s() + LOOK_S, stop)
        waited_s = round(stopwatch_s() - begun_s, 3) if saw else 0.0
        life.note_wait(Waited(when=trigger.text, came=came, waited_s=waited_s, saw=tuple(saw)))
        if not came:
            life.skip(f"the state '{trigger.text}' was not reached")
        return came

    def _found_room(self, life: Life, lives: Sequence[Life], stop: Event) -> bool:
        """Wait until a fault would leave a majority of nodes healthy, and reserve its room.

        Return False if the fault was stopped or skipped. A fault of a kind with `Kind.divides` is
        skipped if a node stays down for long. In a large cluster, other faults may start although
        that node is down.
        """
        begun_s = stopwatch_s()
        while not self._room.find(life, alone=stopwatch_s() >= begun_s + STRUCK_LIMIT_S):
            self._heal_late(lives, stop)
            if pause_until(stopwatch_s() + RETRY_S, stop):
                return False
            late = stopwatch_s() >= begun_s + WHOLE_LIMIT_S
            if late and KINDS[life.scheduled.kind].divides:
                life.skip(
                    "the fault starts only while no other fault disables a node, and an earlier"
                    " fault had not ended"
                )
                return False
        return not stop.is_set()

    def _mend_until(self, until_s: float, lives: Sequence[Life], stop: Event) -> None:
        """Keep trying to heal this lane's active faults, because other lanes may wait for them.

        Args:
            until_s: The end of the attempts, in seconds by `stopwatch_s`.
            lives: The faults of the lane.
            stop: An event that ends the attempts early.
        """
        while any(life.in_force for life in lives) and stopwatch_s() < until_s:
            self._heal_late(lives, stop)
            if pause_until(min(until_s, stopwatch_s() + RETRY_S), stop):
                return

    def _heal_late(self, lives: Sequence[Life], stop: Event) -> None:
        """Try once more to heal this lane's active faults."""
        for life in lives:
            if life.in_force:
                self._heals(life, stop, LATE_LIMIT_S)

    def _heals(self, life: Life, stop: Event, limit_s: float = BACK_LIMIT_S) -> bool:
        return life.heal() and life.confirm_healed(Patience(limit_s=limit_s, stop=stop))


def _for_nobody(plan: Plan, schedule: Schedule) -> bool:
    """Return whether the faults of a level may disable the majority that elects leaders."""
    return plan.level > 0 and not schedule.spares_majority
