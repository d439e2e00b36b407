"""Cuts and blocks as nft rules: text in, text out.

Each cut is a chain of its own in the receiver's namespace, so that one can be undone without
another. Cuts only count and mark; one further chain drops what is marked. If cuts dropped by
themselves, the second of two cuts over one link would never see a packet, and so could not prove
itself. A block is of single connections, at the machine that one of them was opened to: two chains,
for what comes and what goes, which drop and count.
"""

import json
import re
import zlib
from collections.abc import Collection, Mapping

from cluster.protocol import Connection

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


def block_rules(block_id: str, connections: Mapping[Connection, str], *, table: str = TABLE) -> str:
    """Return the nft script of one block at the machine that connections were opened to.

    What an earlier script of this block dropped and counted there is dropped no more.

    Args:
        block_id: The block.
        connections: The address of whoever opened each, as that machine sees it.
        table: The run's table there.
    """
    came = "".join(
        f"ip saddr {address} tcp sport {each.client_port} tcp dport {each.server_port}"
        f' counter drop comment "{each}"\n'
        for each, address in connections.items()
    )
    went = "".join(
        f"ip daddr {address} tcp sport {each.server_port} tcp dport {each.client_port}"
        f' counter drop comment "{each}"\n'
        for each, address in connections.items()
    )
    ways = zip(block_chains(block_id), (INPUT, OUTPUT), (came, went), strict=True)
    made = [_chain_of(way, rules, table=table, hook=hook) for way, hook, rules in ways]
    return f"{unblock_rules(block_id, table=table)}{''.join(made)}"


def block_chains(block_id: str) -> tuple[str, str]:
    """Return the ids of a block's two chains."""
    return f"{block_id} came", f"{block_id} went"


def unblock_rules(block_id: str, *, table: str = TABLE) -> str:
    """Return the nft script that undoes one block at one machine, made there or not."""
    ways = zip(block_chains(block_id), (INPUT, OUTPUT), strict=True)
    return "".join(join_rules(way, table=table, hook=hook) for way, hook in ways)


def join_rules(cut_id: str, *, table: str = TABLE, hook: str = INPUT) -> str:
    """Return the nft script that undoes one cut in one receiver's namespace, made there or not."""
    made = cut_rules(cut_id, {}, table=table, hook=hook)
    return f"{made}delete chain ip {table} {chain(cut_id)}\n"


def chain(cut_id: str) -> str:
    """Return the name of a cut's chain: its id in letters that nft accepts, and still unique."""
    return f"cut_{re.sub(r'[^A-Za-z0-9]', '_', cut_id)[:80]}_{zlib.crc32(cut_id.encode()):08x}"


def dropped_packets(listing: str, within: Collection[str] = ()) -> list[tuple[str, int]]:
    """Return (comment, packets) of each rule that counts in a listing by `nft -j`.

    Args:
        listing: Of a chain or a table.
        within: The chains that are meant; none: all.
    """
    rules = [item["rule"] for item in json.loads(listing)["nftables"] if "rule" in item]
    return [
        (rule["comment"], part["counter"]["packets"])
        for rule in rules
        if not within or rule["chain"] in within
        for part in rule["expr"]
        if "counter" in part
    ]


def chains(listing: str) -> frozenset[str]:
    """Return the names of the chains in a listing by `nft -j`."""
    items = json.loads(listing)["nftables"]
    return frozenset(item["chain"]["name"] for item in items if "chain" in item)
