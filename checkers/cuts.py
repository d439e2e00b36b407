"""Which truncations can have dropped a record, and whether the logs that had it were cut."""

from checkers.acknowledger import Acked, acknowledgers, looks_at, moved, read_whole
from checkers.columns import NONE
from checkers.group import Group, once
from checkers.successors import holders, next_leader, was_spared
from checkers.witnesses import Truncation, by_node, truncations_of, which_cut


@once
def may_have_dropped(group: Group, record: Acked) -> list[Truncation]:
    """Return the truncations that may have dropped a record, the last leader's first.

    A log that ended beyond the offset before the send had another record there. Its only truncation
    there dropped that one: without a second one, this record never came to stand there.

    A line's "epoch 0 ends at offset 629" does not tell of which epoch the dropped records are: the
    leader names the last epoch that both logs have.
    """
    cuts = truncations_of(group, record.offset, since_ns=record.sent_ns)
    sure = was_spared(group) and not moved(group)
    innocent = {
        node
        for node in {cut.node for cut in cuts}
        if sure and read_whole(group, node) and _held_another(group, record, node)
    }
    return [cut for cut in cuts if cut.node not in innocent]


def _held_another(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a log was beyond a record's offset before its send, and was cut there once."""
    before = [end for at_ns, end in looks_at(group, node) if at_ns <= record.sent_ns]
    ever = [cut for cut in truncations_of(group, record.offset) if cut.node == node]
    return before[-1:] > [record.offset] and len(ever) == 1


@once
def nodes_that_had(group: Group, record: Acked) -> set[str]:
    """Return the nodes that had a record before another leader can have come, as far as is seen."""
    by = acknowledgers(group, record)
    then = next_leader(group, record, by)
    return holders(group, record, by, then.not_before_ns if then else NONE)


def cut_off(group: Group, record: Acked) -> str:
    """Return for people that a record was cut off, and by whom; empty: nobody can have done it.

    Nodes that had the record are told; without such, all that may have had it.
    """
    cuts = may_have_dropped(group, record)
    known = nodes_that_had(group, record) if cuts else set()
    if mine := [cut for cut in cuts if cut.node in known]:
        return f"was cut off: {which_cut(mine, record.offset)}"
    return f"may have been cut off: {which_cut(cuts, record.offset)}" if cuts else ""


def told_cuts(group: Group, record: Acked) -> list[str]:
    """Return who truncated a record, by node, for a sentence: two nodes at most.

    The lines of brokers' logs have no time of the run. A lower cut of a node that was not seen to
    have the record may be an older one: it is told only if there are no others. With acks=1 no
    other node needs to have had it at all.
    """
    cuts, known = may_have_dropped(group, record), nodes_that_had(group, record)
    mine = [
        cut
        for cut in cuts
        if cut.node in known or (cut.from_offset == record.offset and not record.weak)
    ]
    return by_node(mine or cuts, record.offset)
