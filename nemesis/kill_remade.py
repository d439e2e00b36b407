"""The fault `kill-remade`: a topic is deleted and created again while a killed broker is down.

A killed broker does not hand over leadership and does not close its logs. So after its restart, it
finds the log of the deleted topic unchanged. The broker keeps its replicas (the fault `wipe`
deletes them). For the other steps, see `nemesis/remade.py`.
"""

from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Site
from nemesis.remade import Remade


def kill_remade(aim: Aim, site: Site) -> Remade:
    """Make the fault. The fault kills its targets."""
    return Remade(aim, site, Kill(aim, site))


SAYS = {
    "kill-remade": InWords(
        does=(
            "a topic with records is deleted and created again with the same name, up to three"
            " times, while one of its brokers is down after SIGKILL"
        ),
        injected=(
            "SIGKILL; DeleteTopics; CreateTopics, with this broker in the replica"
            " assignment; Produce"
        ),
        proven=(
            "like `kill`; new topic ids; acknowledged records for each id; ISRs without the broker"
        ),
        undone="like `kill`; the topic stays, and the run checks it like its own topics",
    ),
}
