"""The fault `stop-remade`: a topic is deleted and created again while a stopped broker is down.

The broker has handed over its leaderships and closed its logs, so it recovers no log at its start.
For the other steps, see `nemesis/remade.py`.
"""

from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.remade import Remade
from nemesis.stop import Stop


def stop_remade(aim: Aim, site: Site) -> Remade:
    """Make the fault. Its targets are stopped in order."""
    return Remade(aim, site, Stop(aim, site))


SAYS = {
    "stop-remade": InWords(
        does=(
            "a topic with records is deleted and created again with the same name, up to three"
            " times, while one of its brokers is stopped"
        ),
        injected=(
            "SIGTERM; DeleteTopics; CreateTopics, with this broker in the replica"
            " assignment; Produce"
        ),
        proven=(
            "like `stop`; new topic ids; acknowledged records for each id; ISRs without the broker"
        ),
        undone="like `stop`; the topic stays, and the run checks it like its own topics",
    ),
}
