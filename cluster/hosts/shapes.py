"""Translate a shape of links into orders for the shapers on the machines."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from cluster.hosts.agent import Message
from cluster.protocol import Link, Quality


def receivers_by_sender(links: Iterable[Link]) -> Mapping[str, list[str]]:
    """Return the receivers of each sender, sorted. Each sender shapes its own packets."""
    receivers: dict[str, list[str]] = defaultdict(list)
    for sender, receiver in sorted(links):
        receivers[sender].append(receiver)
    return receivers


def device(table: str, shape_id: str) -> str:
    """Return the name of a shape's TUN device: at most 15 characters, different for each run."""
    return f"lqs{zlib.crc32(f'{table}/{shape_id}'.encode()):08x}"


def order(name: str, quality: Quality, *, sender: str, addresses: Mapping[str, str]) -> Message:
    """Return the order that starts a shaper (`shaper.main`).

    Args:
        name: The name of the shaper's TUN device.
        quality: The quality that the shaper applies.
        sender: The machine on which the shaper runs.
        addresses: The addresses of the receivers.
    """
    return {
        "device": name,
        "quality": asdict(quality),
        "source": sender,
        "links": dict(addresses),
    }
