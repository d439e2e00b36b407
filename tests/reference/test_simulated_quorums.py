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
from cluster.reference.quorum.state import FOLDER, election_state
from cluster.reference.settings import Settings
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Booted
from cluster.reference.simulator.invariants import BrokenInvariantError, QuorumInvariants
from cluster.reference.simulator.network import MS, Latency
from cluster.reference.simulator.process import Process
from cluster.reference.simulator.simulation import Simulation
from tests.reference.misfortune import Misfortune

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


def play(seed: int, *, seconds: int = 60, size: int = 3, bug: bool = False) -> QuorumInvariants:
    """Play a quorum under faults that are drawn, and return what its invariants have seen."""
    simulation = Simulation(seed, latency=Latency(slow_share=0.01, mean_life_s=20))
    voters = tuple(range(1, size + 1))
    invariants = QuorumInvariants()

    def watch(process: Process) -> None:
        machine = process.machine
        assert isinstance(machine, Voter)
        invariants.look(process.id, machine.quorum)

    for number in voters:
        boot = partial(_voter, number=number, voters=voters, settings=BUGGY if bug else SETTINGS)
        simulation.add(number, boot, watch=watch)
    for host in simulation.hosts.values():
        host.start()
    misfortune = Misfortune(simulation, Random(f"{seed}/faults"))
    for _ in range(seconds):
        misfortune.strike(leaders(simulation) * 3)
        simulation.run(1)
    misfortune.heal()
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
    assert len(invariants.leaders) > 3, "there were elections"
    assert invariants.committed_end > 50


def test_the_bug_that_forgets_votes_is_found() -> None:
    found = next((seed for seed in range(60) if breaks(seed)), None)
    assert found is not None


def breaks(seed: int) -> bool:
    """Tell whether a vote is given twice in a simulation with the bug."""
    try:
        play(seed, bug=True)
    except BrokenInvariantError as broken:
        return "voted for" in str(broken) or "lead the quorum" in str(broken)
    return False
