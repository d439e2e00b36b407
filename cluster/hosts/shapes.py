"""Shapes of links in words for the machines: who has to start which shaper."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from cluster.hosts.agent import Message
from cluster.protocol import Link, Quality


def receivers_by_sender(links: Iterable[Link]) -> Mapping[str, list[str]]:
    """Return to whom each sender's packets are shaped, in order: it is done where they leave."""
    receivers: dict[str, list[str]] = defaultdict(list)
    for sender, receiver in sorted(links):
        receivers[sender].append(receiver)
    return receivers


def device(table: str, shape_id: str) -> str:
    """Return the name of a shape's TUN devices: at most 15 letters, and no other run's."""
    return f"lqs{zlib.crc32(f'{table}/{shape_id}'.encode()):08x}"


def order(name: str, quality: Quality, *, sender: str, addresses: Mapping[str, str]) -> Message:
    """Return what a shaper is told (`shaper.main`).

    Args:
        name: Of its device.
        quality: What it does.
        sender: The machine that it runs on.
        addresses: Of the receivers.
    """
    return {
        "device": name,
        "quality": asdict(quality),
        "source": sender,
        "links": dict(addresses),
    }
