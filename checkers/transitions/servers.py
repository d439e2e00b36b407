"""Brokers that ended though no fault had stopped or killed them.

From the milestone `broker-ended`: its exit code, as `checkers.broker_ended` reads it. A broker that
ends while its disk is full or fails does what is its right, and is counted by itself.

What would not prove it: a signal from outside, which says nothing of the broker; an end after the
broker was told to stop.
"""

from checkers.broker_ended import ends
from checkers.group import Group
from checkers.transitions.causes import DISK_FAULT, harms_to
from checkers.transitions.events import Places, end_of_run_ns


def find(group: Group, places: Places) -> None:
    """Add the ends of brokers."""
    events, facts = places.at(""), group.facts
    for end in ends(facts):
        if end.outside or end.told or end.seen_ns >= end_of_run_ns(facts):
            continue
        if DISK_FAULT in harms_to(facts, end.node, (end.seen_ns, end.seen_ns)):
            events.add("broker/exited-after-disk-fault", end.seen_ns)
        else:
            events.add(f"broker/{'crashed' if end.signalled else 'exited'}", end.seen_ns)
