"""The checks of the controllers' log and votes, in plain Python, without the kernels."""

from itertools import combinations
from typing import Any

Row = dict[str, Any]


def committed_up_to(states: list[Row]) -> dict[str, int]:
    """Return, by node, the offset up to which a leader reported the log as committed."""
    marks: dict[str, int] = {}
    for row in states:
        if row["high_watermark"] is not None and row["log_end_offset"] is not None:
            mark = min(row["high_watermark"], row["log_end_offset"])
            marks[row["node"]] = max(marks.get(row["node"], 0), mark)
    return marks


def starts(replicas: list[Row]) -> dict[str, int]:
    """Return the first offset of each node's log."""
    return {row["node"]: row["log_start_offset"] for row in replicas}


def metadata_divergences(
    states: list[Row], records: list[Row], replicas: list[Row]
) -> dict[tuple[str, str], list[int]]:
    """Return, for two nodes each, the committed offsets at which their final logs differ."""
    marks = committed_up_to(states)
    begins = starts(replicas)
    logs: dict[str, dict[int, Row]] = {node: {} for node in begins}
    for row in records:
        logs[row["node"]][row["offset"]] = row
    found = {}
    for one, other in combinations(sorted(marks.keys() & logs.keys()), 2):
        differing = [
            at
            for at in range(max(begins[one], begins[other]), min(marks[one], marks[other]))
            if _what(logs[one].get(at)) != _what(logs[other].get(at))
        ]
        if differing:
            found[one, other] = differing
    return found


def _what(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else (row["leader_epoch"], row["record_hash"], row["control"])


def double_votes(states: list[Row]) -> set[tuple[str, int]]:
    """Return the nodes that voted for two candidates in one epoch: (node, epoch)."""
    votes = [row for row in states if row["voted_for"] is not None]
    return {
        (one["node"], one["epoch"])
        for one, other in combinations(votes, 2)
        if (one["node"], one["epoch"]) == (other["node"], other["epoch"])
        and (
            one["voted_for"] != other["voted_for"]
            or (
                None not in {one["voted_directory"], other["voted_directory"]}
                and one["voted_directory"] != other["voted_directory"]
            )
        )
    }


def incomplete_leaders(states: list[Row], records: list[Row]) -> dict[int, int]:
    """Return, by epoch, the first offset of each epoch that began below a known high watermark."""
    begun: dict[int, int] = {}
    for row in records:
        epoch = row["leader_epoch"]
        begun[epoch] = min(begun.get(epoch, row["offset"]), row["offset"])
    found = {}
    for epoch, start in begun.items():
        for row in states:
            told = row["high_watermark"]
            if told is not None and row["epoch"] < epoch and start < told:
                found[epoch] = start
    return found
