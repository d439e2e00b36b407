"""What a shaper does to packets of one link: by its own clock, without devices."""

import itertools
import json
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.hosts.agent import SHAPER
from cluster.hosts.series import measured
from cluster.hosts.shaper import (
    BURST_BYTES,
    HELD_NS,
    PACKETS_AT_ONCE,
    QUEUE_NS,
    STALLED_PACKETS,
    Line,
    Shaper,
    Way,
    give_back,
)
from cluster.protocol import Quality

MS = 1_000_000
SPACING_NS = 5 * MS
START_NS = 10**12
"""A machine that has been up for a while."""


def line(name: str = "n1/n2", **fields: float) -> Line:
    return Line(asdict(Quality(**fields)), name)  # type: ignore[arg-type] # Numbers, all of them.


def sent(a_line: Line, count: int = 1000, size: int = 100) -> list[tuple[int, int]]:
    """Send numbered packets at even times; return (due, number) in order of departure."""
    departures = []
    for number in range(count):
        packet = number.to_bytes(4, "big") + bytes(size - 4)
        departures += a_line.send(packet, START_NS + number * SPACING_NS)
    departures += a_line.overdue(START_NS + count * SPACING_NS + QUEUE_NS + 2 * HELD_NS)
    return sorted((due - START_NS, int.from_bytes(packet[:4], "big")) for due, packet in departures)


def lateness_ms(departures: list[tuple[int, int]]) -> list[float]:
    return [(due - number * SPACING_NS) / MS for due, number in departures]


def test_a_line_of_no_faults_passes_everything_at_once() -> None:
    assert sent(line()) == [(number * SPACING_NS, number) for number in range(1000)]


def test_each_packet_is_late_by_the_delay() -> None:
    assert set(lateness_ms(sent(line(delay_ms=70)))) == {70}


def test_jitter_is_spread_around_the_delay_and_never_before_its_time() -> None:
    late = lateness_ms(sent(line(delay_ms=50, jitter_ms=40)))
    assert 10 <= min(late) < 15
    assert 85 < max(late) <= 90
    assert min(lateness_ms(sent(line(delay_ms=5, jitter_ms=40)))) == 0


def test_shares_of_packets_are_lost_and_doubled() -> None:
    assert 750 < len(sent(line(loss=0.2))) < 850
    doubled = [number for _, number in sent(line(duplicate=0.2))]
    assert set(doubled) == set(range(1000))
    assert 150 < len(doubled) - 1000 < 250


def test_a_packet_that_is_held_back_goes_right_behind_the_next() -> None:
    numbers = [number for _, number in sent(line(reorder=0.3))]
    assert sorted(numbers) == list(range(1000))
    assert max(abs(place - number) for place, number in enumerate(numbers)) == 1
    assert 150 < sum(a > b for a, b in itertools.pairwise(numbers)) < 300


def test_a_packet_that_is_held_back_waits_for_no_other_for_ever() -> None:
    held = line(reorder=1)
    assert held.send(b"only", 0) == []
    assert held.overdue(HELD_NS - 1) == []
    assert held.overdue(HELD_NS) == [(HELD_NS, b"only")]
    assert held.overdue(HELD_NS) == []


def test_a_rate_lets_bytes_pass_as_they_fit_and_drops_what_would_wait_too_long() -> None:
    departures = sent(line(rate_kbit=400), size=1000)  # 1600 are offered.
    seconds = (departures[-1][0] - departures[0][0]) / 1e9
    assert len(departures) * 1000 * 8 / 1000 / seconds == pytest.approx(400, rel=0.05)
    assert len(departures) < 300
    assert max(lateness_ms(departures)) <= QUEUE_NS / MS
    assert lateness_ms(departures)[: BURST_BYTES // 1000] == [0, 0, 0]


def test_all_that_comes_into_a_stall_waits_for_its_end_and_keeps_its_order() -> None:
    stalling = Line(asdict(Quality(stall_ms=600, open_ms=400)), "n1/n2", START_NS)
    departures = sent(stalling)
    assert [number for _, number in departures] == list(range(1000))
    for due_ns, number in departures:
        into_ms = number * SPACING_NS / MS % 1000
        assert due_ns / MS == number * SPACING_NS / MS + max(0, 600 - into_ms)


def test_of_one_link_only_so_many_wait_for_the_end_of_a_stall_and_the_rest_is_counted() -> None:
    stalling = Line(asdict(Quality(stall_ms=600, open_ms=400)), "n1/n2", 0)
    late = [stalling.send(b"late", at) for at in range(STALLED_PACKETS + 5)]
    assert [bool(each) for each in late[-6:]] == [True, False, False, False, False, False]
    assert stalling.dropped == 5
    assert stalling.send(b"open", 700 * MS) == [(700 * MS, b"open")], "none of these waits"
    assert stalling.send(b"next", 1100 * MS) == [(1600 * MS, b"next")], "another stall has room"
    assert stalling.dropped == 5


def test_what_comes_while_a_shaper_ends_finds_room_and_goes_behind_what_waits() -> None:
    stalling = Line(asdict(Quality(stall_ms=600, open_ms=400)), "n1/n2", 0)
    for at in range(STALLED_PACKETS):
        stalling.send(b"late", at)
    stalling.stall_no_more()
    assert stalling.send(b"last", 5) == [(5, b"last")]
    assert stalling.dropped == 0


class Out:
    """Where packets leave."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def sendto(self, packet: bytes, _: tuple[str, int]) -> None:
        self.packets.append(packet)


def test_a_shaper_that_ends_lets_all_go_in_order_that_it_holds() -> None:
    address, count = socket.inet_aton("127.0.0.2"), 3 * PACKETS_AT_ONCE
    sender, device = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    device.settimeout(0)
    now_ns = time.monotonic_ns()  # noqa: TID251 - as the shaper does
    stalling = Line(asdict(Quality(stall_ms=60_000, open_ms=1)), "n1/n2", now_ns)
    out = Out()
    shaper = Shaper(device.fileno(), {address: Way(stalling, cast("socket.socket", out))})
    sent = [b"\x45" + bytes(15) + address + bytes([number]) for number in range(count)]
    for packet in sent:
        sender.send(packet)
    half = count // 2
    shaper._take()  # Some wait in it already, the others in the device.
    shaper.empty()
    assert out.packets == sent
    for packet in sent[:half]:
        sender.send(packet)
    give_back(shaper, ["127.0.0.2", "127.0.0.3"], "lqs-is-gone")  # No route can be deleted.
    assert out.packets == [*sent, *sent[:half]]
    sender.close()
    device.close()


def test_a_link_below_its_rate_is_not_slowed() -> None:
    assert max(lateness_ms(sent(line(rate_kbit=200)))) == 0  # 160 are offered.


@given(seed=st.integers(), loss=st.floats(0, 1), reorder=st.floats(0, 1), jitter=st.floats(0, 50))
def test_the_same_seed_draws_the_same_and_nothing_is_made_up(
    seed: int, loss: float, reorder: float, jitter: float
) -> None:
    def again() -> list[tuple[int, int]]:
        return sent(line(seed=seed, loss=loss, reorder=reorder, jitter_ms=jitter), count=50)

    assert again() == again()
    numbers = [number for _, number in again()]
    assert len(set(numbers)) == len(numbers)
    assert all(due >= number * SPACING_NS for due, number in again())


def test_links_draw_apart() -> None:
    assert sent(line(loss=0.5)) != sent(line("n2/n1", loss=0.5))


def test_a_shaper_that_cannot_begin_says_why() -> None:
    order = {"device": "lqs-none", "quality": asdict(Quality()), "source": "n1"}
    order["links"] = {"n2": "no address"}
    argv = [sys.executable, "-I", "-S", SHAPER, json.dumps(order)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no address" in done.stdout


def test_a_series_is_told_as_its_receiver_saw_it() -> None:
    arrived = {"numbers": [0, 2, 1, 2, 5, 3, 3], "lasted_s": 1.5}
    told = measured({"sent": 7, "round_trip_ms": [1.0, 2.5]}, arrived)
    assert (told.sent, told.arrived, told.copies, told.overtaken) == (7, 5, 2, 2)
    assert told.round_trip_ms == (1.0, 2.5)
    assert told.lasted_s == 1.5
