"""Jepsen's kinds of anomalies in plain Python, after `tests/histories/README.md`, on raw entries.

This code uses no tables and no kernels of Logquake: a history is a list of dicts, as in the corpus.
"""

from collections import Counter, defaultdict
from typing import Any

Entry = dict[str, Any]
Key = int
Value = int
Read = set[tuple[Key, Value]]


def completions(entries: list[Entry]) -> list[Entry]:
    """Return the ops as they ended.

    An op that never ended becomes `info`, with its invoked value.
    """
    open_ops: dict[int, Entry] = {}
    ended = []
    for entry in entries:
        if entry["type"] == "invoke":
            open_ops[entry["process"]] = entry
        else:
            asked = open_ops.pop(entry["process"])
            ended.append({**entry, "value": entry["value"] or asked["value"]})
    return ended + [{**entry, "type": "info"} for entry in open_ops.values()]


def sends(op: Entry) -> list[tuple[Key, Value, int | None]]:
    found = []
    for part in op["value"] if op["f"] in ("send", "txn") else []:
        if part[0] == "send":
            offset, value = part[2] if isinstance(part[2], list) else (None, part[2])
            found.append((part[1], value, offset))
    return found


def reads(op: Entry) -> list[tuple[Key, int, Value]]:
    found = []
    for part in op["value"] if op["f"] in ("poll", "txn") else []:
        if part[0] == "poll" and len(part) > 1:
            for key, records in part[1].items():
                found += [(int(key), offset, value) for offset, value in records]
    return found


def kinds(entries: list[Entry]) -> Counter[str]:
    """Return the number of anomalies of each kind that needs neither distances nor cycles."""
    ops = completions(entries)
    read_ok = {(key, value) for op in ops if op["type"] == "ok" for key, _, value in reads(op)}
    log: defaultdict[tuple[Key, int], set[Value]] = defaultdict(set)
    for op in ops:
        for key, offset, value in reads(op):
            log[key, offset].add(value)
        for key, value, told in sends(op) if committed(op, read_ok) else []:
            if told is not None:
                log[key, told].add(value)
    places: defaultdict[tuple[Key, Value], list[int]] = defaultdict(list)
    for (key, offset), values in log.items():
        for value in values:
            places[key, value].append(offset)
    found = of_ops(ops, read_ok)
    found["inconsistent-offsets"] = sum(len(values) > 1 for values in log.values())
    found["duplicate"] = sum(len(offsets) > 1 for offsets in places.values())
    for op in ops:
        for key, value, _ in sends(op) if committed(op, read_ok) else []:
            reached = max((min(places[read]) for read in read_ok if read[0] == key), default=-1)
            at = places.get((key, value), [])
            lost = at and max(at) <= reached and (key, value) not in read_ok
            found["lost-write"] += bool(lost)
    return +found


def committed(op: Entry, read_ok: Read) -> bool:
    seen = any((key, value) in read_ok for key, value, _ in sends(op))
    return op["type"] == "ok" or (op["type"] == "info" and seen)


def of_ops(ops: list[Entry], read_ok: Read) -> Counter[str]:
    """Return the number of anomalies that are visible in the ops alone, without a log."""
    found: Counter[str] = Counter()
    failed = {(key, value) for op in ops if op["type"] == "fail" for key, value, _ in sends(op)}
    for op in ops:
        mine = {(key, value) for key, value, _ in sends(op)}
        got = [(key, value) for key, _, value in reads(op)]
        found["precommitted-read"] += any(each in mine for each in got)
        if op["type"] == "ok":
            found["G1a"] += sum(each in failed for each in got)
            found["unseen"] += sum(each not in read_ok for each in mine)
    return found
