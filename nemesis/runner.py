"""The nemesis of a run: drives its schedule, and heals everything at the end, whatever happened."""

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
"""A fault that is not over so long after its heal holds others up only if a minority is down."""
WHOLE_LIMIT_S = 20.0
"""How long a fault that takes records waits for every ISR to be full, and others behind it. One
that takes or parts all nodes waits as long for a node that is not back."""
GENTLE_LIMIT_S = 8.0
"""The same for one that takes no node away: nobody waits for its nodes, and it is tried again."""
STRUCK_LIMIT_S = 10.0
"""How long a fault that strikes who is hit already waits for one to be; if nobody is down then, it
strikes its own target."""
LATE_LIMIT_S = 1.0
_BEYOND_S = 2.0
"""So much longer than an election may take a fault is held that nobody took over from."""
LOOK_S = 0.1
"""Between two looks for a state that a fault waits for."""
SAW_STATES = 4
"""So many of the states that a fault saw instead of its own are recorded, the last ones."""
RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInForce:
    """A fault that is under way, for live progress.

    Attributes:
        fault_id: As in the `faults` table.
        kind: A name in the registry.
        target: The role expression.
        targets: The nodes that it means; none as long as they are sought.
        phase: Where it is in its life.
        since_ns: When it was requested, in nanoseconds since the run's start.
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
        plan: The run's.
        schedule: Of `deal_schedule`.
        cluster: Its brokers, started.
        hosts: Its machines; partitions need `CanPartition`.
        clock: The run's.
        paths: Where the ledger and the `faults` stream go.
        state_of: How to learn a process's state; None: the hosts know.
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
        """Drive the main phase's faults; what is in force when `stop` is set is left to `heal_all`.

        Args:
            stop: Ends the main phase.
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
                life.skip("the main phase ended before the faults ahead of it were over")

    def heal_all(self, *, limit_s: float = HEAL_LIMIT_S) -> HealReport:
        """Heal whatever is in force, confirm it, and look over brokers and links. Idempotent.

        Args:
            limit_s: How long to wait for the faults, and for the brokers.
        """
        lives = [life for life in self._lives if life.in_force]
        return sweep(lives, self._site, limit_s=limit_s)

    def in_force(self) -> list[FaultInForce]:
        """Return the faults that are under way now."""
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
        """Return the partitions of topics that faults leave, which are to be whole at the end."""
        return [place for life in self._lives for place in life.left]

    def close(self) -> None:
        """End the `faults` stream; nothing can be recorded after it."""
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
            # One that is preferred, because its lane is late, need not be due.
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
        """Return who is next in a lane: the first, or if the lane is late, one of a new family.

        A lane that is late does not get to its end. What it leaves out then is of families that
        had a turn already, as far as others are left. A turn in vain counts, also if no target was
        found: a family that has no effect in this run would else take the turns of all others.

        Args:
            left: Of the lane, in the order of the schedule.
            now_s: Since the main phase began.
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
        """Have a fault that is due wait for its turn, and live; or record why it does not."""
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
        """Tell whether a fault is missed if its turn does not come.

        Of a supply what was due in the first half of the main phase is: a machine that is so slow
        that not even this much is played has not played the level.
        """
        return not self._schedule.is_supply or life.scheduled.at_s <= self._time_limit_s / 2

    def _lasts_s(self, life: Life) -> float:
        return KINDS[life.scheduled.kind].lasts_s(life.scheduled.hold_s, self._kind_of_hosts)

    def _live(self, life: Life, stop: Event) -> None:
        """Have a fault begin, last and end; if the main phase ends meanwhile, it stays in force."""
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
        """Wait for the state that a fault waits for; if it does not come, the fault is skipped."""
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
            life.skip(f"{trigger.text} did not come")
        return came

    def _found_room(self, life: Life, lives: Sequence[Life], stop: Event) -> bool:
        """Wait until a fault can begin and a majority is still whole, and keep it room.

        False: it was stopped, or skipped.

        One that takes or parts all nodes is skipped if a node is not back for long: beside that
        node others may have room.
        """
        begun_s = stopwatch_s()
        while not self._room.find(life, alone=stopwatch_s() >= begun_s + STRUCK_LIMIT_S):
            self._heal_late(lives, stop)
            if pause_until(stopwatch_s() + RETRY_S, stop):
                return False
            late = stopwatch_s() >= begun_s + WHOLE_LIMIT_S
            if late and KINDS[life.scheduled.kind].divides:
                life.skip("it takes or parts all nodes, and a fault before it was not over")
                return False
        return not stop.is_set()

    def _mend_until(self, until_s: float, lives: Sequence[Life], stop: Event) -> None:
        """Go on ending what of this lane is not over: other lanes may wait for that.

        Args:
            until_s: At most so long, in seconds of `stopwatch_s`.
            lives: Of the lane.
            stop: Ends it early.
        """
        while any(life.in_force for life in lives) and stopwatch_s() < until_s:
            self._heal_late(lives, stop)
            if pause_until(min(until_s, stopwatch_s() + RETRY_S), stop):
                return

    def _heal_late(self, lives: Sequence[Life], stop: Event) -> None:
        """Try once more to end what of this lane is not over: what stood in its way may be gone."""
        for life in lives:
            if life.in_force:
                self._heals(life, stop, LATE_LIMIT_S)

    def _heals(self, life: Life, stop: Event, limit_s: float = BACK_LIMIT_S) -> bool:
        return life.heal() and life.confirm_healed(Patience(limit_s=limit_s, stop=stop))


def _for_nobody(plan: Plan, schedule: Schedule) -> bool:
    """Tell whether faults of a higher level leave no majority that could elect others meanwhile."""
    return plan.level > 0 and not schedule.spares_majority
