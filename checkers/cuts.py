"""Find the truncations that may have dropped a record."""

from checkers.acknowledger import Acked, acknowledgers, looks_at, moved, read_whole
from checkers.columns import NONE
from checkers.group import Group, once
from checkers.successors import holders, next_leader, was_spared
from checkers.witnesses import Truncation, by_node, truncations_of, which_cut


@once
def may_have_dropped(group: Group, record: Acked) -> list[Truncation]:
    """Return the truncations that may have dropped a record, the last leader's first.

    If a log ended above the record's offset before the send, that log held another record at the
    offset. If such a log was truncated only once at this offset, that truncation dropped the other
    record, not this one. This rule needs a node whose files were all read, and a partition without
    disk losses. The rule does not apply after a reassignment or a wipe.

    A log line such as "epoch 0 ends at offset 629" does not show the epoch of the dropped records.
    The line names the last epoch that both logs have.
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
    """Return whether a log's only truncation at the offset dropped another record.

    The log ended above the offset before the send, and was truncated only once at this offset.
    """
    before = [end for at_ns, end in looks_at(group, node) if at_ns <= record.sent_ns]
    ever = [cut for cut in truncations_of(group, record.offset) if cut.node == node]
    return before[-1:] > [record.offset] and len(ever) == 1


@once
def nodes_that_had(group: Group, record: Acked) -> set[str]:
    """Return the nodes that certainly had a record.

    A copy of the node's log has the record, or the log grew beyond the record's offset before the
    next leader's epoch can have begun. The only possible acknowledger counts, too.
    """
    by = acknowledgers(group, record)
    then = next_leader(group, record, by)
    return holders(group, record, by, then.not_before_ns if then else NONE)


def cut_off(group: Group, record: Acked) -> str:
    """Return a phrase that names the nodes which truncated a record, or may have truncated it.

    Return "" if there are no such nodes.

    If some of these nodes certainly had the record, only these nodes are named. Otherwise, the
    phrase names all nodes that may have had the record.
    """
    cuts = may_have_dropped(group, record)
    known = nodes_that_had(group, record) if cuts else set()
    if mine := [cut for cut in cuts if cut.node in known]:
        return f"was truncated: {which_cut(mine, record.offset)}"
    return f"may have been truncated: {which_cut(cuts, record.offset)}" if cuts else ""


def told_cuts(group: Group, record: Acked) -> list[str]:
    """Return the nodes that truncated a record, for a sentence: at most two nodes.

    The lines of brokers' logs do not show the time since the run's start. So a truncation that
    began at a lower offset may be older than the record. The node of such a truncation is named in
    two cases: there are no other nodes, or the node certainly had the record. With acks=1, the
    other nodes may never have had the record.
    """
    cuts, known = may_have_dropped(group, record), nodes_that_had(group, record)
    mine = [
        cut
        for cut in cuts
        if cut.node in known or (cut.from_offset == record.offset and not record.weak)
    ]
    return by_node(mine or cuts, record.offset)
