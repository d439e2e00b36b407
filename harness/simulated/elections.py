"""Elections of the quorum that go wrong as often as possible, as a deed of the simulator.

Two candidates of one epoch are rare where links are quick, and a voter that dies between two
questions for its vote is rarer still. So links are made slow, whoever leads the quorum is killed
and started again, and so is every voter in the moment after it granted its vote: what it said must
be on its disk by then.
"""

import itertools
from collections.abc import Generator
from random import Random
from typing import TypeVar

from cluster.files.quorum_log import LoggedVote, quorum_votes
from cluster.protocol import ClusterError, Link
from cluster.reference.simulator.badness import MS, Badness
from cluster.reference.simulator.host import Host
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.errands import Errand, Steps, until
from nemesis.broker_effects import BackEffect, ProcessChange
from nemesis.cluster_effects import DisputedElectionEffect, VoterStruck
from results.record.clock import NS_PER_S

SLOW_MS = (5, 20, 80)
"""How late each packet is at least; up to four times as much again is drawn for each."""
LOSS = 0.2
LOOK_S = 0.001
LED_S = 2.5
"""How often whoever leads is killed: an election over slow links has to come to its end."""
STRUCK_LIMIT_S = 12.0
"""Several time-outs of an election."""

T = TypeVar("T")
Measuring = Generator[float, None, T]


class DisputedElection:
    """Voters that die in the moment after their vote, over slow links, as long as it lasts.

    Votes are read from the nodes' own logs; the effect has those that were struck until it was
    confirmed, not the ones after.

    Args:
        targets: All voters.
        rng: Draws how slow links are.
        cluster: Of the run.

    Raises:
        ClusterError: It is not aimed at all: links are made bad between all of them.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, targets: tuple[str, ...], rng: Random, cluster: SimulatedCluster) -> None:
        if set(targets) != set(cluster.nodes):
            raise ClusterError("an election is of all nodes: use the target all")
        self.targets = targets
        self._cluster = cluster
        self._was_gone: set[str] = set()
        self._agenda = cluster.simulation.agenda
        self._network = cluster.simulation.network
        slow_ns = rng.choice(SLOW_MS) * MS
        self._badness = Badness(delay_ns=slow_ns, spread_ns=4 * slow_ns, loss=LOSS)
        numbers = [host.id for host in cluster.hosts.values()]
        self._all_links = list(itertools.permutations(numbers, 2))
        self._before = {node: cluster.process(node) for node in targets}
        self._states = {node: cluster.state_of(node) for node in targets}
        self._read = {node: len(cluster.hosts[node].said) for node in targets}
        self._struck: list[VoterStruck] = []
        self._over = False
        self._began_ns = self._healed_ns = self._agenda.now

    def inject(self) -> Measuring[None]:
        """Make all links slow, and begin."""
        self._network.make_bad(self._all_links, self._badness)
        Errand(self._agenda, self._strike_voters())
        Errand(self._agenda, self._strike_leaders())
        yield 0.0

    def confirm(self) -> Measuring[DisputedElectionEffect | None]:
        """See that a voter was struck after its vote."""
        struck = yield from until(
            self._agenda, lambda: bool(self._struck), limit_s=STRUCK_LIMIT_S, interval_s=0.02
        )
        if not struck:
            return None
        took_s = (self._agenda.now - self._began_ns) / NS_PER_S
        return DisputedElectionEffect(took_s=took_s, struck=tuple(self._struck))

    def heal(self) -> None:
        """Let them vote in peace. Idempotent."""
        if not self._over:
            self._over, self._healed_ns = True, self._agenda.now
            view = self._cluster.view()
            self._was_gone = {n for n in self.targets if view and n not in view.registered}
            self._network.make_good(self._all_links)
        for node in self.targets:
            if self._cluster.hosts[node].process is None:
                self._cluster.start_node(node)

    def confirm_healed(self, limit_s: float) -> Measuring[BackEffect | None]:
        """See that all of them are registered, by all who answer."""
        back = yield from until(
            self._agenda,
            lambda: all(map(self._cluster.is_back, self.targets)),
            limit_s=limit_s,
        )
        if not back:
            return None
        return BackEffect(
            took_s=(self._agenda.now - self._healed_ns) / NS_PER_S,
            processes=tuple(map(self._now, self.targets)),
            pid_before={node: each.pid for node, each in self._before.items()},
            was_gone=tuple(sorted(self._was_gone)),
            asked=self.targets[0],
        )

    def _strike_voters(self) -> Steps:
        while not self._over:
            for node in self.targets:
                vote = self._granted(node)
                if vote is not None and self._restarted(self._cluster.hosts[node]):
                    struck = VoterStruck(
                        node=node, epoch=vote.epoch, voted_for=f"n{vote.voted_for}"
                    )
                    self._struck.append(struck)
            yield LOOK_S

    def _strike_leaders(self) -> Steps:
        while not self._over:
            view = self._cluster.view()
            leader = view.controller if view else None
            if leader in self.targets:
                self._restarted(self._cluster.hosts[leader])
            yield LED_S

    def _granted(self, node: str) -> LoggedVote | None:
        """Return the vote that a node granted to another since the last look."""
        host = self._cluster.hosts[node]
        said = host.said[self._read[node] :]
        self._read[node] = len(host.said)
        lines = (f"[-] INFO {text}" for _, text in said)
        votes = [each for each in quorum_votes(lines) if each.voted_for != host.id]
        return votes[-1] if votes else None

    def _restarted(self, host: Host) -> bool:
        """Kill a node and start it again; False if it does not run anyway."""
        if host.process is None or host.process.paused:
            return False
        host.kill()
        self._cluster.start_node(f"n{host.id}")
        return True

    def _now(self, node: str) -> ProcessChange:
        process = self._cluster.process(node)
        return ProcessChange(
            node=node,
            pid=process.pid,
            start_ticks=process.start_ticks,
            state_before=self._states[node],
            state_after=self._cluster.state_of(node),
        )
