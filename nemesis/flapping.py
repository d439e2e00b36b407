"""The fault `flapping`: the targets are cut off and reconnected repeatedly, at random times.

If brokers are also the controllers, brokers lose their sessions and get new ones before the cluster
has recovered, so elections follow one another. Links to separate controllers and to ZooKeeper stay
open. Probes check that each phase really cuts or reconnects the links. All cuts of the fault have
the same id. So the heal can remove the current cut in any phase.
"""

from collections.abc import Callable, Mapping

from cluster.protocol import ClusterError, Link
from nemesis.background import Background
from nemesis.evidence import made_silent
from nemesis.grudges import isolation, links_of
from nemesis.in_words import InWords
from nemesis.link_effects import FlapEffect, FlappedEffect, FlapPhase
from nemesis.protocol import FAILURES, Aim, Patience, Site
from nemesis.undo import Join
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.runtime import new_event, new_lock

FIRST_S = 0.3
"""The length in seconds of the first cut and of the first open phase. Both are short, so that both
are confirmed soon."""
CUT_S = (0.5, 4.0)
"""The shortest and longest cut in seconds. Only the longer cuts can end a broker's session (3 s by
default)."""
OPEN_S = (0.5, 2.0)
TURN_LIMIT_S = 3.0
"""The time limit in seconds for probes to confirm that a phase has begun."""
END_LIMIT_S = 10.0


class Flapping:
    """A fault that cuts off the targets and reconnects them repeatedly, until the heal.

    Args:
        aim: The fault's id and targets, and the random source that chooses the rhythm.
        site: The run's cluster and hosts. The fault cuts links of this network.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.network is None:
            raise ClusterError("these hosts cannot cut the network between nodes")
        self.targets = aim.targets
        self.links = links_of(isolation(site.cluster.nodes, aim.targets))
        if not self.links:
            raise ClusterError(f"no link to cut around {', '.join(aim.targets)}")
        self._network = site.network
        self._aim, self._cut_id = aim, f"fault-{aim.fault_id}"
        self._rng = aim.rng
        self._turn = new_lock()
        self._over = new_event()
        self._before: Mapping[Link, bool] = {}
        self._phases: list[FlapPhase] = []
        self._started_s = self._healed_s = stopwatch_s()
        self._background = Background()

    def undo(self) -> tuple[Join, ...]:
        """Return the undo step that removes the current cut, if any."""
        return (Join(cut_id=self._cut_id, links=self.links),)

    def inject(self) -> None:
        """Probe the links, and then start to cut and reconnect them."""
        self._before, stalled = self._network.probe(self.links), self._network.stalled_links()
        if not any(self._before[link] or link in stalled for link in self.links):
            raise ClusterError("every link of this cut had already failed before the fault")
        self._started_s = stopwatch_s()
        self._background.start(self._flap, f"{self._cut_id}-flapping")

    def confirm(self, patience: Patience) -> FlapEffect | None:
        """Confirm one phase in which all links are cut, and one in which all are open.

        In the open phase, links that another fault cuts or stalls are not checked.
        """
        try:
            wait_until(
                self._both_seen,
                timeout_s=patience.limit_s,
                what="one cut and its end",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        took_s = stopwatch_s() - self._started_s
        return FlapEffect(
            cut_id=self._cut_id, took_s=took_s, links=self.links, phases=tuple(self._phases)
        )

    def heal(self) -> None:
        """Stop the phases, and remove the cut."""
        self._healed_s = stopwatch_s()
        self._over.set()
        with self._turn:
            self._network.join(self._cut_id)
        self._background.join(END_LIMIT_S)

    def confirm_healed(self, patience: Patience) -> FlappedEffect | None:
        """Confirm that probes pass again, except where another fault cuts or stalls the link."""
        self._background.raise_bugs()
        try:
            after = wait_until(
                self._probe_open,
                timeout_s=patience.limit_s,
                what="the links to work again",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return FlappedEffect(
            cut_id=self._cut_id,
            took_s=stopwatch_s() - self._healed_s,
            phases=tuple(self._phases),
            alive=tuple(link for link in self.links if after[link]),
            cut_by_others=tuple(link for link in self.links if not after[link]),
        )

    def _both_seen(self) -> bool:
        self._background.raise_failure()
        return {phase.cut for phase in self._phases if phase.confirmed} == {True, False}

    def _flap(self) -> None:
        cut_s = open_s = FIRST_S
        try:
            while not self._is_over():
                self._phase(cut=True, hold_s=cut_s)
                self._phase(cut=False, hold_s=open_s)
                cut_s, open_s = self._rng.uniform(*CUT_S), self._rng.uniform(*OPEN_S)
        except FAILURES as failed:
            self._background.note(failed)

    def _is_over(self) -> bool:
        return self._over.is_set() or self._aim.is_late

    def _phase(self, *, cut: bool, hold_s: float) -> None:
        """Cut or reconnect the links, check the result with probes, and then wait for a while."""
        at_s = stopwatch_s() - self._started_s
        with self._turn:
            if self._is_over():
                return
            dropped = sum(self._network.dropped(self._cut_id).values())
            if cut:
                self._network.cut(self._cut_id, self.links)
            else:
                self._network.join(self._cut_id)
        confirmed = self._turned(self._probe_cut if cut else self._probe_open)
        if self._over.is_set():
            return  # The probe may have seen the heal.
        self._phases.append(
            FlapPhase(cut=cut, at_s=round(at_s, 3), confirmed=confirmed, dropped_before=dropped)
        )
        self._over.wait(hold_s)

    def _turned(self, probe: Callable[[], object]) -> bool:
        try:
            wait_until(probe, timeout_s=TURN_LIMIT_S, what="the links to turn", stop=self._over)
        except WaitTimeoutError:
            return False
        return True

    def _probe_cut(self) -> bool:
        stalled = self._network.stalled_links()
        during = self._network.probe(self.links)
        stalled |= self._network.stalled_links()
        dropped = self._network.dropped(self._cut_id)
        return not any(during.values()) and made_silent(self.links, self._before, stalled, dropped)

    def _probe_open(self) -> Mapping[Link, bool] | None:
        after = self._network.probe(self.links)
        silent = self._network.silent_links()
        return after if all(after[link] or link in silent for link in self.links) else None


SAYS = {
    "flapping": InWords(
        does="the targets are repeatedly cut off and reconnected at random intervals",
        injected="like `isolate`, by a separate thread",
        proven="datagrams in each phase: none arrives while cut off, all arrive while connected",
        undone="like `isolate`",
    ),
}
