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
chain drop_marked {
type filter hook input priority 0; policy accept;
meta mark MARK drop
}
}
"""


def drop_marked(table: str = TABLE) -> str:
    """Return the nft script of the chain that drops."""
    return _DROP_MARKED.replace("TABLE", table).replace("MARK", MARK)


def cut_rules(cut_id: str, addresses: Mapping[str, str], *, table: str = TABLE) -> str:
    """Return the nft script of one cut in one receiver's namespace.

    Args:
        cut_id: The cut; its chain is made if there is none.
        addresses: Of the sources, by their names.
        table: The run's table there.
    """
    rules = "".join(
        f'ip saddr {address} counter meta mark set {MARK} comment "{source}"\n'
        for source, address in addresses.items()
    )
    hook = "type filter hook input priority -10; policy accept;"
    return f"table ip {table} {{\nchain {chain(cut_id)} {{\n{hook}\n{rules}}}\n}}\n"


def join_rules(cut_id: str, *, table: str = TABLE) -> str:
    """Return the nft script that undoes one cut in one receiver's namespace, made there or not."""
    return f"{cut_rules(cut_id, {}, table=table)}delete chain ip {table} {chain(cut_id)}\n"


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
