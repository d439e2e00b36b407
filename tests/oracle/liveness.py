"""The liveness checks after the last heal, in plain Python, without the kernels.

Rows are those of one partition. Times are in nanoseconds, budgets in seconds.
"""

from typing import Any

Row = dict[str, Any]
S = 1_000_000_000


def outages(
    sends: list[Row], calm_ns: int, *, budget_s: float, last_ns: int
) -> list[tuple[int, int, int]]:
    """Return the outages after the heal, i.e. periods in which all sends failed.

    Each has its first second and its last second since the heal, and the number of seconds with a
    send.
    """
    tried: set[int] = set()
    succeeded: set[int] = set()
    for send in sends:
        refused = (send["error"] or "").startswith(("_QUEUE_FULL", "_FATAL", "_STATE"))
        if send["invoke_ns"] is None or refused:
            continue
        begun = _second(send["invoke_ns"], calm_ns, last_ns)
        ended = begun
        if send["complete_ns"] is not None:
            ended = max(begun, _second(send["complete_ns"], calm_ns, last_ns))
            whole = _second(send["complete_ns"], calm_ns, last_ns) >= begun
            if whole and (send["acked"] or send["outcome"] == "ok"):
                succeeded.add(ended)
        tried |= set(range(begun, ended + 1))
    found = []
    stretch: list[int] = []
    over = max(tried, default=-1) + 1
    for second in range(over + 1):
        if second in succeeded or second == over:
            if len(stretch) - 2 >= budget_s:
                found.append((stretch[0], stretch[-1], len(stretch)))
            stretch = []
        elif second in tried:
            stretch.append(second)
    return found


def _second(time_ns: int, calm_ns: int, last_ns: int) -> int:
    return max((min(time_ns, last_ns) - calm_ns) // S, -1)


def vacancies(rows: dict[str, list[Row]], calm_ns: int, *, budget_s: float) -> list[Row]:
    """Return the periods in which no evidence shows a leader, as `from_ns` and `to_ns`."""
    looked = [
        row
        for row in rows["leadership"]
        if row["source"] in {"list-offsets", "metadata", "zookeeper"}
        and row["observed_ns"] is not None
    ]
    last_ns = max((row["observed_ns"] for row in looked), default=-1)
    times = [
        row["complete_ns"]
        for row in [*(row for row in rows["sends"] if row["acked"]), *_returned(rows["polls"])]
        if row["complete_ns"] is not None
    ]
    signs = [(last_ns, last_ns), *((at, at) for at in times), *_led(looked)]
    found = []
    known_ns = calm_ns
    for begin, end in sorted(signs):
        until_ns = min(begin, last_ns)
        if until_ns - known_ns > budget_s * S:
            found.append({"from_ns": known_ns, "to_ns": until_ns})
        known_ns = max(known_ns, end)
    return found


def _returned(polls: list[Row]) -> list[Row]:
    return [row for row in polls if row["offset"] is not None]


def _led(looked: list[Row]) -> list[tuple[int, int]]:
    """Return the periods in which brokers answered as leaders, or ZooKeeper named a leader."""
    named = sorted((row for row in looked if row["source"] == "zookeeper"), key=_observed)
    spans = [
        (row["observed_ns"], after["observed_ns"])
        for row, after in zip(named, [*named[1:], *named[-1:]], strict=True)
        if row["leader"] >= 0
    ]
    claims = sorted(
        (row["leader_epoch"], row["leader"], row["observed_ns"], _asked(row))
        for row in looked
        if row["source"] == "list-offsets" and row["leader"] >= 0
    )
    for at, (epoch, leader, observed, asked) in enumerate(claims):
        spans.append((asked, observed))
        for other_epoch, other, _, again in claims[at + 1 : at + 2]:
            if (other_epoch, other) == (epoch, leader) and again - observed <= 3 * S:
                spans.append((observed, again))
    return spans


def _asked(row: Row) -> int:
    return int(row["observed_ns"] if row["asked_ns"] is None else row["asked_ns"])


def _observed(row: Row) -> int:
    return int(row["observed_ns"])


def isr_not_restored(
    leadership: list[Row], calm_ns: int, *, members: int, budget_s: float
) -> str | None:
    """Return `late` if the ISR was not full in time, `gap` if this is unknown, otherwise None."""
    told = [
        row for row in leadership if row["isr"] is not None and row["observed_ns"] is not None
    ]  # fmt: skip
    if any(row["source"] == "zookeeper" for row in told):
        told = [row for row in told if row["source"] == "zookeeper"]
    else:
        told = [row for row in told if row["source"] == "metadata"]
    if not told:
        return None
    reports = [
        row for row in leadership
        if row["observed_ns"] is not None and row["source"] == told[0]["source"]
    ]  # fmt: skip
    told = [row for row in told if row["observer"] == f"n{row['leader']}"] or told
    looked = [row for row in leadership if row["observed_ns"] is not None]
    if told[0]["source"] == "zookeeper":
        looked = [row for row in looked if row["source"] == "zookeeper"]
    last_ns = max(row["observed_ns"] for row in looked)
    newest = sorted(_current(told), key=lambda row: (row["observed_ns"], _newest(row)))
    standing = [row for row in newest if row["observed_ns"] <= calm_ns][-1:]
    after = [*standing, *(row for row in newest if row["observed_ns"] > calm_ns)]
    small_from: int | None = None
    in_time = was_full = False
    for at, row in enumerate(after):
        if len(row["isr"]) >= members:
            was_full |= row["observed_ns"] <= calm_ns + budget_s * S
            small_from = None
            continue
        if small_from is None:
            small_from = calm_ns if at == 0 else row["observed_ns"]
            in_time = row["observed_ns"] <= small_from + budget_s * S
        follows = after[at + 1 : at + 2]
        if follows and len(follows[0]["isr"]) < members:
            continue
        until = follows[0]["observed_ns"] if follows else last_ns
        newer = [each["observed_ns"] for each in reports if _newest(each)[0] > _newest(row)[0]]
        until = min([until, *newer])
        if in_time and until - small_from > budget_s * S:
            return "late"
    all_ns = max(row["observed_ns"] for row in leadership if row["observed_ns"] is not None)
    lost = told[0]["source"] == "zookeeper" and all_ns > last_ns + 10 * S
    ended = last_ns < calm_ns + (budget_s * S if lost else 0)
    return None if was_full and not ended else "gap"


def _current(told: list[Row]) -> list[Row]:
    """Return the reports without those that follow a report of a later epoch."""
    return [
        row
        for row in told
        if not any(
            other["observed_ns"] <= row["observed_ns"] and _newest(other)[0] > _newest(row)[0]
            for other in told
        )
    ]


def _newest(row: Row) -> tuple[int, int]:
    epoch = row["leader_epoch"]
    return (-1 if epoch is None else epoch), row["observed_ns"]
