"""What some rows reached, as plain values."""

from checkers.group import Group
from checkers.transitions.tables import reached
from results.record.transitions import TRANSITIONS, area_of


def counts(group: Group, *areas: str) -> dict[str, int]:
    """Return how often each transition of some areas happened, all places together."""
    found: dict[str, int] = {}
    for row in reached(group)["transitions"].to_pylist():
        assert row["transition"] in TRANSITIONS
        if area_of(row["transition"]) in areas:
            found[row["transition"]] = found.get(row["transition"], 0) + row["count"]
    return found


def firsts(group: Group, *areas: str) -> dict[str, int | None]:
    """Return when each transition of some areas happened first."""
    return {
        row["transition"]: row["first_ns"]
        for row in reached(group)["transitions"].to_pylist()
        if area_of(row["transition"]) in areas
    }


def pairs(group: Group) -> dict[tuple[str, str], int]:
    """Return how often each pair followed each other, all places together."""
    found: dict[tuple[str, str], int] = {}
    for row in reached(group)["successions"].to_pylist():
        key = row["before"], row["after"]
        found[key] = found.get(key, 0) + row["count"]
    return found
