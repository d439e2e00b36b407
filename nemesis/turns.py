"""Whose turn it is among the faults of several lanes: what takes records begins alone.

While a broker that lost records still counts as in sync, another may leave the ISR in good order,
and what the first one lost is gone for good: no failure of the brokers, and found all the same. So
a fault that takes what a replica has begins when nothing was in force, and every ISR was full, for
a while; and nothing else begins until that is so again. The while is longer than brokers may count
as alive or in sync after they have ceased to be (`cluster.kafka.configuration.hidden_s`): what is
reported after it is newer than all that was done before.

Faults that are due queue up. One that begins alone waits for all that are ahead of it to be over,
one that does not only for those ahead of it that do.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial

from nemesis.life import Life
from nemesis.protocol import Patience, Site
from nemesis.replicas import unwhole
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import Event, new_lock

LOOK_S = 0.2
TOO_SHORT = "the faults ahead of it took so long that the main phase is too short"
NOT_ALONE = "another fault was in force that takes what a replica has"
_SHOWN = 3


class _Turn(Enum):
    NOW = auto()
    BEHIND = auto()
    """Others are ahead of it, or under way."""
    UNSETTLED = auto()
    """A fault is not over, or an ISR is not full."""
    SETTLING = auto()
    """Nothing is in force, and every ISR full, though not for long enough."""


class Turns:
    """Who is due, who is under way, and since when nothing was in force and every ISR full.

    Args:
        lives: All faults of the run.
        site: Where.
        wanted: The partitions of the run: a broker that knows of none tells of nothing lacking.
        steady_s: For how long that must be so before and after a fault that begins alone.
    """

    def __init__(
        self,
        lives: Sequence[Life],
        site: Site,
        *,
        wanted: Collection[tuple[str, int]],
        steady_s: float,
    ) -> None:
        self._lives, self._steady_s = lives, steady_s
        self._unwhole = partial(unwhole, site, wanted=wanted)
        self._queue: list[Life] = []
        """Who waits, in the order in which they came; who is alone stays in front of it."""
        self._under_way: list[Life] = []
        self._seen_in_force: set[int] = set()
        """The faults that were in force at the last look."""
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
        patient_until_s, saw = stopwatch_s() + patience.limit_s, ""
        while stopwatch_s() <= latest_s:
            match self._turn(life):
                case _Turn.NOW:
                    return None
                case _Turn.BEHIND:
                    patient_until_s = stopwatch_s() + patience.limit_s
                    saw = "" if life.begins_alone else NOT_ALONE
                case _Turn.UNSETTLED if stopwatch_s() >= patient_until_s:
                    saw = self._why_unsettled()
                    break
                case _Turn.UNSETTLED | _Turn.SETTLING:
                    saw = ""
            mend()
            if pause_until(stopwatch_s() + LOOK_S, patience.stop):
                break
        self._leave(life)
        return saw or TOO_SHORT

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
            if life.begins_alone and (ahead or self._under_way):
                return _Turn.BEHIND
            if not life.begins_alone:
                if any(each.begins_alone for each in ahead):
                    return _Turn.BEHIND
                self._queue.remove(life)
                self._under_way.append(life)
                return _Turn.NOW
        # From here on nothing else begins: this one is the first of the queue.
        if not self._settled():
            return _Turn.UNSETTLED
        return _Turn.NOW if self._is_steady() else _Turn.SETTLING

    def _await_steady(self, patience: Patience, mend: Callable[[], object]) -> None:
        self._note_disturbed()
        deadline_s = stopwatch_s() + patience.limit_s
        while not pause_until(stopwatch_s() + LOOK_S, patience.stop):
            mend()
            settled = self._settled()
            if self._is_steady() or (not settled and stopwatch_s() >= deadline_s):
                return

    def _settled(self) -> bool:
        """Look whether nothing is in force and every ISR is full; what is seen is kept.

        A fault may end while nobody looks, as one that another waits for: the while begins anew.
        """
        in_force = {each.scheduled.fault_id for each in self._lives if each.in_force}
        with self._lock:
            ended, self._seen_in_force = self._seen_in_force - in_force, in_force
        settled = not in_force and not self._unwhole()
        if ended or not settled:
            self._note_disturbed()
        return settled

    def _is_steady(self) -> bool:
        with self._lock:
            return stopwatch_s() - self._disturbed_s >= self._steady_s

    def _note_disturbed(self) -> None:
        with self._lock:
            self._disturbed_s = stopwatch_s()

    def _why_unsettled(self) -> str:
        lacking = ", ".join(self._unwhole()[:_SHOWN])
        for each in self._lives:
            if each.in_force and not lacking:
                name = f"fault {each.scheduled.fault_id} ({each.scheduled.kind})"
                return f"it takes what a replica has, and {name} was not over"
        lacking = lacking or "every partition until just now"
        return f"it takes what a replica has, and an ISR was not full: {lacking}"

    def _leave(self, life: Life) -> None:
        with self._lock:
            self._queue = [each for each in self._queue if each is not life]
            if life in self._under_way:
                self._under_way.remove(life)
                self._disturbed_s = stopwatch_s()
