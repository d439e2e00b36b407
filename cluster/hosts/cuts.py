"""Build the text of nft rules that cut links, or that block single connections.

Each cut is a separate chain in the receiver's namespace, so that each cut can be undone alone. A
cut only counts and marks packets. One further chain drops the marked packets. If cuts dropped
packets themselves, the second of two cuts over one link would count no packets, so this second cut
could not be verified.

A block is for single connections. The receiving machine drops the packets. If the sender's rules
dropped the packets, the sender would get EPERM instead of losing a packet.
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
"""The nft hook for outgoing packets, for runs that may not change the receiver's rules."""


def drop_marked(table: str = TABLE, *, hook: str = INPUT) -> str:
    """Return the nft script of the chain that drops marked packets."""
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
    """Return the nft script of one cut on one machine.

    Args:
        cut_id: The cut. The script creates the chain of the cut if the chain does not exist.
        addresses: The senders' addresses by name; with the hook `OUTPUT`, the receivers' addresses.
        table: The run's nft table on that machine.
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
    """A machine's rule that drops the packets of one connection in one direction.

    Attributes:
        connection: The name of the connection, which is also the rule's comment.
        port: The port on this machine.
        address, other_port: The other end's address and port, as this machine sees them.
        hook: `INPUT` drops packets from the other end, `OUTPUT` drops packets to the other end.
    """

    connection: str
    port: int
    address: str
    other_port: int
    hook: str = INPUT

    @property
    def rule(self) -> str:
        """The rule as nft text."""
        came = self.hook == INPUT
        end, source, target = (
            ("saddr", self.other_port, self.port) if came else ("daddr", self.port, self.other_port)
        )
        ports = f"tcp sport {source} tcp dport {target}"
        return f'ip {end} {self.address} {ports} counter drop comment "{self.connection}"\n'


def block_rules(block_id: str, drops: Collection[Drop], *, table: str = TABLE) -> str:
    """Return the nft script that adds connections to one block on one machine.

    Connections that are already in the block stay in it.

    Args:
        block_id: The block.
        drops: The connections to drop, each with its direction.
        table: The run's nft table on that machine.
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
    """Return the ids of a block's two chains: for incoming and for outgoing packets."""
    return f"{block_id} came", f"{block_id} went"


def unblock_rules(block_id: str, *, table: str = TABLE) -> str:
    """Return the nft script that undoes one block on one machine, if the block exists."""
    return "".join(join_rules(way, table=table, hook=hook) for way, hook in _ways(block_id))


def _ways(block_id: str) -> Iterator[tuple[str, str]]:
    return zip(block_chains(block_id), (INPUT, OUTPUT), strict=True)


def join_rules(cut_id: str, *, table: str = TABLE, hook: str = INPUT) -> str:
    """Return the nft script that undoes one cut on one machine, if the cut exists."""
    made = cut_rules(cut_id, {}, table=table, hook=hook)
    return f"{made}delete chain ip {table} {chain(cut_id)}\n"


def chain(cut_id: str) -> str:
    """Return the name of a cut's chain: the cut's id in characters that nft allows, with a hash."""
    return f"cut_{re.sub(r'[^A-Za-z0-9]', '_', cut_id)[:80]}_{zlib.crc32(cut_id.encode()):08x}"


def dropped_packets(listing: str, within: Collection[str]) -> list[tuple[str, int]]:
    """Return (comment, packets) of each counting rule in the output of `nft -j`.

    Args:
        listing: The output for a chain or a table.
        within: The names of the chains to include.
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
    """Return the names of the chains in the output of `nft -j`."""
    items = json.loads(listing)["nftables"]
    return frozenset(item["chain"]["name"] for item in items if "chain" in item)
