"""Cuts and blocks as nft rules: text in, text out.

Each cut is a chain of its own in the receiver's namespace, so that one can be undone without
another. Cuts only count and mark; one further chain drops what is marked. If cuts dropped by
themselves, the second of two cuts over one link would never see a packet, and so could not prove
itself. A block is of single connections, and drops by itself where a packet comes: a sender whose
own rules dropped it would be told so (EPERM), and not take it for lost.
"""

import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

TABLE = "logquake"
MARK = "0x4c51"
_DROP_MARKED = """table ip TABLE {
chain CHAIN {
type filter hook HOOK priority 0; policy accept;
meta mark MARK drop
}
}
"""
INPUT = "input"
OUTPUT = "output"
"""Where a receiver's namespace is not ours to change, its senders drop what they send to it."""


def drop_marked(table: str = TABLE, *, hook: str = INPUT) -> str:
    """Return the nft script of the chain that drops."""
    values = {
        "TABLE": table,
        "CHAIN": "drop_marked" if hook == INPUT else f"drop_marked_{hook}",
        "HOOK": hook,
        "MARK": MARK,
    }
    return re.sub("|".join(values), lambda found: values[found[0]], _DROP_MARKED)


def cut_rules(
    cut_id: str, addresses: Mapping[str, str], *, table: str = TABLE, hook: str = INPUT
) -> str:
    """Return the nft script of one cut in one receiver's namespace.

    Args:
        cut_id: The cut; its chain is made if there is none.
        addresses: Of the sources, by their names; of the receivers with the hook `OUTPUT`.
        table: The run's table there.
        hook: `INPUT` or `OUTPUT`.
    """
    end = "saddr" if hook == INPUT else "daddr"
    rules = "".join(
        f'ip {end} {address} counter meta mark set {MARK} comment "{source}"\n'
        for source, address in addresses.items()
    )
    return _chain_of(cut_id, rules, table=table, hook=hook)


def _chain_of(cut_id: str, rules: str, *, table: str, hook: str) -> str:
    head = f"type filter hook {hook} priority -10; policy accept;"
    return f"table ip {table} {{\nchain {chain(cut_id)} {{\n{head}\n{rules}}}\n}}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Where one machine drops the packets of one connection, one way.

    Attributes:
        connection: Which; its counter is named so.
        port: Of this machine's end.
        address, other_port: Of the other end, as this machine sees it.
        hook: `INPUT`: what comes from there; `OUTPUT`: what goes there.
    """

    connection: str
    port: int
    address: str
    other_port: int
    hook: str = INPUT

    @property
    def rule(self) -> str:
        """The rule in nft's words."""
        came = self.hook == INPUT
        end, source, target = (
            ("saddr", self.other_port, self.port) if came else ("daddr", self.port, self.other_port)
        )
        ports = f"tcp sport {source} tcp dport {target}"
        return f'ip {end} {self.address} {ports} counter drop comment "{self.connection}"\n'


def block_rules(block_id: str, drops: Collection[Drop], *, table: str = TABLE) -> str:
    """Return the nft script of one block at one machine, beside what it drops there already.

    Args:
        block_id: The block.
        drops: What is dropped there.
        table: The run's table there.
    """
    made = [
        _chain_of(
            way,
            "".join(each.rule for each in drops if each.hook == hook),
            table=table,
            hook=hook,
        )
        for way, hook in _ways(block_id)
    ]
    return "".join(made)


def block_chains(block_id: str) -> tuple[str, str]:
    """Return the ids of a block's two chains."""
    return f"{block_id} came", f"{block_id} went"


def unblock_rules(block_id: str, *, table: str = TABLE) -> str:
    """Return the nft script that undoes one block at one machine, made there or not."""
    return "".join(join_rules(way, table=table, hook=hook) for way, hook in _ways(block_id))


def _ways(block_id: str) -> Iterator[tuple[str, str]]:
    return zip(block_chains(block_id), (INPUT, OUTPUT), strict=True)


def join_rules(cut_id: str, *, table: str = TABLE, hook: str = INPUT) -> str:
    """Return the nft script that undoes one cut in one receiver's namespace, made there or not."""
    made = cut_rules(cut_id, {}, table=table, hook=hook)
    return f"{made}delete chain ip {table} {chain(cut_id)}\n"


def chain(cut_id: str) -> str:
    """Return the name of a cut's chain: its id in letters that nft accepts, and still unique."""
    return f"cut_{re.sub(r'[^A-Za-z0-9]', '_', cut_id)[:80]}_{zlib.crc32(cut_id.encode()):08x}"


def dropped_packets(listing: str, within: Collection[str]) -> list[tuple[str, int]]:
    """Return (comment, packets) of each rule that counts in a listing by `nft -j`.

    Args:
        listing: Of a chain or a table.
        within: The names of the chains that are meant.
    """
    rules = [item["rule"] for item in json.loads(listing)["nftables"] if "rule" in item]
    return [
        (rule["comment"], part["counter"]["packets"])
        for rule in rules
        if rule["chain"] in within
        for part in rule["expr"]
        if "counter" in part
    ]


def chains(listing: str) -> frozenset[str]:
    """Return the names of the chains in a listing by `nft -j`."""
    items = json.loads(listing)["nftables"]
    return frozenset(item["chain"]["name"] for item in items if "chain" in item)
