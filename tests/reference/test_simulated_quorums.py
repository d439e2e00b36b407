"""Whole quorums in simulated time, under every fault, with the invariants at every moment."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from uuid import UUID

import pytest

from cluster.reference.bugs import Bug
from cluster.reference.log.files import LogFiles
from cluster.reference.log.log import Log
from cluster.reference.log.recovery import recovered
from cluster.reference.machine import Effect, Event, Fired, SetTimer
from cluster.reference.quorum.member import Identity
from cluster.reference.quorum.quorum import Quorum
from cluster.reference.quorum.state import FOLDER, Role, election_state
from cluster.reference.settings import Settings
from cluster.reference.simulator.badness import MS, Badness
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Booted
from cluster.reference.simulator.network import Latency
from cluster.reference.simulator.process import Process
from cluster.reference.simulator.simulation import Simulation
from tests.reference.drawn_faults import DrawnFaults
from tests.reference.invariants import BrokenInvariantError, QuorumInvariants

SETTINGS = Settings(
    controller_quorum_election_timeout_ms=1000,
    controller_quorum_fetch_timeout_ms=2000,
    controller_quorum_election_backoff_max_ms=1000,
)


BUGGY = replace(SETTINGS, bugs=(Bug.VOTE_NOT_PERSISTED,))


class Voter:
    """A node that is nothing but a member of the quorum; a leader writes a record each 50 ms."""

    def __init__(
        self, disk: SimulatedDisk, *, number: int, voters: tuple[int, ...], settings: Settings
    ) -> None:
        held = recovered(disk).logs.get(FOLDER)
        path = f"{FOLDER}/quorum-state"
        state = disk.read(path) if path in disk.paths() else None
        self.quorum = Quorum(
            Identity(node=number, voters=voters, cluster_id="c", directory=UUID(int=number)),
            settings=settings,
            log=held.log() if held else Log(FOLDER),
            state=election_state(state),
            snapshot=None,
            numbers=itertools.count(1),
        )
        self.written = 0

    def start(self, now: int) -> Sequence[Effect]:
        return [*self.quorum.start(now), _write()]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        match event:
            case Fired(timer="write"):
                if not self.quorum.may_write:
                    return [_write()]
                self.written += 1
                return [*self.quorum.append(now, [b"%d" % self.written])[1], _write()]
            case _:
                pass
        effects = self.quorum.on(now, event)
        self.quorum.committed()
        return effects


def _voter(
    disk: SimulatedDisk, *, number: int, voters: tuple[int, ...], settings: Settings
) -> Booted:
    machine = Voter(disk, number=number, voters=voters, settings=settings)
    return Booted(machine=machine, storage=LogFiles(disk))


def _write() -> SetTimer:
    return SetTimer(timer="write", after_ns=50 * MS, at_most_ns=50 * MS)


def begun(seed: int, *, size: int) -> tuple[Simulation, QuorumInvariants]:
    """Return a quorum that has begun, with its invariants looked at after every event."""
    simulation = Simulation(seed, latency=Latency(slow_share=0.01, mean_life_s=20))
    voters = tuple(range(1, size + 1))
    invariants = QuorumInvariants()

    def watch(process: Process) -> None:
        machine = process.machine
        assert isinstance(machine, Voter)
        invariants.look(process.id, machine.quorum)

    for number in voters:
        boot = partial(_voter, number=number, voters=voters, settings=SETTINGS)
        simulation.add(number, boot, watch=watch)
    for host in simulation.hosts.values():
        host.start()
    return simulation, invariants


def play(seed: int, *, seconds: int = 60, size: int = 3) -> QuorumInvariants:
    """Play a quorum under faults that are drawn, and return what its invariants have seen."""
    simulation, invariants = begun(seed, size=size)
    faults = DrawnFaults(simulation, Random(f"{seed}/faults"))
    for _ in range(seconds):
        faults.strike(leaders(simulation) * 3)
        simulation.run(1)
    faults.heal()
    before = invariants.committed_end
    simulation.run(15)
    assert invariants.committed_end > before, "and in the end it goes on"
    return invariants


def leaders(simulation: Simulation) -> list[int]:
    """Return who leads by its own word."""
    machines = {
        number: host.process.machine for number, host in simulation.hosts.items() if host.process
    }
    return [n for n, each in machines.items() if isinstance(each, Voter) and each.quorum.may_write]


@pytest.mark.parametrize("seed", range(6))
def test_a_quorum_keeps_its_promises_under_faults(seed: int) -> None:
    invariants = play(seed, size=3 if seed % 2 else 5)
    assert len(invariants.leaders) > 1, "there were elections"
    assert invariants.committed_end > 50


def quarrel(seed: int, *, bug: bool, size: int = 5) -> None:
    """Have elections over slow links; who has just voted loses its power for a moment."""
    simulation = Simulation(seed, latency=Latency(slow_share=0.01, mean_life_s=20))
    voters = tuple(range(1, size + 1))
    invariants = QuorumInvariants()
    for number in voters:
        boot = partial(_voter, number=number, voters=voters, settings=BUGGY if bug else SETTINGS)
        simulation.add(number, boot, watch=lambda each: invariants.look(each.id, quorum_of(each)))
    hosts = list(simulation.hosts.values())
    for host in hosts:
        host.start()
    slow = Badness(delay_ns=20 * MS, spread_ns=80 * MS, loss=0.2)
    simulation.network.make_bad(list(itertools.permutations(voters, 2)), slow)
    for _ in range(8):
        for leader in leaders(simulation):
            simulation.hosts[leader].lose_power()
        for _ in range(60):
            simulation.run(0.05)
            for host in hosts:
                if host.process is not None and has_just_voted(host.process):
                    host.lose_power()
                    host.start()
        for host in hosts:
            if host.process is None:
                host.start()
        simulation.run(3)


def quorum_of(process: Process) -> Quorum:
    assert isinstance(process.machine, Voter)
    return process.machine.quorum


def has_just_voted(process: Process) -> bool:
    quorum = quorum_of(process)
    return quorum.role is Role.UNATTACHED and quorum.state.voted not in (-1, process.id)


def test_the_bug_that_forgets_votes_is_found_within_eight_seeds() -> None:
    found = next((seed for seed in range(8) if forgets(seed)), None)
    assert found is not None
    quarrel(found, bug=False)


def forgets(seed: int) -> bool:
    """Tell whether a vote is given twice in a simulation with the bug."""
    try:
        quarrel(seed, bug=True)
    except BrokenInvariantError as broken:
        return "voted for" in str(broken) or "lead the quorum" in str(broken)
    return False
