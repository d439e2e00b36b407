"""The simulated driver, by toy machines: what it promises to them, and to whoever repeats it."""

import errno
import gc
import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import pytest

from cluster.reference.log.files import LogFiles, segment_path
from cluster.reference.machine import (
    Answered,
    Append,
    Arrived,
    DiskFailed,
    Effect,
    Event,
    Fired,
    Flush,
    Hung,
    Machine,
    Reply,
    Request,
    Say,
    SetTimer,
)
from cluster.reference.simulator import network as network_module
from cluster.reference.simulator.badness import MS, Badness
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Boot, Booted, Host
from cluster.reference.simulator.network import Latency
from cluster.reference.simulator.simulation import NS_PER_S, Simulation

QUIET = Latency(slow_share=0, mean_life_s=None)


class Echo:
    """Answers what it is asked; keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    def start(self, now: int) -> Sequence[Effect]:
        return [Say(text=f"started at {now}")]

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        self.seen.append(event)
        return [Reply(asker=event.asker, message=event.message)] if isinstance(
            event, Arrived
        ) else []  # fmt: skip


class Asking:
    """Asks another every 10 ms, and notes what came of each question."""

    def __init__(self, to: int, timeout_ns: int = 500 * MS) -> None:
        self.to, self.timeout_ns, self.asked = to, timeout_ns, 0
        self.answers: list[tuple[int, int, object]] = []

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        return [SetTimer(timer="ask", after_ns=10 * MS, at_most_ns=10 * MS)]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        if isinstance(event, Answered):
            self.answers.append((now, event.request, event.message))
            return []
        assert isinstance(event, Fired)
        self.asked += 1
        return [
            Request(number=self.asked, to=self.to, message=self.asked, timeout_ns=self.timeout_ns),
            SetTimer(timer="ask", after_ns=10 * MS, at_most_ns=10 * MS),
        ]


class Parking:
    """Answers nothing until it is told to."""

    def __init__(self) -> None:
        self.parked: list[Arrived] = []
        self.hung: list[int] = []

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        match event:
            case Arrived(message="answer all"):
                asked = [*self.parked, event]
                self.parked = []
                return [Reply(asker=each.asker, message="late") for each in asked]
            case Arrived():
                self.parked.append(event)
            case Hung(connection=connection):
                self.hung.append(connection)
            case _:
                pass
        return []


class Appending:
    """Appends what it is asked to, flushes every other batch, and answers then."""

    def __init__(self, held: bytes) -> None:
        self.held, self.taken = held, 0
        self.failures: list[str] = []

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        if isinstance(event, DiskFailed):
            self.failures.append(event.reason)
        if not isinstance(event, Arrived):
            return []
        self.taken += 1
        data = bytes([self.taken % 256]) * 100
        return [
            Append(folder="log-0", base_offset=self.taken - 1, data=data),
            *([Flush(folder="log-0")] if self.taken % 2 == 0 else []),
            Reply(asker=event.asker, message=self.taken),
        ]


def boots(make: Callable[[SimulatedDisk], Machine]) -> Boot:
    return lambda disk: Booted(machine=make(disk), storage=LogFiles(disk))


def held(disk: SimulatedDisk) -> bytes:
    path = segment_path("log-0", 0)
    return disk.read(path) if disk.size(path) else b""


def pair(
    server: Callable[[SimulatedDisk], Machine], *, seed: int = 1, timeout_ns: int = 500 * MS
) -> tuple[Simulation, Host, Host, Asking]:
    """Return a simulation of somebody who asks n1, both running."""
    simulation = Simulation(seed, latency=QUIET)
    asking = Asking(1, timeout_ns)
    one = simulation.add(1, boots(server))
    two = simulation.add(2, boots(lambda _: asking))
    one.start()
    two.start()
    return simulation, one, two, asking


def test_questions_are_answered_in_order() -> None:
    simulation, _, _, asking = pair(lambda _: Echo())
    simulation.run(2)
    assert [number for _, number, _ in asking.answers] == list(range(1, 200))
    assert all(number == answer for _, number, answer in asking.answers)


def test_the_same_seed_gives_the_same_events() -> None:
    def told(seed: int) -> str:
        digest = hashlib.sha256()
        simulation = Simulation(seed)

        def trace(now: int, who: int, event: Event) -> None:
            digest.update(f"{now} {who} {event}".encode())

        one = simulation.add(1, boots(lambda disk: Appending(held(disk))), trace=trace)
        simulation.add(2, boots(lambda _: Asking(1)), trace=trace).start()
        one.start()
        simulation.run(1)
        one.lose_power()
        simulation.run(1)
        one.start()
        simulation.network.cut([(2, 1)])
        simulation.run(1)
        simulation.network.join([(2, 1)])
        simulation.run(1)
        digest.update(held(one.disk))
        return digest.hexdigest()

    assert told(7) == told(7)
    assert told(7) != told(8)


def test_what_was_asked_of_a_dead_process_is_not_answered_by_the_next() -> None:
    simulation, one, _, asking = pair(lambda _: Parking(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    one.kill()
    simulation.run(0.1)
    assert asking.answers, "the kernel closes a dead process's connections"
    assert {answer for _, _, answer in asking.answers} == {None}
    before = len(asking.answers)
    one.start()
    simulation.run(1)
    machine = one.process.machine if one.process else None
    assert isinstance(machine, Parking)
    assert machine.parked, "and on a new connection it is asked again"
    assert all(each.message not in range(1, before) for each in machine.parked)


def test_an_answer_to_a_dead_incarnation_is_dropped() -> None:
    simulation, one, two, asking = pair(lambda _: Parking(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    parking = one.process.machine if one.process else None
    assert isinstance(parking, Parking)
    two.kill()
    simulation.run(1)
    assert parking.hung, "the server learns that its client's connection is gone"
    asking.to = 3  # The next incarnation asks somebody else.
    simulation.add(3, boots(lambda _: Echo())).start()
    answered = len(asking.answers)
    two.start()
    simulation.add(4, boots(lambda _: _Once("answer all"))).start()
    simulation.run(1)
    assert not parking.parked, "all that was parked was answered"
    assert "late" not in {answer for _, _, answer in asking.answers[answered:]}


class _Once(Asking):
    def __init__(self, message: str) -> None:
        super().__init__(1)
        self.message = message

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        if isinstance(event, Fired):
            return [Request(number=1, to=1, message=self.message, timeout_ns=NS_PER_S)]
        return []


def test_a_power_loss_is_silent_and_a_time_out_tells() -> None:
    simulation, one, _, asking = pair(lambda _: Echo())
    simulation.run(1)
    answered = len(asking.answers)
    one.lose_power()
    simulation.run(0.4)
    assert len(asking.answers) - answered <= 1, "nobody says that the machine is off"
    simulation.run(0.3)
    assert asking.answers[-1][2] is None


def test_a_cut_holds_one_way_only() -> None:
    simulation, one, two, asking = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    echo = one.process.machine if one.process else None
    assert isinstance(echo, Echo)
    simulation.network.cut([(1, 2)])
    seen, answered = len(echo.seen), len(asking.answers)
    simulation.run(1)
    assert len(echo.seen) - seen >= 99, "questions arrive"
    assert len(asking.answers) - answered <= 1, "answers do not"
    simulation.network.join([(1, 2)])
    simulation.run(4)
    numbers = [number for _, number, _ in asking.answers]
    assert numbers == list(range(1, len(numbers) + 1)), "TCP sent them again, in order"
    assert simulation.network.dropped[1, 2] > 0
    assert two.process is not None


def test_a_stall_holds_messages_and_lets_them_go_at_once_in_order() -> None:
    simulation, one, two, asking = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    echo = one.process.machine if one.process else None
    assert isinstance(echo, Echo)
    simulation.network.make_bad([(2, 1)], Badness(stall_ns=3 * NS_PER_S, open_ns=NS_PER_S))
    seen = len(echo.seen)
    simulation.run(2.9)
    assert len(echo.seen) - seen <= 1, "no question arrives"
    simulation.run(0.2)
    assert len(echo.seen) - seen >= 300, "all of them, before TCP would send again"
    simulation.run(2)  # It stalls again since 0.9 s.
    simulation.network.make_good([(2, 1)])
    simulation.run(0.1)
    numbers = [number for _, number, _ in asking.answers]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= asking.asked - 1
    assert not simulation.network.dropped
    simulation.run(10)
    assert not simulation.network.is_stalled(2, 1), "a link that was made good stalls no more"
    assert two.process is not None


def test_what_a_client_gave_up_arrives_behind_a_stall_and_before_its_end() -> None:
    simulation, one, _, asking = pair(lambda _: Parking(), timeout_ns=NS_PER_S)
    simulation.run(0.5)
    parking = one.process.machine if one.process else None
    assert isinstance(parking, Parking)
    simulation.network.make_bad([(2, 1)], Badness(stall_ns=3 * NS_PER_S, open_ns=NS_PER_S))
    seen = len(parking.parked)
    simulation.run(2.9)
    given_up = [number for _, number, answer in asking.answers if answer is None]
    assert len(given_up) > seen
    simulation.run(0.2)
    asked = [each.message for each in parking.parked]
    assert {*given_up} <= {*asked}, "a request is done though nobody waits for it"
    assert len(parking.hung) > 0, "and its connection ends behind it"


def test_of_a_link_that_stalls_in_part_some_connections_pass() -> None:
    passes = set()
    for seed in range(20):
        simulation, one, _, asking = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
        half = Badness(stall_ns=3 * NS_PER_S, open_ns=NS_PER_S, stall_share=0.5)
        simulation.network.make_bad([(2, 1), (1, 2)], half, seed=seed)
        simulation.run(1)
        passes.add(len(asking.answers) > 0)
        simulation.run(3)
        numbers = [number for _, number, _ in asking.answers]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 250
        assert one.process is not None
    assert passes == {True, False}


def test_a_stall_and_a_cut_of_one_link_each_hold_by_themselves() -> None:
    simulation, one, _, _ = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    echo = one.process.machine if one.process else None
    assert isinstance(echo, Echo)
    simulation.network.make_bad([(2, 1)], Badness(stall_ns=60 * NS_PER_S, open_ns=NS_PER_S))
    simulation.network.cut([(2, 1)])
    simulation.run(1)
    simulation.network.join([(2, 1)])
    seen = len(echo.seen)
    simulation.run(5)
    assert len(echo.seen) == seen, "it stalls still"
    simulation.network.cut([(2, 1)])
    simulation.network.make_good([(2, 1)])
    simulation.run(5)
    assert len(echo.seen) == seen, "it is cut still"
    simulation.network.join([(2, 1)])
    simulation.run(5)
    assert len(echo.seen) - seen > 1500


def test_another_badness_ends_a_stall_and_lets_go_what_it_held() -> None:
    simulation, one, _, _ = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    echo = one.process.machine if one.process else None
    assert isinstance(echo, Echo)
    network, came = simulation.network, list[int]()
    network.make_bad([(2, 1)], Badness(stall_ns=60 * NS_PER_S, open_ns=NS_PER_S))
    for number in range(50):
        network.probe((2, 1), partial(came.append, number))
    simulation.run(1)
    seen = len(echo.seen)
    assert came == []
    network.make_bad([(2, 1)], Badness(delay_ns=1))
    simulation.run(1)
    assert not network.is_stalled(2, 1)
    assert len(came) > 45
    assert len(echo.seen) - seen > 150


def test_without_a_seed_one_draw_decides_for_both_ways() -> None:
    simulation, *_ = pair(lambda _: Echo(), timeout_ns=NS_PER_S)
    half = Badness(stall_ns=60 * NS_PER_S, open_ns=NS_PER_S, stall_share=0.5)
    network = simulation.network
    network.make_bad([(2, 1), (1, 2)], half)
    there, back = network._bad[2, 1], network._bad[1, 2]
    keys = [f"{number}" for number in range(40)]
    assert [*map(there.stalls, keys)] == [*map(back.stalls, keys)]
    assert {*map(there.stalls, keys)} == {True, False}


def test_a_flow_that_is_held_is_held_again_as_itself() -> None:
    simulation, *_ = pair(lambda _: Echo(), timeout_ns=NS_PER_S)
    network, came = simulation.network, list[int]()
    half = Badness(stall_ns=60 * NS_PER_S, open_ns=1, stall_share=0.5)
    network.make_bad([(2, 1)], half, seed=1)
    stalls = [flow for flow in range(1, 20) if network._bad[2, 1].stalls(f"flow-{flow}")]
    for flow in range(1, 20):
        network.probe((2, 1), partial(came.append, flow), flow=flow)
    simulation.run(1)
    assert {*came}.isdisjoint(stalls)
    network.make_bad([(2, 1)], half, seed=1)  # Lets go what is held, and stalls at once.
    simulation.run(1)
    assert {*came}.isdisjoint(stalls)


def test_what_a_cut_keeps_is_counted_once_however_often_a_stall_ends() -> None:
    simulation, *_ = pair(lambda _: Echo(), timeout_ns=600 * NS_PER_S)
    simulation.run(1)
    network = simulation.network
    network.make_bad([(2, 1)], Badness(stall_ns=NS_PER_S, open_ns=1))
    network.cut([(2, 1)])
    simulation.run(20)
    (held,) = network._held.values()
    assert network.dropped[2, 1] == len(held.held_there) > 1000


def test_a_blocked_connection_holds_both_ways_and_others_pass() -> None:
    simulation, one, two, asking = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    echo = one.process.machine if one.process else None
    assert isinstance(echo, Echo)
    network = simulation.network
    (connection,) = network.connections()
    assert (connection.ahead, connection.at_client, connection.at_server) == ((2, 1), True, True)
    network.block(connection, "a")
    seen, answered = len(echo.seen), len(asking.answers)
    simulation.run(1)
    assert len(echo.seen) - seen <= 1
    assert len(asking.answers) - answered <= 1
    assert connection.blocked["a"] >= 99
    network.block(connection, "b")
    simulation.run(1)
    assert connection.blocked["a"] >= 199
    assert 99 <= connection.blocked["b"] < 110, "what waited before is not its own"
    network.unblock(connection, "a")
    simulation.run(1)
    assert len(echo.seen) - seen <= 1, "the other block is in force"
    came: list[int] = []
    network.probe((2, 1), lambda: came.append(1))
    simulation.run(0.1)
    assert came, "the link is open"
    assert network.connections() == [connection], "neither end was told"
    network.unblock(connection, "b")
    simulation.run(4)
    numbers = [number for _, number, _ in asking.answers]
    assert numbers == list(range(1, len(numbers) + 1)), "TCP sent them again, in order"
    network.block(connection, "a")
    assert two.process is not None
    network.break_off(connection)
    simulation.run(1)
    assert connection.at_client, "its end does not get through either"
    network.unblock(connection, "a")
    simulation.run(4)
    assert connection not in network.connections()
    assert network.connections(), "another one is in its place"


def test_connections_that_are_over_are_forgotten_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_module, "MANY", 10)
    simulation, one, *_ = pair(lambda _: Echo())
    network, opened = simulation.network, set[int]()
    for _ in range(100):
        simulation.run(0.1)
        (connection,) = network.connections()
        opened.add(connection.number)
        network.break_off(connection)
    assert len(opened) > 90
    assert len(network._made) <= 20
    simulation.run(0.1)
    one.lose_power()
    simulation.run(0.1)
    (connection,) = network.connections()
    assert connection.at_client, "it was never told"
    assert not connection.at_server


def test_a_connection_that_is_opened_needs_both_ways() -> None:
    simulation, one, two, asking = pair(lambda _: Echo(), timeout_ns=NS_PER_S)
    two.kill()
    simulation.network.cut([(1, 2)])
    two.start()
    simulation.run(0.9)
    echo = one.process.machine if one.process else None
    assert isinstance(echo, Echo)
    assert not [event for event in echo.seen if isinstance(event, Arrived)]
    assert not asking.answers


def test_a_paused_process_takes_later_what_came() -> None:
    simulation, one, _, asking = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.run(1)
    assert one.process is not None
    one.process.pause()
    answered = len(asking.answers)
    simulation.run(2)
    assert len(asking.answers) - answered <= 1
    one.process.resume()
    simulation.run(1)
    numbers = [number for _, number, _ in asking.answers]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 398


def test_a_flush_holds_up_what_comes_behind_it() -> None:
    simulation, one, _, asking = pair(lambda disk: Appending(held(disk)), timeout_ns=60 * NS_PER_S)
    one.slow_flush_ns = 200 * MS
    simulation.run(2)
    times = [at for at, _, _ in asking.answers]
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) >= 100 * MS, "an answer behind a flush comes after it"
    assert [answer for _, _, answer in asking.answers] == list(range(1, len(times) + 1))


def test_a_machine_learns_of_a_failed_disk_before_it_takes_what_waited() -> None:
    """Its memory is ahead of its disk: another question may be answered by what is nowhere."""
    simulation, one, _, asking = pair(lambda disk: Appending(held(disk)), timeout_ns=60 * NS_PER_S)
    told: list[Event] = []
    one.trace = lambda _at, _node, event: told.append(event)
    one.slow_flush_ns = 200 * MS
    simulation.run(1)
    assert one.process is not None
    while not one.process.writing:
        simulation.run(0.001)
    simulation.run(0.05)  # Long enough for another question.
    answered, begun = len(asking.answers), len(told)
    one.disk.refuses = errno.EIO
    simulation.run(0.3)
    assert isinstance(told[begun], DiskFailed)
    assert len(asking.answers) == answered


@pytest.mark.parametrize("seed", range(20))
def test_power_takes_what_was_not_flushed_and_nothing_else(seed: int) -> None:
    simulation, one, _, asking = pair(lambda disk: Appending(held(disk)), seed=seed)
    simulation.run(0.5 + seed / 1000)
    assert asking.answers
    written, flushed = held(one.disk), len(held(one.disk)) // 200 * 200
    one.lose_power()
    assert held(one.disk)[: flushed - 200] == written[: flushed - 200]
    assert written.startswith(held(one.disk))


def test_a_kill_takes_nothing() -> None:
    simulation, one, _, _ = pair(lambda disk: Appending(held(disk)))
    simulation.run(0.555)
    written = held(one.disk)
    one.kill()
    one.start()
    machine = one.process.machine if one.process else None
    assert isinstance(machine, Appending)
    assert machine.held == written != b""


def test_a_full_disk_drops_what_follows_and_tells() -> None:
    simulation, one, _, asking = pair(lambda disk: Appending(held(disk)))
    one.disk.capacity = 1000
    simulation.run(1)
    machine = one.process.machine if one.process else None
    assert isinstance(machine, Appending)
    assert len(held(one.disk)) == 1000
    assert [answer for _, _, answer in asking.answers if answer] == list(range(1, 11))
    assert set(machine.failures) == {"No space left on device"}
    one.disk.refuses = errno.EIO
    simulation.run(0.1)
    assert machine.failures[-1] == "Input/output error"


def test_clocks_drift() -> None:
    simulation, _, two, asking = pair(lambda _: Echo())
    two.clock.drift(simulation.now_ns, 100_000)
    simulation.run(11)
    assert 1205 <= asking.asked <= 1212, "ten per cent more of its ticks in the same time"
    assert asking.answers[-1][0] - asking.answers[0][0] > 11.5 * NS_PER_S


def test_circles_of_objects_are_searched_for_as_before_when_time_stands() -> None:
    usual, during = gc.get_threshold(), []
    simulation = Simulation(1)
    simulation.agenda.after(MS, lambda: during.append(gc.get_threshold()))
    simulation.run(1)
    assert during[0][0] > usual[0]
    assert gc.get_threshold() == usual
    simulation.agenda.after(MS, int, "no number")
    with pytest.raises(ValueError, match="no number"):
        simulation.run(1)
    assert gc.get_threshold() == usual


def test_a_bad_link_delays_and_loses_nothing() -> None:
    simulation, _, _, asking = pair(lambda _: Echo(), timeout_ns=60 * NS_PER_S)
    simulation.network.make_bad([(1, 2), (2, 1)], Badness(delay_ns=20 * MS, loss=0.3))
    simulation.run(10)
    simulation.network.make_good([(1, 2), (2, 1)])
    simulation.run(7)  # A packet that was lost again and again is 3 s late, each way.
    numbers = [number for _, number, _ in asking.answers]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 1690
