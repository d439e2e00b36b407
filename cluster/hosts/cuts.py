"""Cuts as nft rules: text in, text out.

Each cut is a chain of its own in the receiver's namespace, so that one can be undone without
another. Cuts only count and mark; one further chain drops what is marked. If cuts dropped by
themselves, the second of two cuts over one link would never see a packet, and so could not prove
itself.
"""

import json
import re
import zlib
from collections.abc import Mapping

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
    head = f"type filter hook {hook} priority -10; policy accept;"
    return f"table ip {table} {{\nchain {chain(cut_id)} {{\n{head}\n{rules}}}\n}}\n"


def join_rules(cut_id: str, *, table: str = TABLE, hook: str = INPUT) -> str:
    """Return the nft script that undoes one cut in one receiver's namespace, made there or not."""
    made = cut_rules(cut_id, {}, table=table, hook=hook)
    return f"{made}delete chain ip {table} {chain(cut_id)}\n"


def chain(cut_id: str) -> str:
    """Return the name of a cut's chain: its id in letters that nft accepts, and still unique."""
    return f"cut_{re.sub(r'[^A-Za-z0-9]', '_', cut_id)[:80]}_{zlib.crc32(cut_id.encode()):08x}"


def dropped_packets(listing: str) -> list[tuple[str, int]]:
    """Return (source, packets) of each rule in a listing of a cut's chain by `nft -j`."""
    rules = [item["rule"] for item in json.loads(listing)["nftables"] if "rule" in item]
    return [
        (rule["comment"], part["counter"]["packets"])
        for rule in rules
        for part in rule["expr"]
        if "counter" in part
    ]
