"""The broker processes that a fault hits, and the wait until these brokers are back."""

from collections.abc import Callable, Iterable, Sequence

from cluster.protocol import CanTellBack, ClusterError, ClusterView, HasKeeper, ProcessId
from cluster.sessions import REPORTED_S
from nemesis.broker_effects import BackEffect, ProcessChange
from nemesis.protocol import FAILURES, Patience, Site
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

RUNNING = frozenset("RSDI")
STOPPED = frozenset("Tt")
GONE = frozenset({None, "Z", "X"})
"""State letters of an ended process in `/proc/PID/stat` (man 5 proc_pid_stat), zombies included."""

BELIEF_LIMIT_S = 8.0
"""Seconds after which a registration counts as the new process's. This is for clusters that cannot
tell old and new registrations apart (`CanTellBack`). A quick restart stays unnoticed: the old
registration remains until its session ends, by default after 3 s."""

OWN_WORD_S = 1.0
"""For this many seconds after a pause, Logquake does not trust the broker's own metadata. The
broker still shows its old registration until the response to its next heartbeat."""


class HitBrokers:
    """The processes that ran on the targets when the fault was made.

    Args:
        site: The run's cluster and hosts.
        targets: The nodes.

    Raises:
        ClusterError: A target has no broker process.
    """

    def __init__(self, site: Site, targets: tuple[str, ...]) -> None:
        self._site = site
        self._targets = targets
        self.before = {node: running_broker(site, node) for node in targets}
        self._states_before = {node: site.state_of(at) for node, at in self.before.items()}
        self._states_at_heal = dict(self._states_before)
        self._was_gone: set[str] = set()
        self._healed_s: float | None = None
        self._own_word_s: float | None = None

    def one_a_process(self) -> tuple[str, ...]:
        """Return one target of each process, in order. A signal hits all nodes of a process."""
        first = {at: node for node, at in reversed(self.before.items())}
        return tuple(node for node, at in self.before.items() if first[at] == node)

    def of_process(self, node: str) -> tuple[str, ...]:
        """Return all targets that run in the same process as `node`, including `node` itself."""
        return tuple(each for each, at in self.before.items() if at == self.before[node])

    def wait_states(self, wanted: frozenset[str | None], patience: Patience) -> bool:
        """Wait until each process is in one of the wanted states. Return False after a timeout."""
        try:
            return wait_until(
                lambda: all(self._site.state_of(at) in wanted for at in self.before.values()),
                timeout_s=patience.limit_s,
                what=f"brokers {', '.join(self._targets)} to be in state {wanted}",
                interval_s=0.02,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return False

    def changes(self) -> tuple[ProcessChange, ...]:
        """Return the change of each process since the fault was made."""
        return tuple(
            self._change(node, process, self._states_before[node])
            for node, process in self.before.items()
        )

    def note_heal(self) -> None:
        """Note the process states and the missing registrations just before the first heal."""
        if self._healed_s is not None:
            return
        self._healed_s = stopwatch_s()
        self._states_at_heal = {node: self._site.state_of(at) for node, at in self.before.items()}
        self.note_gone()

    def note_gone(self) -> None:
        """Note the targets that are not registered now."""
        self._note_gone(self._site.cluster.view())

    def start_missing(self, nodes: Sequence[str] | None = None) -> None:
        """Start the broker of each target that has no broker process.

        Args:
            nodes: The targets to start. None for all targets.

        Raises:
            ClusterError, OSError, SubprocessError: A broker did not start. All others were tried.
        """
        started: set[str] = set()

        def start(node: str) -> None:
            if node not in started and broker_is_gone(self._site, node):
                self._site.cluster.start_node(node)
                started.update(self._site.together([node]))

        on_each(self._targets if nodes is None else nodes, start)

    def wait_back(self, patience: Patience) -> BackEffect | None:
        """Wait until each target's broker runs and is registered. Return None after a timeout."""
        try:
            asked = wait_until(
                self._asked_if_back,
                timeout_s=patience.limit_s,
                what=f"brokers {', '.join(self._targets)} to be back",
                interval_s=0.2,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return BackEffect(
            took_s=self._since_heal_s(),
            processes=tuple(
                self._change(node, at, self._states_at_heal[node])
                for node in self._targets
                if (at := self._site.cluster.process(node)) is not None
            ),
            pid_before={node: at.pid for node, at in self.before.items()},
            was_gone=tuple(sorted(self._was_gone)),
            asked=asked,
        )

    def _asked_if_back(self) -> str | None:
        """Return a node that reports all targets as back, or None if no node does so yet."""
        if not all(broker_runs(self._site, node) for node in self._targets):
            return None
        view = self._site.cluster.view()
        self._note_gone(view)
        cluster = self._site.cluster
        if isinstance(cluster, CanTellBack):
            if not all(cluster.is_back(node) for node in self._targets):
                return None
        elif view is None or not view.registered.issuperset(self._targets):
            return None
        if view is None:
            # Only a controller answers, and no broker. Only brokers and ZooKeeper return a view.
            told_of = {*cluster.nodes, cluster.keeper if isinstance(cluster, HasKeeper) else None}
            return self._targets[0] if told_of.isdisjoint(self._targets) else None
        return view.asked if self._is_news(view) else None

    def _is_news(self, view: ClusterView) -> bool:
        """Return whether a view that contains all targets is certainly newer than the heal."""
        now_s, cluster = stopwatch_s(), self._site.cluster
        restarted = {node for node, at in self.before.items() if cluster.process(node) != at}
        unnoticed = restarted - self._was_gone
        can_tell = isinstance(cluster, CanTellBack)
        if unnoticed and not can_tell and self._since_heal_s() <= BELIEF_LIMIT_S:
            return False
        kept = isinstance(cluster, HasKeeper) and view.asked == cluster.keeper
        if view.asked not in self._targets or (view.asked in restarted and not kept):
            return True
        self._own_word_s = self._own_word_s or now_s
        # At its start ZooKeeper finds all old registrations in its log and continues them.
        # The session of a broker that does not come back ends later.
        word_s = self._site.session_s + REPORTED_S if kept else OWN_WORD_S
        return now_s - self._own_word_s >= word_s

    def _since_heal_s(self) -> float:
        return 0.0 if self._healed_s is None else stopwatch_s() - self._healed_s

    def _note_gone(self, view: ClusterView | None) -> None:
        if view is not None:
            self._was_gone |= set(self._targets) - view.registered

    def _change(self, node: str, process: ProcessId, state_before: str | None) -> ProcessChange:
        return ProcessChange(
            node=node,
            pid=process.pid,
            start_ticks=process.start_ticks,
            state_before=state_before,
            state_after=self._site.state_of(process),
        )


def running_broker(site: Site, node: str) -> ProcessId:
    """Return the process of a node's broker. It may be paused.

    Raises:
        ClusterError: The node has no broker process, so the fault cannot hit it.
    """
    process = site.cluster.process(node)
    if process is None or site.state_of(process) in GONE:
        raise ClusterError(f"no broker runs on {node}")
    return process


def wait_again(site: Site, node: str, patience: Patience) -> None:
    """Wait until a broker that was just started is registered (`is_registered`).

    Raises:
        ClusterError: The broker ended again, or is paused.
        WaitTimeoutError: The broker is not back within the time limit.
    """
    wait_until(
        lambda: _is_back(site, node),
        timeout_s=patience.limit_s,
        what=f"{node} to be back",
        interval_s=0.2,
        stop=patience.stop,
    )


def _is_back(site: Site, node: str) -> bool:
    if not broker_runs(site, node):
        raise ClusterError(f"the broker of {node} ended again")
    return is_registered(site, node)


def on_each(nodes: Iterable[str], do: Callable[[str], object]) -> None:
    """Call a function for each node, even if one of the calls fails.

    Raises:
        ClusterError, OSError, SubprocessError: The error of the first call that failed.
    """
    failed: list[Exception] = []
    for node in nodes:
        try:
            do(node)
        except FAILURES as refused:
            failed.append(refused)
    if failed:
        raise failed[0]


def is_registered(site: Site, node: str) -> bool:
    """Return whether a broker is registered.

    If the cluster can tell old and new registrations apart, only a registration since the broker's
    last start counts.
    """
    if isinstance(site.cluster, CanTellBack):
        return site.cluster.is_back(node)
    view = site.cluster.view()
    return view is not None and node in view.registered


def broker_is_gone(site: Site, node: str) -> bool:
    """Return whether a node has no broker process. A paused process counts as present."""
    process = site.cluster.process(node)
    return process is None or site.state_of(process) in GONE


def broker_runs(site: Site, node: str) -> bool:
    """Return whether a node's broker exists and is not paused."""
    process = site.cluster.process(node)
    return process is not None and site.state_of(process) in RUNNING
