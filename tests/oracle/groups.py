"""The checks of group coordinators' answers in plain Python, without the kernels."""

from typing import Any

Row = dict[str, Any]
Rows = dict[str, list[Row]]


def wrong_answers(rows: Rows, *, concurrency: int, members: int) -> dict[str, set[int]]:
    """Return the ops that got too low or too high a position of their group from the coordinator.

    Args:
        rows: The tables `commits` and `assignments` of a partition.
        concurrency: The distance between the process numbers of a thread.
        members: The number of consecutive threads that form one group.
    """
    found: dict[str, set[int]] = {"commit-lost": set(), "commit-ahead": set()}
    for fetch in rows["commits"]:
        if fetch["act"] != "fetch" or fetch["outcome"] != "ok":
            continue
        group = _group(fetch, concurrency, members)
        commits = [
            row for row in rows["commits"]
            if row["act"] == "commit" and _group(row, concurrency, members) == group
            and row["asked_ns"] < fetch["told_ns"]
        ]  # fmt: skip
        told = -1 if fetch["offset"] is None else fetch["offset"]
        over = [
            row for row in commits if row["outcome"] == "ok" and row["told_ns"] < fetch["asked_ns"]
        ]
        newest = max((row["asked_ns"] for row in over), default=None)
        if newest is not None:
            possible = [
                row["offset"] for row in commits
                if _over_ns(row, rows["assignments"], concurrency) >= newest
            ]  # fmt: skip
            if told < min(possible):
                found["commit-lost"].add(fetch["op_id"])
        if told > max((row["offset"] for row in commits), default=-1):
            found["commit-ahead"].add(fetch["op_id"])
    return found


def _group(row: Row, concurrency: int, members: int) -> int:
    return int(row["process"]) % concurrency // members


def _over_ns(commit: Row, moves: list[Row], concurrency: int) -> float:
    """Return the time after which a commit can no longer take effect.

    This is the time of its successful answer, or the time at which its process was replaced.
    """
    if commit["outcome"] == "ok":
        return float(commit["told_ns"])
    later = [
        row["time_ns"] for row in moves
        if row["kind"] == "subscribe" and row["process"] > commit["process"]
        and row["process"] % concurrency == commit["process"] % concurrency
    ]  # fmt: skip
    return min(later, default=float("inf"))
