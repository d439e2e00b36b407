"""Delay, lose, duplicate, reorder, slow or stall the packets from one machine to others.

The shaper is a separate program. The shaper starts by its path and uses only the standard library,
for the same reasons as the agent. It creates a TUN device, and changes the routes of the
destinations so that they lead to this device. The shaper reads each packet from the device, applies
the link's quality, and sends the packet on. It sends through a raw socket that is bound to the
original device. So the packet does not take the new route (man 7 ip, IP_HDRINCL; man 7 socket,
SO_BINDTODEVICE). Packets of other links never pass through the shaper.

When the shaper's process ends, the kernel removes the TUN device and all routes through this
device. So even after a kill, packets flow as before, without any cleanup. The shaper ends when its
standard input ends. Before it ends, it sends all waiting packets, in order.

netem (man 8 tc-netem) also does all this, but many kernels do not have netem. The shaper needs only
`/dev/net/tun`. Packets from a TUN device contain checksums, and are not larger than the MTU of the
device.
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
"""If a rate limit would delay a packet longer than this, the shaper drops the packet."""
HELD_NS = 100_000_000
"""The longest time that a packet is held back for reordering if no later packet comes."""
BURST_BYTES = 3000
"""The bytes that pass at once before the rate limit applies: two full packets."""
PACKETS_AT_ONCE = 64
EMPTY_NS = 1_000_000_000
STALLED_PACKETS = 20_000
"""While a link stalls, at most this many packets wait: 30 MB at the usual MTU.

Further packets are dropped and counted. For a stalled connection, at most one window of packets
waits, and one more packet for each retry. The time between retries grows.
"""
DROPPED = "dropped "
"""The start of the last line that a shaper prints. The number of dropped packets follows."""
IPV4 = 4
DEFAULT_MTU = 1500
TRIAL = "--try"
TUN_QUEUE = 10_000
"""The number of packets that the kernel keeps while the shaper is busy."""
NS_PER_MS = 1_000_000
BITS, NS_PER_S = 8, 1_000_000_000

Departure = tuple[int, bytes]
"""A packet and the time to send it, in nanoseconds of the monotonic clock."""


class Line:
    """The quality of one direction of one link, for each packet. This class does no I/O.

    Random decisions come from the seed.

    Args:
        quality: The fields of `cluster.protocol.Quality`.
        name: The link's name. Two links with the same seed make different random decisions.
        began_ns: The time at which stalls begin, if the quality has stalls.

    Attributes:
        dropped: Number of packets that were dropped because too many packets waited in a stall.
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
        """Return the packets to send when this packet arrives, each with its sending time.

        Each packet has its own jitter, as with netem. So a packet can overtake another that was
        sent shortly before.
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
        """Return the packet that was held back for reordering, if it has waited too long."""
        if self._held is None or self._held[0] > now_ns:
            return []
        return self._released(now_ns)

    def _stalls(self, packet: bytes) -> bool:
        """Return whether a packet's connection stalls. Both directions give the same result."""
        ports = (packet[0] & 0xF) * 4
        ends = (
            packet[12:16] + packet[ports : ports + 2],
            packet[16:20] + packet[ports + 2 : ports + 4],
        )
        key = b"%d/%d/%b" % (self._seed, packet[9], b"".join(sorted(ends)))
        drawn = int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big")
        return drawn < self._stall_share * (1 << 32)

    def stall_no_more(self) -> None:
        """End all stalls. Later packets pass at once."""
        self._stall_ns = 0

    def _open_ns_after(self, due_ns: int) -> int:
        """Return the time at which a link with repeated stalls lets a packet pass.

        All waiting packets pass together.
        """
        into_ns = (due_ns - self._began_ns) % (self._stall_ns + self._open_ns)
        return due_ns + max(0, self._stall_ns - into_ns)

    def _has_room(self, opens_ns: int, packets: int) -> bool:
        """Return whether packets may wait for the end of a stall; if not, count them as dropped."""
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
        """Return the time at which the rate limit lets the bytes pass.

        The result is None if the queue is full.
        """
        if not self._rate_kbit:
            return due_ns
        per_byte_ns = BITS * NS_PER_MS / self._rate_kbit  # 1 kilobit/s is 1 bit/ms.
        self._free_ns = max(self._free_ns, due_ns - int(BURST_BYTES * per_byte_ns))
        turn_ns = max(due_ns, self._free_ns)
        if turn_ns - due_ns > QUEUE_NS:
            return None
        self._free_ns += int(size * per_byte_ns)
        return turn_ns


class Way:
    """The path of packets to one destination.

    Args:
        line: The object that decides what happens to packets on the way.
        out: The raw socket that sends the packets.
    """

    def __init__(self, line: Line, out: socket.socket) -> None:
        self.line = line
        self.out = out


class Shaper:
    """The shaper moves packets from the TUN device to the packets' destinations.

    Args:
        tun: The TUN device.
        ways: The path to each destination, by the address in the IP header.
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
        """End all stalls, and send all packets that wait in the shaper or in the TUN device.

        If a sender is faster than the shaper, the shaper does not wait for it: the sender's later
        packets are lost.
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
        """The number of packets that were dropped because too many packets waited in stalls."""
        return sum(way.line.dropped for way in self._ways.values())

    def _take(self) -> int:
        """Read some packets from the TUN device. Return the number of packets."""
        taken = 0
        with contextlib.suppress(BlockingIOError):
            for _ in range(PACKETS_AT_ONCE):
                packet = os.read(self._tun, 1 << 16)
                taken += 1
                way = self._ways.get(packet[16:20]) if packet[0] >> 4 == IPV4 else None
                if way is not None:
                    # Use the time of the read: a packet may have come since the round began, and
                    # must not leave early.
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
            # A missing or full device loses packets, as usual.
            with contextlib.suppress(OSError):
                address = packet[16:20]
                self._ways[address].out.sendto(packet, (socket.inet_ntoa(address), 0))

    def _patience_s(self) -> float:
        if not self._queue:
            return HELD_NS / NS_PER_S
        due_ns = self._queue[0][0] - time.monotonic_ns()  # noqa: TID251 - standard library only
        return min(max(0, due_ns), HELD_NS) / NS_PER_S


def main(order: dict[str, Any]) -> None:
    """Take over the links, print `ready`, and shape packets until standard input ends.

    Args:
        order: `device`, the TUN device's name; `quality`; `source`; and `links`, the address of
            each destination by name.
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
    """Send all waiting packets, and then restore the old routes one after the other.

    Before a link's old route is restored, the packets that the link held back are sent. To remove a
    route takes milliseconds. Packets that arrive during this time are sent right afterwards. A
    packet on the old route may overtake these packets.

    Args:
        shaper: The shaper of all links.
        addresses: The destinations whose routes lead into the device.
        device: The name of the TUN device.
    """
    shaper.empty()
    for address in addresses:
        with contextlib.suppress(OSError):  # The route may already be missing.
            _ip("route", "delete", f"{address}/32", "dev", device)
        shaper.empty()


def _tun(name: str, *, mtu: int) -> int:
    """Create a TUN device that exists as long as the returned file descriptor is open."""
    tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    # By netlink, because the ioctl for the queue length fails for users who are root only inside.
    _ip("link", "set", name, "mtu", f"{mtu}", "txqueuelen", f"{TUN_QUEUE}", "up")
    return tun


def _mtu(device: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFMTU, struct.pack("16s24x", device.encode()))
    return int(struct.unpack("16si20x", answer)[1])


def _route_to(address: str) -> dict[str, str]:
    """Return the device and source address (`dev`, `prefsrc`) of packets to an address."""
    (route,) = json.loads(_ip("-j", "route", "get", address))
    settings = [Path(f"/proc/sys/net/ipv4/conf/{each}/rp_filter") for each in ("all", route["dev"])]
    if max(int(setting.read_text()) for setting in settings) == 1:
        # The route to the address leads elsewhere, so its packets would be dropped (RFC 3704).
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
    """Test whether shapers work on this machine: create everything that a shaper needs, then end.

    Args:
        addresses: The destinations.
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
