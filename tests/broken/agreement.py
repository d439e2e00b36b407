"""Rules by which the tables and the files of a record say the same of one thing."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePath

from cluster.files.checkpoints import leader_epochs, offset_checkpoint, quorum_state
from tests.broken.causality import MILESTONES, Facts, Place, is_quorum, place_of, rule
from tests.broken.record import Row

_FOLLOWED = re.compile(r"follower of broker (\d+): epoch (\d+) ends at offset (\d+) there")
_DISKS = ("power-loss", "unclean-election", "disk-loss", "wipe")


@rule("leadership")
def answers_unlike_the_controllers(facts: Facts) -> Iterator[str]:
    """Each leader, epoch and ISR that a broker names is one that the controllers gave."""
    given = {
        (place, row["leader_epoch"], row["leader"])
        for place, rows in facts.changes.items()
        for row in rows
    }
    isrs = {
        (place, row["leader_epoch"], frozenset(row["isr"] or ()))
        for place, rows in facts.changes.items()
        for row in rows
    }
    for row in facts.record.rows("leadership"):
        place = place_of(row)
        if row["source"] == "metadata-log":
            continue
        if (place, row["leader_epoch"], row["leader"]) not in given:
            yield (
                f"{row['observer']} told ({row['source']}) leader {row['leader']} in epoch"
                f" {row['leader_epoch']} of {place} at {row['asked_ns']}"
            )
        told = (place, row["leader_epoch"], frozenset(row["isr"] or ()))
        if row["isr"] is not None and told not in isrs:
            yield (
                f"{row['observer']} told ({row['source']}) the ISR {row['isr']} in epoch"
                f" {row['leader_epoch']} of {place} at {row['asked_ns']}"
            )


@rule("leadership")
def logged_leaders(facts: Facts) -> Iterator[str]:
    """Who answers as a leader has logged that it became one, in that epoch."""
    logged = {
        (place_of(row), row["observer"], row["leader_epoch"], row["leader"])
        for row in facts.record.rows("leadership", source="state-change-log")
    }
    for row in facts.record.rows("leadership", source="list-offsets"):
        key = (place_of(row), row["observer"], row["leader_epoch"], row["leader"])
        if key not in logged:
            yield f"{key[1]} answered as leader of {key[0]} in epoch {key[2]}, and did not log it"


@rule("leadership", "replica_records")
def order_of_the_controllers_log(facts: Facts) -> Iterator[str]:
    """Epochs grow in the controllers' log, and each offset of it is one change."""
    taken: dict[int, Place] = {}
    for place, rows in facts.changes.items():
        for row, after in pairwise(rows):
            if after["leader_epoch"] < row["leader_epoch"]:
                yield f"epoch {after['leader_epoch']} of {place} follows {row['leader_epoch']}"
        for row in rows:
            if taken.setdefault(row["log_offset"], place) != place:
                yield f"offset {row['log_offset']} of the controllers' log is of two partitions"
    ends = {
        node: rows[-1]["offset"] for (place, node), rows in facts.logs.items() if is_quorum(place)
    }
    for row in facts.record.rows("leadership", source="metadata-log"):
        if row["log_offset"] > ends.get(row["observer"], -1):
            yield f"{row['observer']} has no offset {row['log_offset']} of the controllers' log"


@rule("replica_states", "replica_records", MILESTONES)
def epochs_of_records(facts: Facts) -> Iterator[str]:
    """After a clean stop the epochs' checkpoint says of each record what the record says."""
    (stopped,) = [each for each in facts.record.milestones if each["name"] == "stopped"]
    for state in facts.finals:
        place, node = place_of(state), state["node"]
        if stopped["detail"].get(node) != "clean":
            continue
        lines = [(line["start_offset"], line["epoch"]) for line in state["epochs"] or ()]
        if any(start > state["log_end_offset"] for start, _ in lines):
            yield f"{node}'s epochs of {place} begin behind its end: {lines}"
        if lines and lines[0][0] < state["log_start_offset"]:
            yield f"{node}'s epochs of {place} begin before its start: {lines}"
        for row in facts.logs.get((place, node), ()):
            epoch = max((line for line in lines if line[0] <= row["offset"]), default=(0, None))[1]
            if row["leader_epoch"] != epoch:
                yield (
                    f"offset {row['offset']} of {place} on {node} has epoch {row['leader_epoch']},"
                    f" by its checkpoint {epoch}"
                )
                break


@rule("leadership", "replica_records")
def epochs_without_a_leader(facts: Facts) -> Iterator[str]:
    """Each epoch that a record has is one that the controllers gave to a leader."""
    given = {
        (place, row["leader_epoch"])
        for place, rows in facts.changes.items()
        for row in rows
        if row["leader"] >= 0
    }
    for (place, node), rows in facts.logs.items():
        unknown = {row["leader_epoch"] for row in rows if (place, row["leader_epoch"]) not in given}
        if unknown:
            yield f"{node} has records of epochs {sorted(unknown)} of {place}, which had no leader"


@rule("replica_states", "replica_records")
def ends_of_logs(facts: Facts) -> Iterator[str]:
    """The files' ends are those of the records; the high watermark lies between them."""
    for state in facts.finals:
        names = ("log_start_offset", "high_watermark", "log_end_offset")
        marks = [state[name] for name in names if state[name] is not None]
        if marks != sorted(marks):
            yield f"{state['node']}'s files give {place_of(state)} the marks {marks}"
        rows = facts.logs.get((place_of(state), state["node"]))
        if rows is None:
            if state["log_end_offset"] > state["log_start_offset"]:
                yield f"{state['node']}'s files tell of {place_of(state)}, and there are no records"
            continue
        first, end = rows[0]["offset"], rows[-1]["offset"] + 1
        start, stop = state["log_start_offset"], state["log_end_offset"]
        # A cleaner may have taken the first records, and the last.
        if (
            not (start <= first and end <= stop)
            if facts.compacted
            else (start, stop) != (first, end)
        ):
            yield (
                f"{state['node']}'s files have {place_of(state)} reach from"
                f" {state['log_start_offset']} to {state['log_end_offset']}, its records from"
                f" {first} to {end}"
            )


@rule("replica_states", "truncations", "faults")
def logs_that_shrink(facts: Facts) -> Iterator[str]:
    """A log's end goes back only by a truncation that is recorded, or with its disk."""
    cut = {
        (place_of(row), row["node"], row["from_offset"]) for row in facts.record.rows("truncations")
    }
    told: dict[tuple[Place, str], list[Row]] = {}
    for row in facts.record.rows("replica_states"):
        if row["log_end_offset"] is not None and not is_quorum(place_of(row)):
            told.setdefault((place_of(row), row["node"]), []).append(row)
    for (place, node), rows in told.items():
        rows.sort(key=lambda row: int(row["observed_ns"] or 1 << 62))
        for row, after in pairwise(rows):
            fell = after["log_end_offset"] < row["log_end_offset"]
            froms = [at for where, who, at in cut if (where, who) == (place, node)]
            if (
                fell
                and min(froms, default=1 << 62) > after["log_end_offset"]
                and not _disk_hit(facts, node, row, after)
            ):
                yield (
                    f"{node}'s log of {place} fell from {row['log_end_offset']} at"
                    f" {row['observed_ns']} to {after['log_end_offset']}"
                )  # fmt: skip


def _disk_hit(facts: Facts, node: str, row: Row, after: Row) -> bool:
    return any(
        fault["kind"] in _DISKS
        and node in fault["targets"]
        and fault["requested_ns"] < (after["observed_ns"] or 1 << 62)
        and row["observed_ns"] < fault["healed_ns"]
        for fault in facts.record.rows("faults")
    )


@rule("truncations", "leadership", "replica_records", "quorum_states")
def truncations(facts: Facts) -> Iterator[str]:
    """A truncation is recorded as a server log tells it, by a leader whose log had ended there."""
    for row in facts.record.rows("truncations"):
        place = place_of(row)
        if row["to_offset"] is not None or not row["reason"] or row["incarnation"] != 0:
            yield f"no server log has the truncation {row}"
        followed = _FOLLOWED.fullmatch(row["reason"] or "")
        if followed is None:
            continue
        broker, epoch, offset = map(int, followed.groups())
        if offset != row["from_offset"]:
            yield f"{row['node']} cut {place} at {row['from_offset']}, told to do so at {offset}"
        if not is_quorum(place) and not any(
            each["leader"] == broker
            and each["leader_epoch"] > epoch
            and facts.not_before_ns(each["log_offset"]) < facts.gone.get(row["node"], 1 << 62)
            for each in facts.changes.get(place, ())
        ):
            yield f"{row['node']} cut {place} for broker {broker}, which never led behind {epoch}"
        left = facts.logs.get((place, row["node"]), ())
        if any(each["offset"] >= offset and each["leader_epoch"] <= epoch for each in left):
            yield f"{row['node']} has in {place} what it cut off from {offset} on"


@rule("replica_states", "quorum_states")
def files_unlike_tables(facts: Facts) -> Iterator[str]:
    """The checkpoint files of each node say what the tables say that they say."""
    return unlike_files(facts, facts.record.node_files())


def unlike_files(facts: Facts, files: Mapping[PurePath, str]) -> Iterator[str]:
    """Yield what nodes' files, by their paths, say otherwise than the tables."""
    there = {path.parent for path in files if path.name == "leader-epoch-checkpoint"}
    told = {_folder(each): each for each in facts.finals}
    for folder in there - told.keys():
        if not folder.name.startswith("__"):
            yield f"{folder} is there, and the tables have none"
    for folder in there & told.keys():
        yield from _unlike(files, folder, told[folder])
    for state in facts.record.rows("quorum_states", observed_ns=None, incarnation=0):
        path = PurePath(state["node"], "data", "__cluster_metadata-0", "quorum-state")
        if state["log_end_offset"] is not None:
            file = quorum_state(files[path])
            if (file.epoch, file.leader) != (state["epoch"], state["leader"]):
                yield f"{state['node']}'s quorum-state has epoch {file.epoch}"


def _folder(state: Row) -> PurePath:
    return PurePath(state["node"], "data", f"{state['topic']}-{state['partition']}")


def _unlike(files: Mapping[PurePath, str], folder: PurePath, state: Row) -> Iterator[str]:
    place, data = place_of(state), folder.parent
    epochs = leader_epochs(files[folder / "leader-epoch-checkpoint"])
    lines = [(each.epoch, each.start_offset) for each in epochs]
    told = [(line["epoch"], line["start_offset"]) for line in state["epochs"] or ()]
    if lines != told:
        yield f"{state['node']}'s file of epochs of {place} has {lines}, the table {told}"
    if is_quorum(place):
        return
    mark, start, flushed = (
        offset_checkpoint(files[data / f"{name}-checkpoint"]).get(place)
        for name in ("replication-offset", "log-start-offset", "recovery-point-offset")
    )
    if mark != state["high_watermark"]:
        yield f"{state['node']}'s high watermark of {place}: {mark}, the table's otherwise"
    if (start or 0) != state["log_start_offset"]:
        yield f"{state['node']}'s start of {place}: {start}, the table's otherwise"
    if (flushed or 0) > state["log_end_offset"]:
        yield f"{state['node']} flushed {place} to {flushed}, behind its end"
