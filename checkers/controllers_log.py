"""The records about a partition in the controllers' log (the KRaft metadata log), from all copies.

Each controller and each broker has a copy. A record counts if it is committed and all copies that
reach its offset agree. If copies differ, one copy is wrong, but nothing shows which copy.
`metadata-divergence` reports such a difference. The controllers may still be right. If the
committed end of the log is unknown, no record counts.
"""

from dataclasses import dataclass

from checkers.columns import equal, ints, present, select, texts
from checkers.group import Group, once
from results.record.terms import Source

CONTROLLERS_LOG = Source.METADATA_LOG

_Written = tuple[int, int, tuple[int, ...], bool]
"""The leader, its epoch, the ISR, and whether the election was unclean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record about a partition in the controllers' log.

    Attributes:
        offset: The offset of that record.
        leader, epoch, isr: The partition's leader, leader epoch and ISR from this record on. A
            leader of -1 means that there is no leader.
        unclean: Whether the election was unclean: the new leader was in neither the ISR nor the ELR
            before this record.
        follows: Whether this entry follows the previous entry without a disputed record in between.
    """

    offset: int
    leader: int
    epoch: int
    isr: tuple[int, ...]
    unclean: bool
    follows: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The controllers' log of a partition.

    Attributes:
        copies: The nodes with a copy that has a record of the partition, committed or not.
        entries: The records on which all copies agree, in order.
        disputed: The offsets of the records on which copies differ.
    """

    copies: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    disputed: tuple[int, ...] = ()


def controllers_log(group: Group) -> Log:
    """Return the committed records about a partition in the controllers' log."""
    return group.view(_controllers_log)


def entries(group: Group) -> tuple[Entry, ...]:
    """Return the records on which all copies of the controllers' log agree, in order."""
    return controllers_log(group).entries


def undisputed(group: Group) -> tuple[Entry, ...]:
    """Return all records of the partition, or none if some are disputed.

    So if the result is not empty, it has all committed records from its first record on. Older
    records may be in a snapshot.
    """
    log = controllers_log(group)
    return () if log.disputed else log.entries


def elected(group: Group, epoch: int) -> Entry | None:
    """Return the record of the election that began an epoch; None if the leader is not certain."""
    led = [each for each in entries(group) if each.epoch == epoch and each.leader >= 0]
    sure = len({each.leader for each in led}) == 1 and led[0].follows
    return led[0] if sure else None


@once
def isr_before(group: Group, epoch: int) -> frozenset[int] | None:
    """Return the ISR just before the election that began an epoch; None if unknown."""
    written = entries(group)
    at = next(
        (at for at, each in enumerate(written) if each.epoch == epoch and each.leader >= 0), 0
    )
    return frozenset(written[at - 1].isr) if at and written[at].follows else None


def _controllers_log(group: Group) -> Log:
    copies, mark = _copies(group), group.facts.quorum_high_watermark or 0
    ends = {node: _end(group, node, copy) for node, copy in copies.items()}
    found, disputed, follows = list[Entry](), list[int](), True
    for offset in sorted({place for copy in copies.values() for place in copy if place < mark}):
        told = [
            copy.get(offset, set())
            for node, copy in copies.items()
            if min(copy) <= offset <= ends[node]
        ]
        written = set[_Written]().union(*told)
        if len(written) == 1 and all(told):
            ((leader, epoch, isr, unclean),) = written
            found.append(
                Entry(
                    offset=offset, leader=leader, epoch=epoch, isr=isr, unclean=unclean,
                    follows=follows,
                )
            )  # fmt: skip
        else:
            disputed.append(offset)
        follows = offset not in disputed
    return Log(copies=tuple(sorted(copies)), entries=tuple(found), disputed=tuple(disputed))


def _copies(group: Group) -> dict[str, dict[int, set[_Written]]]:
    """Return each node's copy of the log: for each offset, its records: several if reads differ."""
    rows = group.table("leadership")
    log = select(rows, equal(rows, "source", CONTROLLERS_LOG) & present(rows, "isr"))
    log = select(log, ints(log, "log_offset") >= 0)
    columns = (ints(log, name).tolist() for name in ("log_offset", "leader", "leader_epoch"))
    lists = (log[name].to_pylist() for name in ("isr", "unclean"))
    found: dict[str, dict[int, set[_Written]]] = {}
    for node, offset, leader, epoch, isr, unclean in zip(
        texts(log, "observer"), *columns, *lists, strict=True
    ):
        at = found.setdefault(node, {}).setdefault(offset, set())
        at.add((leader, epoch, tuple(isr), bool(unclean)))
    return found


def _end(group: Group, node: str, copy: dict[int, set[_Written]]) -> int:
    """Return the last offset that a node's copy of the log certainly reaches.

    The result is at least the copy's last record of the partition. If the node's files were read to
    their ends, the copy also reaches each committed record that the node had fetched according to a
    leader's answer.
    """
    whole = node in group.facts.collected_nodes - group.facts.unreadable_nodes
    return max(*copy, group.facts.quorum.marks.get(node, 0) - 1 if whole else 0)
