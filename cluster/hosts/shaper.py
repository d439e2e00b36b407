"""Makes what one machine sends to some others late, lost, doubled, disordered, slow or stalled.

A program of its own, run by its path with the standard library only, as the agent is, and for the
same reasons. Routes to the destinations lead into a TUN device that it holds; what it reads there
it sends on, after what its quality does to it, through a raw socket that is bound to the device
where the packets would have left, and so does not see the route (man 7 ip, IP_HDRINCL; man 7
socket, SO_BINDTODEVICE). Other links never pass through it.

The kernel takes a TUN device away, and all routes through it, with the process that holds it: even
if this one is killed, packets flow as before and nothing is left to be undone. It ends when its
standard input does; then whatever it still holds goes on first, in order.

netem (man 8 tc-netem) does the same in kernels that have it; many have not, and this needs nothing
but `/dev/net/tun`. Packets come out of a TUN device with their checksums and cut to its MTU.
"""

import contextlib
import fcntl
import hashlib
import heapq
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
SIOCGIFMTU = 0x8921
INPUT, ERRORS = 0, 2
QUEUE_NS = 300_000_000
"""What would wait longer than this for a rate's turn is dropped, as by any full queue."""
HELD_NS = 100_000_000
"""A packet that is held back for a later one waits no longer, should none come."""
BURST_BYTES = 3000
"""What may pass at once before a rate shows: two full packets."""
PACKETS_AT_ONCE = 64
EMPTY_NS = 1_000_000_000
STALLED_PACKETS = 20_000
"""What comes to a link while so many wait for the end of its stall is dropped, and counted: 30 MB,
at the usual MTU. Of a connection that stalls no more wait than its window lets out, and one more at
each of its ever rarer retries."""
DROPPED = "dropped "
"""How the last line begins that a shaper says; the number of those follows."""
IPV4 = 4
DEFAULT_MTU = 1500
TRIAL = "--try"
TUN_QUEUE = 10_000
"""How many packets the kernel keeps for us while we are busy."""
NS_PER_MS = 1_000_000
BITS, NS_PER_S = 8, 1_000_000_000

Departure = tuple[int, bytes]
"""When a packet goes on, in nanoseconds of the monotonic clock, and the packet."""


class Line:
    """One direction of one link: what becomes of each packet. Pure but for its draws.

    Args:
        quality: The fields of `cluster.protocol.Quality`.
        name: Of the link: two links with one seed draw differently.
        began_ns: When it begins to stall, if it does.

    Attributes:
        dropped: How many packets found no room in a stall.
    """

    def __init__(self, quality: dict[str, float], name: str, began_ns: int = 0) -> None:
        self._delay_ns = int(quality["delay_ms"] * NS_PER_MS)
        self._jitter_ns = int(quality["jitter_ms"] * NS_PER_MS)
        self._loss, self._duplicate = quality["loss"], quality["duplicate"]
        self._reorder, self._rate_kbit = quality["reorder"], quality["rate_kbit"]
        self._stall_ns = int(quality["stall_ms"] * NS_PER_MS)
        self._open_ns = int(quality["open_ms"] * NS_PER_MS)
        self._stall_share, self._seed = quality["stall_share"], int(quality["seed"])
        self._began_ns = began_ns
        self._rng = Random(f"{quality['seed']}/{name}")
        self._held: tuple[int, bytes] | None = None
        self._free_ns = 0
        self._opens_ns = self._waiting = 0
        self.dropped = 0

    def send(self, packet: bytes, now_ns: int) -> list[Departure]:
        """Return what goes on because of a packet, and when.

        Each packet has a jitter of its own, as with netem, so that packets close behind each other
        change places.
        """
        draw = self._rng.random
        if draw() < self._loss:
            return []
        copies = 2 if draw() < self._duplicate else 1
        held_back = draw() < self._reorder
        late_ns = self._delay_ns + int(self._rng.uniform(-1, 1) * self._jitter_ns)
        due_ns = self._turn_ns(len(packet) * copies, now_ns + max(0, late_ns))
        if due_ns is None:
            return []
        if self._stall_ns and (self._stall_share >= 1 or self._stalls(packet)):
            opens_ns = self._open_ns_after(due_ns)
            if opens_ns > due_ns and not self._has_room(opens_ns, copies):
                return []
            due_ns = opens_ns
        if held_back and self._held is None:
            self._held = (due_ns + HELD_NS, packet)
            return [(due_ns, packet)] * (copies - 1)
        return [(due_ns, packet)] * copies + self._released(due_ns + 1)

    def overdue(self, now_ns: int) -> list[Departure]:
        """Return the packet that was held back, if no later one came for too long."""
        if self._held is None or self._held[0] > now_ns:
            return []
        return self._released(now_ns)

    def _stalls(self, packet: bytes) -> bool:
        """Tell whether a packet's connection is one that stalls; it is the other way, too."""
        ports = (packet[0] & 0xF) * 4
        ends = (
            packet[12:16] + packet[ports : ports + 2],
            packet[16:20] + packet[ports + 2 : ports + 4],
        )
        key = b"%d/%d/%b" % (self._seed, packet[9], b"".join(sorted(ends)))
        drawn = int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big")
        return drawn < self._stall_share * (1 << 32)

    def stall_no_more(self) -> None:
        """Let pass at once whatever comes from now on."""
        self._stall_ns = 0

    def _open_ns_after(self, due_ns: int) -> int:
        """Return when a link that stalls by turns lets pass what is due: all in the same moment."""
        into_ns = (due_ns - self._began_ns) % (self._stall_ns + self._open_ns)
        return due_ns + max(0, self._stall_ns - into_ns)

    def _has_room(self, opens_ns: int, packets: int) -> bool:
        """Tell whether more can wait for the end of a stall, and count them, or what is dropped."""
        if opens_ns != self._opens_ns:
            self._opens_ns, self._waiting = opens_ns, 0
        if self._waiting + packets > STALLED_PACKETS:
            self.dropped += packets
            return False
        self._waiting += packets
        return True

    def _released(self, at_ns: int) -> list[Departure]:
        held, self._held = self._held, None
        return [] if held is None else [(at_ns, held[1])]

    def _turn_ns(self, size: int, due_ns: int) -> int | None:
        """Return when the rate lets so many bytes pass; None: the queue before them is full."""
        if not self._rate_kbit:
            return due_ns
        per_byte_ns = BITS * NS_PER_MS / self._rate_kbit  # A kilobit a second is a bit a ms.
        self._free_ns = max(self._free_ns, due_ns - int(BURST_BYTES * per_byte_ns))
        turn_ns = max(due_ns, self._free_ns)
        if turn_ns - due_ns > QUEUE_NS:
            return None
        self._free_ns += int(size * per_byte_ns)
        return turn_ns


class Way:
    """The way to one destination.

    Args:
        line: What becomes of packets on it.
        out: The raw socket through which they leave.
    """

    def __init__(self, line: Line, out: socket.socket) -> None:
        self.line = line
        self.out = out


class Shaper:
    """The packets on their way through the TUN device.

    Args:
        tun: Where they come from.
        ways: Where they go, by destination, as in the IP header.
    """

    def __init__(self, tun: int, ways: dict[bytes, Way]) -> None:
        self._tun = tun
        self._ways = ways
        self._queue: list[tuple[int, int, bytes]] = []
        self._count = 0

    def serve(self) -> None:
        """Pass packets on until standard input ends."""
        while True:
            readable, _, _ = select.select([self._tun, INPUT], [], [], self._patience_s())
            if INPUT in readable and not os.read(INPUT, PACKETS_AT_ONCE):
                break
            now_ns = time.monotonic_ns()  # noqa: TID251 - standard library only
            if self._tun in readable:
                self._take()
            for way in self._ways.values():
                self._wait(way.line.overdue(now_ns))
            self._pass_on(now_ns)

    def empty(self) -> None:
        """Send all that still waits, here and then in the TUN device; nothing stalls any more.

        Whoever sends faster than that for long does not hold it up: what comes then is lost.
        """
        for way in self._ways.values():
            way.line.stall_no_more()
        self._pass_on(sys.maxsize)
        until_ns = time.monotonic_ns() + EMPTY_NS  # noqa: TID251 - standard library only
        while self._take() and time.monotonic_ns() < until_ns:  # noqa: TID251 - as above
            self._pass_on(sys.maxsize)
        for way in self._ways.values():
            self._wait(way.line.overdue(sys.maxsize))
        self._pass_on(sys.maxsize)

    @property
    def dropped(self) -> int:
        """How many packets found no room in stalls."""
        return sum(way.line.dropped for way in self._ways.values())

    def _take(self) -> int:
        """Take some packets from the TUN device; return how many."""
        taken = 0
        with contextlib.suppress(BlockingIOError):
            for _ in range(PACKETS_AT_ONCE):
                packet = os.read(self._tun, 1 << 16)
                taken += 1
                way = self._ways.get(packet[16:20]) if packet[0] >> 4 == IPV4 else None
                if way is not None:
                    # When it was read, for it may have come since the round began: never early.
                    read_ns = time.monotonic_ns()  # noqa: TID251 - standard library only
                    self._wait(way.line.send(packet, read_ns))
        return taken

    def _wait(self, departures: list[Departure]) -> None:
        for due_ns, packet in departures:
            self._count += 1
            heapq.heappush(self._queue, (due_ns, self._count, packet))

    def _pass_on(self, now_ns: int) -> None:
        while self._queue and self._queue[0][0] <= now_ns:
            _, _, packet = heapq.heappop(self._queue)
            # A device that is gone or full loses packets, as it always does.
            with contextlib.suppress(OSError):
                address = packet[16:20]
                self._ways[address].out.sendto(packet, (socket.inet_ntoa(address), 0))

    def _patience_s(self) -> float:
        if not self._queue:
            return HELD_NS / NS_PER_S
        due_ns = self._queue[0][0] - time.monotonic_ns()  # noqa: TID251 - standard library only
        return min(max(0, due_ns), HELD_NS) / NS_PER_S


def main(order: dict[str, Any]) -> None:
    """Take the links over, say `ready`, and shape until standard input ends.

    Args:
        order: `device`, the name for the TUN device; `quality`; `source`; `links`, the address of
            each destination by its name.
    """
    routes = {name: _route_to(address) for name, address in order["links"].items()}
    now_ns = time.monotonic_ns()  # noqa: TID251 - standard library only
    ways = {
        socket.inet_aton(address): Way(
            Line(order["quality"], f"{order['source']}/{name}", now_ns),
            _raw_socket(routes[name]["dev"]),
        )
        for name, address in order["links"].items()
    }
    tun = _tun(order["device"], mtu=min(_mtu(route["dev"]) for route in routes.values()))
    for route in routes.values():
        _ip("route", "add", f"{route['dst']}/32", "dev", order["device"], "src", route["prefsrc"])
    os.write(1, b"ready\n")
    shaper = Shaper(tun, ways)
    shaper.serve()
    give_back(shaper, [route["dst"] for route in routes.values()], order["device"])
    os.write(1, f"{DROPPED}{shaper.dropped}\n".encode())


def give_back(shaper: Shaper, addresses: "list[str]", device: str) -> None:
    """Send all that waits, and then have packets take the old routes again, one after the other.

    What a link held goes on before its old route is back. What comes in the milliseconds of a
    route's removal goes on right behind it, so that a packet of the old route may overtake it.

    Args:
        shaper: Of all of them.
        addresses: To which routes lead into the device.
        device: Its name.
    """
    shaper.empty()
    for address in addresses:
        with contextlib.suppress(OSError):  # A route that is gone leads nowhere.
            _ip("route", "delete", f"{address}/32", "dev", device)
        shaper.empty()


def _tun(name: str, *, mtu: int) -> int:
    """Make a TUN device that lasts as long as its descriptor."""
    tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    # By netlink: the ioctl for a queue's length is not for users who are root inside only.
    _ip("link", "set", name, "mtu", f"{mtu}", "txqueuelen", f"{TUN_QUEUE}", "up")
    return tun


def _mtu(device: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFMTU, struct.pack("16s24x", device.encode()))
    return int(struct.unpack("16si20x", answer)[1])


def _route_to(address: str) -> dict[str, str]:
    """Return how packets leave for an address: `dev`, `prefsrc`."""
    (route,) = json.loads(_ip("-j", "route", "get", address))
    settings = [Path(f"/proc/sys/net/ipv4/conf/{each}/rp_filter") for each in ("all", route["dev"])]
    if max(int(setting.read_text()) for setting in settings) == 1:
        # What comes from the address would be dropped: the route to it leads elsewhere (RFC 3704).
        raise OSError("rp_filter is strict; type there: sysctl -w net.ipv4.conf.all.rp_filter=2")
    found: dict[str, str] = route
    return found


def _raw_socket(device: str) -> socket.socket:
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    return out


def _ip(*words: str) -> str:
    done = subprocess.run(  # noqa: S603 - fixed words and our own addresses
        ["ip", *words],  # noqa: S607 - wherever this machine keeps it
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def try_here(addresses: "list[str]") -> None:
    """Make what a shaper needs, and end: for whoever wants to know if it would work.

    Args:
        addresses: To which packets would go.
    """
    _tun(f"lqs-try{os.getpid() % 100_000}", mtu=DEFAULT_MTU)
    _raw_socket("lo")
    for address in addresses:
        _route_to(address)


if __name__ == "__main__":
    try:
        if sys.argv[1] == TRIAL:
            try_here(sys.argv[2:])
        else:
            main(json.loads(sys.argv[1]))
    except OSError as error:
        os.write(1, f"{error}\n".encode())
        sys.exit(f"{error}")
