"""Measure simulated links with series of numbered datagrams, as on real hosts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from cluster.protocol import Measured
from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.network import Link, Network
from results.record.clock import pause_until, stopwatch_s

_LOOK_S = 0.05
_QUIET_S = 1.0
"""After this many seconds without a datagram, the wait ends. Every round trip is shorter."""
_LIMIT_S = 10.0
_NS_PER_S, _NS_PER_MS = 1_000_000_000, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """The spacing of datagrams. The fields are those of `cluster.protocol.CanShape.measure`."""

    count: int
    size: int
    interval_s: float
    burst: int
    flows: int = 1


class Series:
    """The datagrams sent over one link, and their results."""

    def __init__(self, network: Network, agenda: Agenda, link: Link, spacing: Spacing) -> None:
        self._network, self._agenda = network, agenda
        self._size, self._flows = spacing.size, spacing.flows
        self._link, self._back = link, (link[1], link[0])
        self._sent_ns: list[int] = []
        self._trips_ns: dict[int, int] = {}
        self._numbers: list[int] = []
        self._first_ns = self._last_ns = 0

    @property
    def heard(self) -> tuple[int, int]:
        """How many datagrams arrived at the receiver, and how many came back to the sender."""
        return len(self._numbers), len(self._trips_ns)

    def send(self, count: int) -> None:
        """Send more datagrams at once."""
        for _ in range(count):
            number = len(self._sent_ns)
            self._sent_ns.append(self._agenda.now)
            arrived, flow = partial(self._arrived, number), number % self._flows
            self._network.probe(self._link, arrived, size=self._size, flow=flow)

    def told(self) -> Measured:
        """Return the results so far."""
        return Measured.of(
            self._numbers,
            sent=len(self._sent_ns),
            round_trip_ms=(trip / _NS_PER_MS for _, trip in sorted(self._trips_ns.items())),
            lasted_s=(self._last_ns - self._first_ns) / _NS_PER_S,
        )

    def _arrived(self, number: int) -> None:
        self._last_ns = self._agenda.now
        self._first_ns = self._first_ns if self._numbers else self._last_ns
        self._numbers.append(number)
        flow = number % self._flows
        self._network.probe(self._back, partial(self._returned, number), flow=flow)

    def _returned(self, number: int) -> None:
        self._trips_ns.setdefault(number, self._agenda.now - self._sent_ns[number])


def measure(
    network: Network,
    agenda: Agenda,
    links: Collection[Link],
    spacing: Spacing,
) -> Mapping[Link, Measured]:
    """Send a series over all links at the same time, and wait for the datagrams to return.

    The wait also ends if no more datagrams come.

    Args:
        network: The simulated network.
        agenda: The network's virtual time.
        links: The directed links.
        spacing: The spacing of each series.
    """
    count, burst = spacing.count, spacing.burst
    series = {link: Series(network, agenda, link, spacing) for link in links}
    for first in range(0, count, burst):
        after_ns = round(first * spacing.interval_s * _NS_PER_S)
        for each in series.values():
            agenda.after(after_ns, each.send, min(burst, count - first))
    pause_until(stopwatch_s() + count * spacing.interval_s)
    limit_s = quiet_until_s = stopwatch_s() + _LIMIT_S
    heard: list[tuple[int, int]] = []
    while any(each.heard[1] < count for each in series.values()):
        now_s, before, heard = stopwatch_s(), heard, [each.heard for each in series.values()]
        if heard != before:
            quiet_until_s = now_s + _QUIET_S
        if now_s > min(quiet_until_s, limit_s):
            break
        pause_until(now_s + _LOOK_S)
    return {link: each.told() for link, each in series.items()}


class SentVolley:
    """Implements `cluster.protocol.Volley` over simulated links with given names."""

    def __init__(self, series: Mapping[tuple[str, str], Series]) -> None:
        self._series = series

    def look(self) -> Mapping[tuple[str, str], Measured]:
        """Return the results so far."""
        return {link: each.told() for link, each in self._series.items()}
