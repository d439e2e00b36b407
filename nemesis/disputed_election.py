"""The fault `disputed-election`: elections of the controller quorum go wrong as often as possible.

On fast links, two candidates in one epoch are rare. In a test on one machine, none of seven
elections had two candidates. A voter that dies between two vote requests is even rarer. So the
fault makes the links between voters slow, and drops a fifth of the packets. It kills and restarts
leaders of the quorum, at most one leader every 2.5 s. It also kills and restarts each voter just
after the voter granted its vote to another voter. The vote must be on the voter's disk at that time
(KIP-595). A majority of voters may be down for a while. Partitions on brokers that are voters may
be unavailable, too. No disk loses data, because SIGKILL keeps the page cache.

The hosts must be able to make links slow. Random schedules use this fault in virtual time only,
because a majority may be down. On real hosts, a plan must list the fault explicitly.

The fault reads the votes from each voter's application log (`server.log`). The effect names only
those voters that were killed before the confirmation.
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
"""The minimum delay of each packet. Up to four times as much is added at random."""
LOSS = 0.2
LOOK_S = 0.005
"""Seconds between two reads of a log. A vote over the slow links takes at least this time."""
LED_S = 2.5
"""The minimum number of seconds between two kills of leaders, so that an election over slow links
can end."""
STRUCK_LIMIT_S = 30.0
"""Seconds for several election timeouts, with restarts of brokers between them."""
END_LIMIT_S = 15.0
"""Seconds for a kill and the following start. On a busy machine, a kill takes up to 10 s."""
RETRY_S = 0.2
LEAST_VOTERS = 3
"""The smallest number of voters: two candidates, and a voter that votes for one of them."""


class DisputedElection:
    """Until the heal, this fault kills leaders, and each voter just after its vote for another.

    Args:
        aim: The fault's id and targets. The targets must be all voters. The random source chooses
            the delay of links.
        site: The run's cluster and hosts. The fault kills the voters, slows their links, and reads
            their logs.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.disk_of is None or site.logs is None:
            raise ClusterError("the harness cannot access the logs of this cluster's nodes")
        voters = site.controllers or tuple(site.cluster.nodes)
        if set(aim.targets) != set(voters):
            raise ClusterError(
                f"a disputed election needs all voters as targets ({', '.join(voters)}); use the"
                " target quorum-voters"
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
        """Return the undo steps: restore the links, and start the voters that are down."""
        return (*self._slow.undo(), *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """Make the links slow, and start to kill voters and leaders."""
        self._started_s = stopwatch_s()
        for log in self._logs.values():
            log.skip()
        self._slow.inject()
        name = f"fault-{self._aim.fault_id}"
        self._background.start(self._strike_leaders, f"{name}-leaders")
        for node in self.targets:
            self._background.start(partial(self._strike_voter, node), f"{name}-{node}")

    def confirm(self, patience: Patience) -> DisputedElectionEffect | None:
        """Confirm that a voter was killed after its vote, and that the links are slow."""
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
        """Stop the kills, restore the links, and start the voters that are down."""
        self._over.set()
        self._brokers.note_heal()
        self._background.join(END_LIMIT_S)
        try:
            self._slow.heal()
        finally:
            if self._background.is_busy():  # Two tasks must not start the same voter.
                raise ClusterError("the task that kills or starts a voter is still running")
            self._brokers.start_missing()

    def confirm_healed(self, patience: Patience) -> BackEffect | None:
        """Confirm that the links are fast, and that all voters are registered again."""
        self._background.raise_bugs()
        if self._slow.confirm_healed(patience) is None:
            return None
        return self._brokers.wait_back(patience)

    def _is_over(self) -> bool:
        return self._over.is_set() or self._aim.is_late

    def _strike_voter(self, node: str) -> None:
        """Kill and restart a voter whenever its log shows a new vote for another node."""
        while not self._is_over():
            try:
                with self._turns[node]:
                    self._strike_if_it_voted(node)
            except FAILURES as failed:
                self._background.note(failed, f"{node} could not be killed after a vote")
                self._pause(RETRY_S)
            self._pause(LOOK_S)

    def _strike_if_it_voted(self, node: str) -> None:
        votes = [each for each in self._logs[node].new() if f"n{each.voted_for}" != node]
        if votes and self._restart(node):
            last = votes[-1]
            struck = VoterStruck(node=node, epoch=last.epoch, voted_for=f"n{last.voted_for}")
            self._struck.append(struck)

    def _strike_leaders(self) -> None:
        """Kill and restart the quorum's leader, at most once for each epoch."""
        ended = -1
        while not self._is_over():
            try:
                view = self._site.cluster.view()
                if view and view.controller in self.targets and view.controller_epoch > ended:
                    ended = view.controller_epoch
                    with self._turns[view.controller]:
                        self._restart(view.controller)
            except FAILURES as failed:
                self._background.note(failed, "the leader of the quorum could not be killed")
            self._pause(LED_S)

    def _restart(self, node: str) -> bool:
        """Kill a voter and start it again.

        Return False if the voter is already down, or if the fault ends before the voter is started.
        """
        if self._is_over() or not broker_runs(self._site, node):
            return False
        self._cluster.kill_node(node)
        self._logs[node].skip()  # Old votes must not kill the new process.
        while not self._is_started(node):
            self._pause(RETRY_S)
            if self._is_over():
                return False
        return True

    def _is_started(self, node: str) -> bool:
        try:
            self._site.cluster.start_node(node)
        except FAILURES as failed:
            self._background.note(failed, f"{node} could not be restarted")
            return False
        return True

    def _pause(self, seconds: float) -> None:
        pause_until(stopwatch_s() + seconds, self._over)


class _VotesOf:
    """Reads a node's `server.log` to find the votes that the node granted. Each vote counts once.

    Args:
        disk: The node's files.
        logs: The reader of the log files.
    """

    def __init__(self, disk: Disk, logs: Logs) -> None:
        self._disk, self._logs = disk, logs
        self._read_to = 0

    def skip(self) -> None:
        """Skip the lines that the log has now."""
        self._read_to = self._disk.size(self._logs.votes_log)

    def new(self) -> list[Vote]:
        """Return the new votes, in order. An incomplete line is read at the next call."""
        if self._disk.size(self._logs.votes_log) <= self._read_to:
            return []
        said = self._disk.read(self._logs.votes_log, at=self._read_to)
        whole = said[: said.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return list(self._logs.votes(whole.decode(errors="replace").splitlines()))


def _slow_links(aim: Aim, site: Site) -> BadLinks:
    """Return the fault that makes the links between all voters slow by a random delay."""
    slow_ms = aim.rng.choice(SLOW_MS)
    quality = Quality(delay_ms=3 * slow_ms, jitter_ms=2 * slow_ms, loss=LOSS, seed=drawn_seed(aim))
    links = tuple(itertools.permutations(aim.targets, 2))
    return BadLinks(aim, site, quality, Trial(worse=later_by(slow_ms)), links=links)


def has_enough_voters(plan: Plan) -> bool:
    """Return whether the plan has at least three voters: two candidates and one that votes."""
    return plan.voters >= LEAST_VOTERS


SAYS = {
    "disputed-election": InWords(
        does=(
            "links between voters are slow and lose a fifth of the packets; the quorum's leaders,"
            " and voters that have just granted a vote, are killed and restarted"
        ),
        injected=(
            "SIGKILL and a start when a voter's own log shows its vote; a traffic shaper on each"
            " link's sender"
        ),
        proven=(
            "round trips of numbered datagrams, before and during the fault; the killed voters"
            " and their votes"
        ),
        undone=(
            "removal of the shape; a start of each voter; the same measurement; all voters are"
            " registered"
        ),
    ),
}
