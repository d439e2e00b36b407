"""Turns of the faults of several lanes: a fault that destroys records begins alone.

A broker that lost records may still count as in sync. If another broker is then stopped cleanly and
leaves the ISR, the lost records are lost permanently. This is not a bug of the brokers, but the
checkers would report it. So a fault that destroys a replica's records begins only after a period
without active faults and with full ISRs. No other fault begins until there has been another such
period, or until a time limit. The cluster may count a dead broker as alive or in sync for a while
(`cluster.sessions.hidden_s`). The period is at least this long, so the metadata at its end is newer
than all earlier faults.

Due faults wait in a queue. A fault that begins alone waits until all faults ahead of it have ended.
Any other fault waits only while a fault that begins alone is ahead of it, or during a lull.
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
TOO_LATE = "when the fault's turn came, the rest of the main phase was too short"
BEHIND_OTHERS = "when the earlier faults had ended, the rest of the main phase was too short"
_SHOWN = 3


class _Turn(Enum):
    NOW = auto()
    BEHIND = auto()
    """Other faults are ahead in the queue, or active."""
    UNSETTLED = auto()
    """A fault has not ended, or an ISR is not full."""
    SETTLING = auto()
    """No fault is active and every ISR is full, but this has not lasted long enough."""
    LULL = auto()
    """The fault could begin now, but it waits until the current lull is over."""


class Turns:
    """The queue of due faults, the active faults, and the time since the last disturbance.

    Args:
        lives: All faults of the run.
        site: The run's cluster and hosts.
        wanted: The partitions of the run. If one of them is missing in the metadata, the metadata
            counts as incomplete.
        steady_s: Seconds for which all replicas must be in sync, before and after a fault that
            begins alone.
        lulls: The periods in which no fault begins.
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
        """The waiting faults, in the order in which they became due. A fault that runs alone stays
        first until it has ended."""
        self._under_way: list[Life] = []
        # Before the first fault all is whole, because the run waited for its topics.
        self._disturbed_s = -steady_s
        self._lock = new_lock()

    def stopped_before(self, life: Life, due_s: float, stop: Event) -> bool:
        """Wait until a fault is due. If it must begin alone, check the ISRs meanwhile.

        Args:
            life: The fault.
            due_s: The due time, in seconds by `stopwatch_s`.
            stop: An event that ends the wait early.

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
        """Wait for the turn of a fault. If the turn does not come, return the reason.

        Args:
            life: The fault, which is due.
            latest_s: The latest possible start, in seconds by `stopwatch_s`.
            patience: For a fault that begins alone: how long to wait until all replicas are in
                sync. Time in which other faults are ahead does not count, because they have their
                own limits.
            mend: A function to call repeatedly. It tries to heal earlier faults of the same lane.

        Returns:
            The reason, in a sentence. None means that the turn has come, and that the caller must
            call `taken`.
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
        """Keep the turn of a fault while the `with` block executes the fault.

        Args:
            life: The fault.
            patience: After a fault that ran alone, all other faults wait until all replicas are in
                sync for a while. If they are not in sync after this time, the wait ends.
            mend: A function to call repeatedly. It tries to heal the fault if its broker is late.
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
        # This fault is the first in the queue, so no other begins.
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
        """Return whether no fault is active and every ISR is full. If not, note the time."""
        settled = not any(each.in_force for each in self._lives) and not self._unwhole()
        if not settled:
            self._note_disturbed()
        return settled

    def _is_steady(self) -> bool:
        # A fault may end between two checks, for example a late fault for which others wait.
        over_s = [each.over_s for each in self._lives if each.over_s is not None]
        with self._lock:
            return stopwatch_s() - max([self._disturbed_s, *over_s]) >= self._steady_s

    def _note_disturbed(self) -> None:
        with self._lock:
            self._disturbed_s = stopwatch_s()

    def _why_not(self, life: Life, turn: _Turn | None) -> str:
        """Return why a fault does not begin, from its state in the queue at the last check."""
        match turn:
            case None | _Turn.NOW | _Turn.LULL:
                return TOO_LATE
            case _Turn.BEHIND:
                return self._why_behind(life)
            case _Turn.UNSETTLED:
                return (
                    "the fault destroys a replica's records, so it waits for full ISRs and for"
                    f" the end of other faults, but {self._unsettled()}"
                )
            case _Turn.SETTLING:
                return (
                    f"the fault destroys a replica's records, so it waits for {self._steady_s:g}"
                    " s with full ISRs and without another fault; then the rest of the main phase"
                    " was too short"
                )

    def _why_behind(self, life: Life) -> str:
        with self._lock:
            ahead = self._queue[: self._queue.index(life)]
        alone = [_name(each) for each in ahead if each.begins_alone]
        if life.begins_alone or not alone:
            return BEHIND_OTHERS
        return (
            f"{alone[0]} had an earlier turn and begins alone, because it destroys a replica's"
            " records; then the rest of the main phase was too short"
        )

    def _unsettled(self) -> str:
        if lacking := ", ".join(self._unwhole()[:_SHOWN]):
            return f"an ISR was not full: {lacking}"
        for each in self._lives:
            if each.in_force:
                return f"{_name(each)} had not ended"
        return "a fault had ended just before, or an ISR had become full just before"

    def _leave(self, life: Life) -> None:
        with self._lock:
            self._queue = [each for each in self._queue if each is not life]
            if life in self._under_way:
                self._under_way.remove(life)
                self._disturbed_s = stopwatch_s()


def _name(life: Life) -> str:
    return f"fault {life.scheduled.fault_id} ({life.scheduled.kind})"
