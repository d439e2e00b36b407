"""The fault `disputed-election`: elections of the quorum go wrong as often as possible.

Two candidates of one epoch are rare where links are quick (of seven elections of processes on one
machine none had two), and a voter that dies between two questions for its vote is rarer still. So
links between voters are made slow, whoever leads the quorum is killed and started again, and so is
every voter in the moment after it granted its vote: what it answered must be on its disk by then
(KIP-595). A majority may be gone for a while, and the partitions of brokers that vote with it; no
disk loses anything, for SIGKILL leaves the page cache.

It works where links can be made slow. Schedules deal it in virtual time only, for a majority may be
gone; on real hosts it is written by hand.

Votes are read from the nodes' own logs. The effect names the voters that were struck until it was
confirmed, not those after.
"""

import itertools
from functools import partial

from cluster.protocol import CanKill, ClusterError, Disk, Link, Logs, Quality, Vote
from nemesis.background import Background
from nemesis.broker_effects import BackEffect
from nemesis.brokers import HitBrokers, broker_runs
from nemesis.cluster_effects import DisputedElectionEffect, VoterStruck
from nemesis.evidence import later_by
from nemesis.in_words import InWords
from nemesis.protocol import FAILURES, Aim, Patience, Site
from nemesis.quality import BadLinks, Trial, drawn_seed
from nemesis.undo import Restart, Unshape
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.plan import Plan
from results.record.runtime import new_event, new_lock

SLOW_MS = (5, 20, 80)
"""How late each packet is at least; it is up to four times as much later still."""
LOSS = 0.2
LOOK_S = 0.005
"""Between two looks into a log: a vote is on its way for at least as long over slow links."""
LED_S = 2.5
"""How long whoever leads is left alone: an election over slow links has to come to its end."""
STRUCK_LIMIT_S = 30.0
"""Several time-outs of an election, and the starts of brokers between them."""
END_LIMIT_S = 15.0
"""A kill may take 10 s where a machine is busy, and a start follows it."""
RETRY_S = 0.2
LEAST_VOTERS = 3
"""Two candidates, and who votes for one of them."""


class DisputedElection:
    """Voters that are killed in the moment after their vote, and leaders, as long as it lasts.

    Args:
        aim: Which fault this is; its targets have to be all voters. Its random source draws how
            slow links are.
        site: Its cluster's voters are killed, their links shaped, their logs read.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the logs of this cluster's nodes are not at hand")
        voters = site.controllers or tuple(site.cluster.nodes)
        if set(aim.targets) != set(voters):
            raise ClusterError(
                f"an election is of all who vote, {', '.join(voters)}; use the target quorum-voters"
            )
        self.targets = aim.targets
        self._aim, self._site, self._cluster = aim, site, site.cluster
        self._brokers = HitBrokers(site, aim.targets)
        self._slow = _slow_links(aim, site)
        self._logs = {node: _VotesOf(site.disk_of(node), site.logs) for node in aim.targets}
        self._turns = {node: new_lock() for node in aim.targets}
        self._over = new_event()
        self._background = Background()
        self._struck: list[VoterStruck] = []
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[Restart | Unshape, ...]:
        """Return the links to make good, and the voters to start again."""
        return (*self._slow.undo(), *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """Make links slow, and begin to strike."""
        self._started_s = stopwatch_s()
        for log in self._logs.values():
            log.skip()
        self._slow.inject()
        name = f"fault-{self._aim.fault_id}"
        self._background.start(self._strike_leaders, f"{name}-leaders")
        for node in self.targets:
            self._background.start(partial(self._strike_voter, node), f"{name}-{node}")

    def confirm(self, patience: Patience) -> DisputedElectionEffect | None:
        """See that a voter was killed after its vote, and that links are slow."""
        slow = self._slow.confirm(patience)
        if slow is None:
            return None
        try:
            wait_until(
                lambda: self._struck,
                timeout_s=max(patience.limit_s, STRUCK_LIMIT_S),
                what="a vote",
                interval_s=0.02,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            self._background.raise_failure()
            return None
        took_s = stopwatch_s() - self._started_s
        return DisputedElectionEffect(took_s=took_s, struck=tuple(self._struck), slow=slow)

    def heal(self) -> None:
        """Let them vote in peace: strike no more, make links good, start who is down."""
        self._over.set()
        self._brokers.note_heal()
        self._background.join(END_LIMIT_S)
        try:
            self._slow.heal()
        finally:
            if self._background.is_busy():  # Two who start one voter are in each other's way.
                raise ClusterError("a voter is still being killed, or started again")
            self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """See that links are quick, and all voters registered again."""
        self._background.raise_bugs()
        if self._slow.confirm_healed(patience) is None:
            return None
        return self._brokers.wait_back(patience)

    def _is_over(self) -> bool:
        return self._over.is_set() or self._aim.is_late

    def _strike_voter(self, node: str) -> None:
        """Kill a voter whenever its log has a new vote for another, and start it again."""
        while not self._is_over():
            try:
                with self._turns[node]:
                    self._strike_if_it_voted(node)
            except FAILURES as failed:
                self._background.note(failed, f"no vote of {node} was seen and struck")
                self._pause(RETRY_S)
            self._pause(LOOK_S)

    def _strike_if_it_voted(self, node: str) -> None:
        votes = [each for each in self._logs[node].new() if f"n{each.voted_for}" != node]
        if votes and self._restart(node):
            last = votes[-1]
            struck = VoterStruck(node=node, epoch=last.epoch, voted_for=f"n{last.voted_for}")
            self._struck.append(struck)

    def _strike_leaders(self) -> None:
        """Kill whoever leads in an epoch whose leader was not yet killed, and start it again."""
        ended = -1
        while not self._is_over():
            try:
                view = self._site.cluster.view()
                if view and view.controller in self.targets and view.controller_epoch > ended:
                    ended = view.controller_epoch
                    with self._turns[view.controller]:
                        self._restart(view.controller)
            except FAILURES as failed:
                self._background.note(failed, "no leader of the quorum was struck")
            self._pause(LED_S)

    def _restart(self, node: str) -> bool:
        """Kill a voter and start it again; False if it does not run anyway, or all is over."""
        if self._is_over() or not broker_runs(self._site, node):
            return False
        self._cluster.kill_node(node)
        self._logs[node].skip()  # Each life of a voter is struck once.
        while not self._is_started(node):
            self._pause(RETRY_S)
            if self._is_over():
                return False
        return True

    def _is_started(self, node: str) -> bool:
        try:
            self._site.cluster.start_node(node)
        except FAILURES as failed:
            self._background.note(failed, f"{node} could not be started again")
            return False
        return True

    def _pause(self, seconds: float) -> None:
        pause_until(stopwatch_s() + seconds, self._over)


class _VotesOf:
    """The votes that a node granted, as its log has them; each byte is read once.

    Args:
        disk: The node's files.
        logs: Knows them.
    """

    def __init__(self, disk: Disk, logs: Logs) -> None:
        self._disk, self._logs = disk, logs
        self._read_to = 0

    def skip(self) -> None:
        """Leave out what is in the log by now."""
        self._read_to = self._disk.size(self._logs.votes_log)

    def new(self) -> list[Vote]:
        """Return the votes since the last look, in order; a line that has no end yet waits."""
        if self._disk.size(self._logs.votes_log) <= self._read_to:
            return []
        said = self._disk.read(self._logs.votes_log, at=self._read_to)
        whole = said[: said.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return list(self._logs.votes(whole.decode(errors="replace").splitlines()))


def _slow_links(aim: Aim, site: Site) -> BadLinks:
    """Return the links between all voters, as slow as is drawn."""
    slow_ms = aim.rng.choice(SLOW_MS)
    quality = Quality(delay_ms=3 * slow_ms, jitter_ms=2 * slow_ms, loss=LOSS, seed=drawn_seed(aim))
    links = tuple(itertools.permutations(aim.targets, 2))
    return BadLinks(aim, site, quality, Trial(worse=later_by(slow_ms)), links=links)


def has_enough_voters(plan: Plan) -> bool:
    """Tell whether two can stand for election and another one votes."""
    return plan.voters >= LEAST_VOTERS


SAYS = {
    "disputed-election": InWords(
        does="links between voters are slow; the quorum's leaders, and voters that have just"
        " granted a vote, are killed and started again",
        injected="SIGKILL and a start, as soon as a voter's own log has its vote; a shaper on each"
        " link's sender",
        proven="round trips of numbered datagrams, before and now; which voter was killed after"
        " which vote",
        undone="removal of its shape; starts of all voters; the same measure, and all are"
        " registered",
    ),
}
