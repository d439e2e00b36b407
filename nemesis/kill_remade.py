"""The fault `kill-remade`: a topic is made again, under its name, while a killed broker is down.

The broker had no time to hand over or to close a log: it finds the deleted topic's as it was. A
broker that loses its disk as well is no part of it (`wipe`). What is made, sent and proven is told
in `nemesis/remade.py`.
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
