"""How a follower truncates its log: three rules from Kafka's history.

- `high-watermark` (before KIP-101): a new follower truncates to its own high watermark, which may
  be too low.
- `leader-epoch-v0` (KIP-101): a new follower truncates to where its last epoch ends in the leader's
  log.
- `leader-epoch`: the leader also reports the epoch of that end (KIP-279), in the response to a
  fetch (KIP-595). The follower truncates and fetches again until both logs agree.
"""

from cluster.reference.bugs import Bug
from cluster.reference.machine import Effect, Say
from cluster.reference.messages.data import UNKNOWN, EpochEnd, FetchedPartition
from cluster.reference.partition.partition import Partition
from cluster.reference.settings import Settings, Truncation


def rule_of(settings: Settings) -> Truncation:
    """Return the rule by which a node's followers truncate."""
    rule = settings.truncation
    if Bug.TRUNCATE_TO_HIGH_WATERMARK in settings.bugs:
        rule = Truncation.HIGH_WATERMARK  # The bug: truncate as before KIP-101.
    return rule


def truncate_to_high_watermark(partition: Partition, *, me: int, out: list[Effect]) -> None:
    """Truncate a follower's log to its own high watermark.

    This may lose committed records: see KIP-101's examples 1 and 2.
    """
    why = f"local high watermark {partition.high_watermark}"
    text = f"Truncating partition {partition.log.folder} to {why}"
    out.append(Say(text=f"{_fetcher(partition, me)} {text}"))
    _truncate(partition, partition.high_watermark, out)


def truncate_to_epoch_end(
    partition: Partition, answer: EpochEnd, *, me: int, out: list[Effect]
) -> None:
    """Truncate to where the follower's last epoch ends in the leader's log (KIP-101).

    In this first version of the protocol, the leader's response contains no epoch. So the follower
    may keep records of epochs that the leader never had (KIP-279).
    """
    if answer.end_offset == UNKNOWN:
        truncate_to_high_watermark(partition, me=me, out=out)
        return
    offset = min(answer.end_offset, partition.log.end_offset)
    told = (partition.log.last_epoch, answer.end_offset)
    out.append(Say(text=_reason(partition, offset, told, me=me)))
    _truncate(partition, offset, out)


def truncate_to_agreement(
    partition: Partition, told: FetchedPartition, *, me: int, out: list[Effect]
) -> None:
    """Truncate to where a fetch response shows that the logs diverge (KIP-595).

    The leader reports its largest epoch that is not above the follower's last epoch. If the
    follower has that epoch, it compares where the epoch ends in both logs, and truncates to the
    smaller end. If not, it removes all later epochs, and its next fetch names an earlier epoch
    (KIP-279).
    """
    epoch, end = told.diverging_epoch, told.diverging_end_offset
    mine, my_end = partition.log.end_of(epoch)
    if mine == epoch:
        offset = min(end, my_end, partition.log.end_offset)
    elif mine == UNKNOWN:
        offset = min(end, partition.log.end_offset)
    else:
        offset = min(my_end, partition.log.end_offset)
    out.append(Say(text=_reason(partition, offset, (epoch, end), me=me)))
    _truncate(partition, offset, out)


def truncate_to_leaders_log(
    partition: Partition, leader_start: int, leader_end: int, *, me: int, out: list[Effect]
) -> None:
    """A fetch was out of range: as in Kafka, move this log's end into the leader's range."""
    log = partition.log
    if leader_end < log.end_offset:
        reset = f"from {log.end_offset} to current leader's latest offset {leader_end}"
        text = f"Reset fetch offset for partition {log.folder} {reset}"
        out.append(Say(text=f"{_fetcher(partition, me)} {text}"))
        _truncate(partition, leader_end, out)
    elif leader_start > log.end_offset:
        out.append(Say(text=f"{_log(partition)} Truncate and start at offset {leader_start}"))
        log.restart_at(leader_start, out=out)
        partition.high_watermark = leader_start


def _truncate(partition: Partition, offset: int, out: list[Effect]) -> None:
    log = partition.log
    if offset >= log.end_offset:
        out.append(
            Say(
                text=f"{_log(partition)} Truncating to {offset} has no effect as the largest offset"
                f" in the log is {log.end_offset - 1}"
            )
        )
    else:
        if offset < partition.high_watermark:
            out.append(
                Say(
                    text=f"Truncating {log.folder} to offset {offset} below high watermark"
                    f" {partition.high_watermark}"
                )
            )
        out.append(Say(text=f"{_log(partition)} Truncating to offset {offset}"))
    log.truncate(offset, out=out)
    partition.lower_high_watermark_to_end()


def _reason(partition: Partition, offset: int, told: tuple[int, int], *, me: int) -> str:
    epoch, end = told
    return (
        f"{_fetcher(partition, me)} Truncating partition {partition.log.folder} with"
        f" TruncationState(offset={offset}, completed=true) due to leader epoch and offset"
        f" EpochEndOffset(errorCode=0, partition={partition.state.partition},"
        f" leaderEpoch={epoch}, endOffset={end})"
    )


def _fetcher(partition: Partition, me: int) -> str:
    return f"[ReplicaFetcher replicaId={me}, leaderId={partition.state.leader}, fetcherId=0]"


def _log(partition: Partition) -> str:
    return f"[UnifiedLog partition={partition.log.folder}]"
