"""Describe cut network links briefly, by the nodes on each side of a cut."""

import re
from collections import defaultdict
from collections.abc import Iterable

Link = tuple[str, str]
"""(sender, receiver)."""
_DIGITS = re.compile(r"(\d+)")


def parted(links: Iterable[Link]) -> str:
    """Describe the cut links exactly: `n2 | n1 n3`; or `n1 n3 → n2` for only one direction.

    If two sides are not enough to describe all links, as in a ring, each link is listed: `n1→n3,
    n3→n1`.

    Args:
        links: The cut links.
    """
    cut = set(links)
    if not cut:
        return ""
    if all((receiver, sender) in cut for sender, receiver in cut):
        sides = _sides(cut)
        if {(a, b) for one in sides for two in sides if one is not two for a in one for b in two} \
                == cut:  # fmt: skip
            return " | ".join(" ".join(side) for side in sides)
    senders, receivers = ({link[at] for link in cut} for at in (0, 1))
    if not senders & receivers and len(cut) == len(senders) * len(receivers):
        return f"{' '.join(_ordered(senders))} → {' '.join(_ordered(receivers))}"
    return ", ".join(f"{sender}→{receiver}" for sender, receiver in sorted(cut, key=_natural))


def _sides(cut: set[Link]) -> list[list[str]]:
    """Return groups of nodes that are cut from the same nodes; the smallest group comes first."""
    others: dict[str, set[str]] = defaultdict(set)
    for sender, receiver in cut:
        others[sender].add(receiver)
    sides: dict[frozenset[str], list[str]] = defaultdict(list)
    for node, away in others.items():
        sides[frozenset(away)].append(node)
    return sorted(map(_ordered, sides.values()), key=lambda side: (len(side), _natural(side)))


def _ordered(nodes: Iterable[str]) -> list[str]:
    return sorted(nodes, key=lambda node: _natural([node]))


def _natural(names: Iterable[str]) -> list[list[tuple[bool, int, str]]]:
    """Return a sort key that puts n2 before n10."""
    return [
        [(part.isdecimal(), int(part) if part.isdecimal() else 0, part)
         for part in _DIGITS.split(name)]
        for name in names
    ]  # fmt: skip
