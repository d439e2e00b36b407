"""What can be done to simulated machines beside cuts: bad links, disks, clocks, power."""

import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from random import Random

import pytest

from cluster.protocol import (
    CanLimitDisk,
    CanLosePower,
    CanPartition,
    CanShape,
    CanShiftClock,
    CanSlowDisk,
    ClusterError,
    HasFiles,
    Hosts,
    Measured,
    Quality,
)
from cluster.reference.machine import Effect, Event, Fired, SetTimer
from cluster.reference.simulator.badness import BURST_BYTES, MS, BadLink, Badness
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Booted, Host
from cluster.reference.simulator.machines import SimulatedMachines
from cluster.reference.simulator.network import Connection
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.tasks import Tasks
from results.record.clock import pause_until, stopwatch_s

S = 1_000_000_000
LINK, OTHER = ("n1", "n2"), ("n2", "n3")


class Ticking:
    """Notes what its clock shows at each of its timers, a second apart."""

    def __init__(self) -> None:
        self.ticks: list[int] = []

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        return [SetTimer(timer="tick", after_ns=S, at_most_ns=S)]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        assert isinstance(event, Fired)
        self.ticks.append(now)
        return [SetTimer(timer="tick", after_ns=S, at_most_ns=S)]


class Silent:
    """Says nothing on its connections."""

    def __init__(self, number: int) -> None:
        self.id, self.alive = number, True

    def requested(self, over: Connection, number: int, message: object) -> None:
        raise AssertionError(over, number, message)

    answered = requested


class NoFiles:
    """Of a machine that writes nothing."""

    def write(self, effect: Effect) -> None:
        raise AssertionError(effect)


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(1)


@pytest.fixture
def machines(simulation: Simulation, tmp_path: Path) -> SimulatedMachines:
    made = SimulatedMachines(simulation, ["n1", "n2", "n3"], tmp_path.joinpath, disk_mb=64)
    made.up()
    return made


def in_time(simulation: Simulation, work: Callable[[], object]) -> None:
    Tasks(simulation.agenda).run(work)


def measured(simulation: Simulation, machines: SimulatedMachines, quality: Quality) -> Measured:
    """Return what a quality does to a link, and see that it does nothing to another."""
    told: list[Measured] = []
    look = partial(
        machines.measure, [LINK, OTHER], count=1000, size=1200, interval_s=0.002, burst=4
    )

    def work() -> None:
        machines.shape("bad", [LINK], quality)
        found = look()
        told.append(found[LINK])
        machines.unshape("bad")
        good = look()
        for each in (found[OTHER], *good.values()):
            assert each.sent == 1000
            assert each.arrived > 990
            assert each.copies == each.overtaken == 0
            assert max(each.round_trip_ms) < 1

    in_time(simulation, work)
    return told[0]


def test_machines_have_every_ability_of_hosts(machines: SimulatedMachines) -> None:
    for ability in (
        Hosts, HasFiles, CanPartition, CanShape, CanLimitDisk, CanSlowDisk, CanLosePower,
        CanShiftClock,
    ):  # fmt: skip
        assert isinstance(machines, ability), ability


def test_a_block_is_over_when_the_network_has_it_no_more(
    simulation: Simulation, machines: SimulatedMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = simulation.network.connect(Silent(machines.host("n2").id), machines.host("n1"))
    made.server = Silent(machines.host("n1").id)
    (named,) = machines.connections([("n1", "n2")])
    for block_id in ("a", "b"):
        machines.block(block_id, [named])
    assert machines.blocked("a") == {named: 0}
    machines.unblock("a")
    assert (machines.is_blocked("a"), machines.is_blocked("b")) == (False, True)
    assert made.blocked == {"b": 0}, "the other fault's block is in force"
    monkeypatch.setattr(simulation.network, "unblock", lambda *_: None)
    machines.unblock("b")
    assert machines.block_ids() == []
    assert machines.is_blocked("b"), "nothing was undone"


def test_a_bad_link_does_to_datagrams_what_it_says(
    simulation: Simulation, machines: SimulatedMachines
) -> None:
    late = measured(simulation, machines, Quality(delay_ms=50, jitter_ms=20))
    assert 30 <= min(late.round_trip_ms) < 32
    assert 68 < max(late.round_trip_ms) < 72
    assert 150 < 1000 - measured(simulation, machines, Quality(loss=0.2)).arrived < 250
    assert 150 < measured(simulation, machines, Quality(duplicate=0.2)).copies < 250
    assert 100 < measured(simulation, machines, Quality(reorder=0.2)).overtaken < 250
    slow = measured(simulation, machines, Quality(rate_kbit=500))
    assert slow.arrived * 1200 * 8 / 1000 / slow.lasted_s == pytest.approx(500, rel=0.1)


def test_a_link_that_stalls_holds_datagrams_and_lets_them_go_in_order(
    simulation: Simulation, machines: SimulatedMachines
) -> None:
    def work() -> None:
        machines.shape("held", [LINK], Quality(stall_ms=4000, open_ms=60_000))
        volley = machines.volley([LINK, OTHER], count=100)
        pause_until(stopwatch_s() + 3.9)
        assert volley.look()[LINK].arrived == 0
        pause_until(stopwatch_s() + 0.2)
        seen = volley.look()
        late = seen[LINK]
        assert late.arrived > 95
        assert late.copies == late.overtaken == 0
        assert 3000 < min(late.round_trip_ms) <= max(late.round_trip_ms) < 4002
        assert max(seen[OTHER].round_trip_ms) < 2
        assert max(machines.measure([LINK], count=10)[LINK].round_trip_ms) < 2, "it is open now"
        machines.unshape("held")

    in_time(simulation, work)


def test_ports_are_as_many_as_said_and_more_are_refused(machines: SimulatedMachines) -> None:
    with pytest.raises(ClusterError, match="a machine can send from 20 ports, not from 21"):
        machines.volley([LINK], count=40, flows=21)


def test_a_link_has_one_shape_and_the_end_of_another_leaves_it(machines: SimulatedMachines) -> None:
    machines.shape("one", [LINK], Quality(delay_ms=50))
    with pytest.raises(ClusterError, match="one has already shaped the link from n1 to n2"):
        machines.shape("two", [OTHER, LINK], Quality(loss=0.5))
    machines.shape("two", [OTHER], Quality(loss=0.5))
    assert [*machines.unshape("two")] == ["n2"]
    assert machines.unshape("two") == {}
    with pytest.raises(ClusterError, match="one has already shaped"):
        machines.shape("three", [LINK], Quality(loss=0.5))
    machines.unshape("one")
    machines.shape("three", [LINK], Quality(loss=0.5))


def test_messages_wait_for_their_size_where_a_rate_is_small() -> None:
    link = BadLink(Badness(rate_kbit=100), Random(0))
    small = [link.late_ns(None, S) for _ in range(BURST_BYTES // 100)]
    assert small == [0] * len(small), "a burst may pass at once"
    link.late_ns(None, S)
    later = [link.late_ns(None, S) for _ in range(3)]
    assert later == [8 * MS, 16 * MS, 24 * MS], "100 bytes are 8 ms at 100 kbit/s"
    assert link.late_ns(None, 60 * S) == 0


def test_disks_are_full_or_locked_and_are_right_again(machines: SimulatedMachines) -> None:
    disk = machines.host("n1").disk
    disk.append("held", b"x" * 1000)
    assert machines.fill_disk("n1") == (64 << 20) - 1000
    assert machines.try_disk("n1") == "ENOSPC"
    assert machines.try_disk("n2") == ""
    machines.empty_disk("n1")
    machines.lock_disk("n1")
    assert machines.try_disk("n1") == "EROFS"
    with pytest.raises(OSError, match="Read-only") as refused:
        disk.append("held", b"x")
    assert refused.value.errno == errno.EROFS
    machines.unlock_disk("n1")
    assert machines.try_disk("n1") == ""
    assert disk.paths() == ["held"]


def test_a_slow_disk_takes_as_long_as_it_should(
    simulation: Simulation, machines: SimulatedMachines
) -> None:
    def work() -> None:
        assert machines.time_flush_s("n1") <= 0.001
        machines.slow_disk("n1", 1.5)
        machines.slow_disk("n1", 0.4)
        assert 0.2 <= machines.time_flush_s("n1") <= 0.4
        assert machines.time_flush_s("n2") <= 0.001
        machines.quicken_disk("n1")
        machines.quicken_disk("n1")
        assert machines.time_flush_s("n1") <= 0.001

    in_time(simulation, work)


def test_what_was_flushed_outlives_a_loss_of_power(machines: SimulatedMachines) -> None:
    host = machines.host("n1")
    host.disk.append("log", b"safe")
    host.disk.flush("log")
    host.disk.append("log", b"in memory")
    left = machines.lose_power("n1")[PurePosixPath("data/log")]
    assert (left.flushed, left.kept + left.lost) == (4, 13)
    assert host.disk.read("log") == b"safein memory"[: left.kept]
    assert left.kept >= 4
    assert not host.powered


def ticking(simulation: Simulation) -> tuple[Host, Ticking]:
    machine = Ticking()

    def boot(_: SimulatedDisk) -> Booted:
        return Booted(machine=machine, storage=NoFiles())

    host = simulation.add(7, boot)
    host.start()
    return host, machine


def test_a_clock_that_jumps_forward_has_timers_go_off_earlier(simulation: Simulation) -> None:
    host, machine = ticking(simulation)
    simulation.run(2.4)
    host.set_clock(500 * MS)
    simulation.run(0.15)
    assert len(machine.ticks) == 3, "it was due 0.6 s later, and half a second of that is over"
    assert machine.ticks[-1] - machine.ticks[-2] == S
    assert host.clock.ahead_ns(simulation.now_ns) == 500 * MS


def test_a_clock_that_is_set_back_keeps_its_timers(simulation: Simulation) -> None:
    host, machine = ticking(simulation)
    simulation.run(2.4)
    host.set_clock(-3600 * S)
    simulation.run(1)
    assert machine.ticks[-1] - machine.ticks[-2] == S - 3600 * S
    host.set_clock(0)
    simulation.run(1)
    assert host.clock.ahead_ns(simulation.now_ns) == 0
    assert host.clock.read(simulation.now_ns) == host.clock.true_ns + simulation.now_ns


def test_what_a_node_says_has_the_time_of_its_clock(
    simulation: Simulation, machines: SimulatedMachines
) -> None:
    host, files = machines.host("n1"), machines.disk("n1")
    simulation.run(10)
    host.say("now")
    machines.set_clock("n1", offset_s=-3600)
    host.say("an hour ago")
    assert machines.clock_offset_s("n1") == -3600
    assert files.read("logs/server.log").decode().splitlines() == [
        "[2023-11-14 22:13:30,000] INFO now",
        "[2023-11-14 21:13:30,000] INFO an hour ago",
    ]
    size = files.size("logs/server.log")
    host.say("more")
    assert files.read("logs/server.log", at=size).endswith(b"more\n")
