"""The fault `kill-remade`: a topic is deleted and created again while a killed broker is down.

The broker had no time to hand over or to close a log, so it finds the deleted topic's log as it
was. It keeps its disk (`wipe` takes that). `nemesis/remade.py` describes the rest.
"""

from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Site
from nemesis.remade import Remade


def kill_remade(aim: Aim, site: Site) -> Remade:
    """Return the fault; its targets are killed."""
    return Remade(aim, site, Kill(aim, site))


SAYS = {
    "kill-remade": InWords(
        does="a topic with records is deleted and created again under its name, up to three times,"
        " while a broker of it is killed",
        injected="SIGKILL; DeleteTopics, CreateTopics with the broker among the replicas; Produce",
        proven="as `kill`; other topic ids, acknowledged records of each, ISRs without the broker",
        undone="as `kill`; the topic stays, and is judged like the run's own",
    ),
}
