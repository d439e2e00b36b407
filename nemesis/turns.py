"""Whose turn it is among the faults of several lanes: what takes records begins alone.

While a broker that lost records still counts as in sync, another may leave the ISR in good order,
and what the first one lost is gone for good: no failure of the brokers, and found all the same. So
a fault that takes what a replica has begins when nothing was in force, and every ISR was full, for
a while; and nothing else begins until that is so again. The while is longer than brokers may count
as alive or in sync after they have ceased to be (`cluster.sessions.hidden_s`): what is
reported after it is newer than all that was done before.

Faults that are due queue up. One that begins alone waits for all that are ahead of it to be over,
one that does not only for those ahead of it that do.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial

from nemesis.life import Life
from nemesis.lulls import Lulls
from nemesis.protocol import Patience, Site
from nemesis.replicas import unwhole
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import Event, new_lock

LOOK_S = 0.2
TOO_LATE = "the main phase was too short for it by the time its turn came"
BEHIND_OTHERS = "the faults ahead of it were not over until the main phase was too short for it"
_SHOWN = 3


class _Turn(Enum):
    NOW = auto()
    BEHIND = auto()
    """Others are ahead of it, or under way."""
    UNSETTLED = auto()
    """A fault is not over, or an ISR is not full."""
    SETTLING = auto()
    """Nothing is in force, and every ISR full, though not for long enough."""
    LULL = auto()
    """It would begin now, if there were no lull."""


class Turns:
    """Who is due, who is under way, and since when nothing was in force and every ISR full.

    Args:
        lives: All faults of the run.
        site: Where.
        wanted: The partitions of the run: a broker that knows of none tells of nothing lacking.
        steady_s: For how long that must be so before and after a fault that begins alone.
        lulls: When no fault begins.
    """

    def __init__(
        self,
        lives: Sequence[Life],
        site: Site,
        *,
        wanted: Collection[tuple[str, int]],
        steady_s: float,
        lulls: Lulls,
    ) -> None:
        self._lives, self._steady_s, self._lulls = lives, steady_s, lulls
        self._unwhole = partial(unwhole, site, wanted=wanted)
        self._queue: list[Life] = []
        """Who waits, in the order in which they came; who is alone stays in front of it."""
        self._under_way: list[Life] = []
        # Before the first fault nothing was done, and topics were waited for until all was whole.
        self._disturbed_s = -steady_s
        self._lock = new_lock()

    def stopped_before(self, life: Life, due_s: float, stop: Event) -> bool:
        """Wait until a fault is due; before one that begins alone, look at the ISRs for a while.

        Args:
            life: The fault.
            due_s: When, in seconds of `stopwatch_s`.
            stop: Ends it early.

        Returns:
            Whether `stop` was set.
        """
        if not life.begins_alone:
            return pause_until(due_s, stop)
        stopped = pause_until(due_s - self._steady_s, stop)
        while not stopped and (now_s := stopwatch_s()) < due_s:
            self._settled()
            stopped = pause_until(min(due_s, now_s + LOOK_S), stop)
        return stopped

    def refusal(
        self, life: Life, *, latest_s: float, patience: Patience, mend: Callable[[], object]
    ) -> str | None:
        """Wait until it is a fault's turn.

        Args:
            life: The fault, which is due.
            latest_s: After this moment it is too late to begin, in seconds of `stopwatch_s`.
            patience: How long one that begins alone waits for all to be whole, the time not counted
                in which others are ahead of it or under way, which have limits of their own.
            mend: Is called again and again meanwhile: what is in its own way may be ended.

        Returns:
            Why its turn does not come, in a sentence; None: it has come, and `taken` is next.
        """
        with self._lock:
            self._queue.append(life)
        patient_until_s, turn = stopwatch_s() + patience.limit_s, None
        while stopwatch_s() <= latest_s:
            turn = self._turn(life)
            if turn is _Turn.NOW:
                return None
            if turn is _Turn.BEHIND:
                patient_until_s = stopwatch_s() + patience.limit_s
            elif turn is _Turn.UNSETTLED and stopwatch_s() >= patient_until_s:
                break
            mend()
            if pause_until(stopwatch_s() + LOOK_S, patience.stop):
                break
        why_not = self._why_not(life, turn)
        self._leave(life)
        return why_not

    @contextmanager
    def taken(
        self, life: Life, *, patience: Patience, mend: Callable[[], object]
    ) -> Iterator[None]:
        """Have a fault live in the block, when its turn has come.

        Args:
            life: The fault.
            patience: How long all others wait after one that was alone until all is whole again.
            mend: Is called again and again meanwhile: its broker may be back late.
        """
        try:
            yield
            if life.begins_alone and life.row.spec.begun:
                self._await_steady(patience, mend)
        finally:
            self._leave(life)

    def _turn(self, life: Life) -> _Turn:
        with self._lock:
            ahead = self._queue[: self._queue.index(life)]
            alone = [each for each in ahead if each.begins_alone]
            if [*ahead, *self._under_way] if life.begins_alone else alone:
                return _Turn.BEHIND
            if not life.begins_alone:
                if self._lulls.is_now():
                    return _Turn.LULL
                self._queue.remove(life)
                self._under_way.append(life)
                return _Turn.NOW
        # From here on nothing else begins: this one is the first of the queue.
        if not self._settled():
            return _Turn.UNSETTLED
        if not self._is_steady():
            return _Turn.SETTLING
        return _Turn.LULL if self._lulls.is_now() else _Turn.NOW

    def _await_steady(self, patience: Patience, mend: Callable[[], object]) -> None:
        self._note_disturbed()
        deadline_s = stopwatch_s() + patience.limit_s
        while not pause_until(stopwatch_s() + LOOK_S, patience.stop):
            mend()
            settled = self._settled()
            if self._is_steady() or (not settled and stopwatch_s() >= deadline_s):
                return

    def _settled(self) -> bool:
        """Look whether nothing is in force and every ISR is full; what is seen is kept."""
        settled = not any(each.in_force for each in self._lives) and not self._unwhole()
        if not settled:
            self._note_disturbed()
        return settled

    def _is_steady(self) -> bool:
        # A fault may end while nobody looks, as one that is late and that others wait for.
        over_s = [each.over_s for each in self._lives if each.over_s is not None]
        with self._lock:
            return stopwatch_s() - max([self._disturbed_s, *over_s]) >= self._steady_s

    def _note_disturbed(self) -> None:
        with self._lock:
            self._disturbed_s = stopwatch_s()

    def _why_not(self, life: Life, turn: _Turn | None) -> str:
        """Return why a fault does not begin, by what was its turn at the last look, if any."""
        match turn:
            case None | _Turn.NOW | _Turn.LULL:
                return TOO_LATE
            case _Turn.BEHIND:
                return self._why_behind(life)
            case _Turn.UNSETTLED:
                return f"it takes what a replica has, and {self._unsettled()}"
            case _Turn.SETTLING:
                return (
                    "it takes what a replica has, and all had been whole for less than"
                    f" {self._steady_s:g} s when the main phase became too short for it"
                )

    def _why_behind(self, life: Life) -> str:
        with self._lock:
            ahead = self._queue[: self._queue.index(life)]
        alone = [_name(each) for each in ahead if each.begins_alone]
        if life.begins_alone or not alone:
            return BEHIND_OTHERS
        return (
            f"{alone[0]} was ahead of it, which takes what a replica has and begins alone, and the"
            " main phase became too short for it"
        )

    def _unsettled(self) -> str:
        if lacking := ", ".join(self._unwhole()[:_SHOWN]):
            return f"an ISR was not full: {lacking}"
        for each in self._lives:
            if each.in_force:
                return f"{_name(each)} was not over"
        return "until just now a fault was not over, or an ISR not full"

    def _leave(self, life: Life) -> None:
        with self._lock:
            self._queue = [each for each in self._queue if each is not life]
            if life in self._under_way:
                self._under_way.remove(life)
                self._disturbed_s = stopwatch_s()


def _name(life: Life) -> str:
    return f"fault {life.scheduled.fault_id} ({life.scheduled.kind})"
