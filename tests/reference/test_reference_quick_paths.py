"""The quick ways through the reference cluster say what the long ones say."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.reference.log.files import LogFiles
from cluster.reference.log.records import _record, _small_record
from cluster.reference.machine import Answered, Effect, Event, Fired, Request, SetTimer
from cluster.reference.simulator.clock import NodeClock
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Boot, Booted
from cluster.reference.simulator.simulation import Simulation
from tests.reference.batch_maker import record

MS = 1_000_000
SMALL = st.binary(max_size=70)


@given(
    value=SMALL | st.integers(0, 9000).map(bytes),
    key=st.none() | SMALL,
    delta=st.integers(0, 70),
    time=st.integers(-70, 70),
)
def test_a_small_record_is_found_sound_at_a_glance(
    value: bytes, key: bytes | None, delta: int, time: int
) -> None:
    data = b"before" + record(value, delta=delta, time_delta=time, key=key) + b"behind"
    end = _record(data, 6, delta)
    small = len(key or b"") < 64 and delta < 64 and -65 < time < 64
    if small and end - 6 <= 8193:  # Its length, of 13 bits, does not count the two that tell it.
        assert _small_record(data, 6, delta) == end
    assert _small_record(data, 6, delta) in (0, end)


@given(data=st.binary(max_size=24).map(bytearray), delta=st.integers(0, 3))
@example(data=bytearray(b"\x0e\0\0\0\x01\x01\0\0"), delta=0)
def test_what_is_found_sound_at_a_glance_is_sound(data: bytearray, delta: int) -> None:
    if len(data) > 3:
        data[0], data[3] = 2 * (len(data) - 1) & 0xFF, 2 * delta
    end = _small_record(bytes(data), 0, delta)
    if end:
        assert _record(bytes(data), 0, delta) == end


@given(size=st.integers(0, 300), at=st.integers(0, 310), byte=st.integers(0, 255))
def test_damage_is_not_taken_for_a_small_record(size: int, at: int, byte: int) -> None:
    data = bytearray(record(bytes(size), delta=1))
    data[at % len(data)] = byte
    end = _small_record(bytes(data), 0, 1)
    if end:
        assert _record(bytes(data), 0, 1) == end


@given(
    ppm=st.integers(-500_000, 500_000),
    passed=st.integers(0, 10**15),
    own_ns=st.integers(0, 10**12),
)
def test_a_timer_comes_when_its_clock_says_so_however_that_drifts(
    ppm: int, passed: int, own_ns: int
) -> None:
    clock = NodeClock(shown_ns=77, since_ns=5, drift_ppm=ppm)
    set_at = 5 + passed
    reads = clock.read(set_at + clock.lasting(own_ns)) - clock.read(set_at)
    assert own_ns <= reads <= own_ns + 2


class _Impatient:
    """Asks somebody who never answers, with limits of its own for each question."""

    def __init__(self, limits_ms: Sequence[int]) -> None:
        self.limits_ms = limits_ms
        self.given_up: list[tuple[int, int]] = []
        self._began = 0

    def start(self, now: int) -> Sequence[Effect]:
        self._began = now
        return [
            SetTimer(timer=str(place), after_ns=10 * MS * place, at_most_ns=10 * MS * place)
            for place in range(1, len(self.limits_ms) + 1)
        ]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        if isinstance(event, Answered):
            assert event.message is None
            self.given_up.append((event.request, (now - self._began) // MS))
            return []
        assert isinstance(event, Fired)
        place = int(event.timer)
        limit_ns = self.limits_ms[place - 1] * MS
        return [Request(number=place, to=1, message="why", timeout_ns=limit_ns)]


class _Deaf:
    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        return []


@pytest.mark.parametrize(
    ("limits_ms", "given_up"),
    [
        ((500, 100), [(1, 120), (2, 120)]),
        ((100, 500), [(1, 110), (2, 110)]),
        ((300, 200, 50), [(1, 80), (2, 80), (3, 80)]),
        ((40, 40, 40, 40, 40, 40), [(1, 50), (2, 50), (3, 50), (4, 50), (5, 50), (6, 100)]),
    ],
)
def test_the_first_limit_that_passes_breaks_the_connection(
    limits_ms: Sequence[int], given_up: list[tuple[int, int]]
) -> None:
    simulation, asking = Simulation(1), _Impatient(limits_ms)
    simulation.add(1, _boot(_Deaf())).start()
    simulation.add(2, _boot(asking)).start()
    simulation.run(2)
    assert asking.given_up == given_up


def test_whoever_stood_still_looks_at_its_limits_afterwards() -> None:
    simulation, asking = Simulation(1), _Impatient((60, 500))
    simulation.add(1, _boot(_Deaf())).start()
    host = simulation.add(2, _boot(asking))
    host.start()
    simulation.run(0.03)
    assert host.process is not None
    host.process.pause()
    simulation.run(0.5)
    assert asking.given_up == []
    host.process.resume()
    assert [number for number, _ in asking.given_up] == [1, 2]


def _boot(machine: _Impatient | _Deaf) -> Boot:
    def boot(disk: SimulatedDisk) -> Booted:
        return Booted(machine=machine, storage=LogFiles(disk))

    return boot
