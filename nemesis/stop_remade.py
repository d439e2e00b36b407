"""The fault `stop-remade`: a topic is deleted and created again while a stopped broker is down.

The broker handed over its leaderships and closed its logs, so it recovers none of them at its
start. `nemesis/remade.py` describes the rest.
"""

from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.remade import Remade
from nemesis.stop import Stop


def stop_remade(aim: Aim, site: Site) -> Remade:
    """Return the fault; its targets are stopped in order."""
    return Remade(aim, site, Stop(aim, site))


SAYS = {
    "stop-remade": InWords(
        does="a topic with records is deleted and created again under its name, up to three times,"
        " while a broker of it is stopped",
        injected="SIGTERM; DeleteTopics, CreateTopics with the broker among the replicas; Produce",
        proven="as `stop`; other topic ids, acknowledged records of each, ISRs without the broker",
        undone="as `stop`; the topic stays, and is judged like the run's own",
    ),
}
