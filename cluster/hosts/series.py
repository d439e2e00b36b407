"""Measure links between machines with series of numbered datagrams.

Agents send, answer and count the datagrams. The measurement does not depend on the shapers.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from cluster.hosts.agent import Message
from cluster.hosts.machine import Machine
from cluster.protocol import Link, Measured
from results.record.clock import pause_until, stopwatch_s

LOOK_INTERVAL_S = 0.05
QUIET_S = 1.0
"""After this many seconds without a datagram, expect no more datagrams. A round trip is shorter."""
LIMIT_S = 10.0
"""The seconds to wait after the last datagram was sent."""


def measure(
    links: Iterable[Link],
    *,
    machine: Callable[[str], Machine],
    address: Callable[[str], str],
    spacing: Message,
) -> Mapping[Link, Measured]:
    """Send series over all links at once.

    Wait until all datagrams are answered, or until no more datagrams arrive.

    Args:
        links: The directed links.
        machine: Returns a node's machine.
        address: Returns a node's address.
        spacing: `count`, `size`, `interval_s` and `burst` of each series.
    """
    names = _begun(links, machine, address, spacing)
    # Do not ask earlier: the senders are busy until all datagrams are sent.
    pause_until(stopwatch_s() + spacing["count"] * spacing["interval_s"])
    deadline_s = stopwatch_s() + LIMIT_S
    returned, arrived = _looked(names, machine)
    quiet_since_s = stopwatch_s()
    while not _whole(returned, spacing["count"]):
        pause_until(stopwatch_s() + LOOK_INTERVAL_S)
        before = (returned, arrived)
        returned, arrived = _looked(names, machine)
        now_s = stopwatch_s()
        if before != (returned, arrived):
            quiet_since_s = now_s
        is_quiet = _sent(returned, spacing["count"]) and now_s - quiet_since_s > QUIET_S
        if is_quiet or now_s > deadline_s:
            break
    return _told(names, returned, arrived)


class SentVolley:
    """An implementation of `Volley`: series of datagrams that were all sent at once.

    Args:
        links: The directed links.
        machine: Returns a node's machine.
        address: Returns a node's address.
        count: The number of datagrams over each link.
        flows: The number of source ports. Each datagram uses the next of these ports.
    """

    def __init__(
        self,
        links: Iterable[Link],
        *,
        machine: Callable[[str], Machine],
        address: Callable[[str], str],
        count: int,
        flows: int,
    ) -> None:
        spacing = {"count": count, "size": 0, "interval_s": 0.0, "burst": count, "flows": flows}
        self._machine = machine
        self._names = _begun(links, machine, address, spacing)

    def look(self) -> Mapping[Link, Measured]:
        """Return the current counts of the sender and the receiver of each link."""
        return _told(self._names, *_looked(self._names, self._machine))


def measured(returned: Message, arrived: Message) -> Measured:
    """Return the measurement of a series from the counts of the sender and the receiver.

    Args:
        returned: `sent` and `round_trip_ms`.
        arrived: `numbers`, in the order in which the datagrams arrived, and `lasted_s`.
    """
    return Measured.of(
        arrived["numbers"],
        sent=returned["sent"],
        round_trip_ms=returned["round_trip_ms"],
        lasted_s=arrived["lasted_s"],
    )


def _begun(
    links: Iterable[Link],
    machine: Callable[[str], Machine],
    address: Callable[[str], str],
    spacing: Message,
) -> Mapping[str, Link]:
    names = {uuid.uuid4().hex: link for link in links}
    for name, (sender, receiver) in names.items():
        to = (address(receiver), machine(receiver).probe_port)
        machine(sender).start_series(name, to, spacing)
    return names


def _told(
    names: Mapping[str, Link], returned: Mapping[str, Message], arrived: Mapping[str, Message]
) -> Mapping[Link, Measured]:
    return {link: measured(returned[name], arrived[name]) for name, link in names.items()}


def _looked(
    names: Mapping[str, Link], machine: Callable[[str], Machine]
) -> tuple[dict[str, Message], dict[str, Message]]:
    by_sender: dict[str, list[str]] = defaultdict(list)
    by_receiver: dict[str, list[str]] = defaultdict(list)
    for name, (sender, receiver) in names.items():
        by_sender[sender].append(name)
        by_receiver[receiver].append(name)
    returned: dict[str, Message] = {}
    arrived: dict[str, Message] = {}
    for sender, those in by_sender.items():
        returned |= machine(sender).returned(those)["series"]
    for receiver, those in by_receiver.items():
        arrived |= machine(receiver).arrived(those)["series"]
    return returned, arrived


def _sent(returned: Mapping[str, Message], count: int) -> bool:
    return all(each["sent"] == count for each in returned.values())


def _whole(returned: Mapping[str, Message], count: int) -> bool:
    """Return whether every datagram was answered. Late copies may still be in transit."""
    return all(len(each["round_trip_ms"]) == count for each in returned.values())
