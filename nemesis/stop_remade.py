"""The fault `stop-remade`: a topic is made again, under its name, while a stopped broker is down.

The broker handed over what it led and closed its logs, so that it does not recover any of them at
its start. What is made, sent and proven is told in `nemesis/remade.py`.
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
