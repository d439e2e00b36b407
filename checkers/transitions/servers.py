"""Find brokers that ended although no fault had stopped or killed them.

The source is the milestone `broker-ended`, which contains the exit code. `checkers.broker_ended`
reads this milestone. A broker may end while its disk is full, or while the disk fails. Such an end
is expected, and is counted separately.

What would not prove it: a signal from outside, which shows nothing about the broker. The end of a
broker that had been asked to stop.
"""

from checkers.broker_ended import ends
from checkers.group import Group
from checkers.transitions.causes import DISK_FAULT, harms_to
from checkers.transitions.events import Places, end_of_run_ns


def find(group: Group, places: Places) -> None:
    """Add the brokers that ended by themselves to the transitions in `places`."""
    events, facts = places.at(""), group.facts
    for end in ends(facts):
        if end.outside or end.told or end.seen_ns >= end_of_run_ns(facts):
            continue
        if DISK_FAULT in harms_to(facts, end.node, (end.seen_ns, end.seen_ns)):
            events.add("broker/exited-after-disk-fault", end.seen_ns)
        else:
            events.add(f"broker/{'crashed' if end.signalled else 'exited'}", end.seen_ns)
