"""Records that are gone: from some logs, from all, or from their beginning."""

from tests.broken.brokers import NODES, begin_at, cut, followers_of, lose, never_write, unread
from tests.broken.corpus import Spot, broken
from tests.broken.record import Record


def _start_at(record: Record, spot: Spot, nodes: tuple[str, ...]) -> None:
    lose(record, spot, range(spot.offset), nodes=nodes)
    for row in record.rows("replica_states", **spot.place):
        if row["node"] in nodes and (row["snapshot"] == "final" or row["observed_ns"] > spot.at_ns):
            begin_at(row, spot.offset)


def _remove_folder(record: Record, spot: Spot, nodes: tuple[str, ...]) -> None:
    lose(record, spot, range(1 << 40), nodes=nodes)
    record.drop("replica_states", lambda row: row["node"] in nodes, snapshot="final", **spot.place)


@broken("log-start-moved", row="S1", base="log")
def every_replica_deletes_what_lies_before(record: Record, spot: Spot) -> None:
    _start_at(record, spot, NODES)
    unread(record, spot, range(spot.offset), phase="final")


@broken("log-start-moved", row="S1", base="log")
def a_follower_deletes_what_lies_before(record: Record, spot: Spot) -> None:
    _start_at(record, spot, followers_of(record, spot)[:1])


@broken("log-start-moved", row="compaction", base="keyed")
def every_replica_of_a_compacted_topic_deletes_what_lies_before(record: Record, spot: Spot) -> None:
    _start_at(record, spot, NODES)
    unread(record, spot, range(spot.offset), phase="final")


@broken("lost-write", row="S1", base="log")
def every_replica_lacks_its_beginning_and_calls_it_whole(record: Record, spot: Spot) -> None:
    lose(record, spot, range(spot.offset))
    unread(record, spot, range(spot.offset), phase="final")


@broken("under-replicated", row="S2", base="log")
def followers_stop_copying_and_stay_in_sync(record: Record, spot: Spot) -> None:
    cut(record, spot, spot.offset, nodes=followers_of(record, spot), from_ns=spot.at_ns)


@broken("under-replicated", row="S2", base="log")
def one_follower_stops_copying_and_stays_in_sync(record: Record, spot: Spot) -> None:
    cut(record, spot, spot.offset, nodes=followers_of(record, spot)[:1], from_ns=spot.at_ns)


@broken("lost-write", row="catalogue", base="log")
def a_message_is_acknowledged_and_never_written(record: Record, spot: Spot) -> None:
    never_write(record, spot)


@broken("lost-write", row="S10c", base="log")
def a_message_is_acknowledged_by_the_leader_and_never_written(record: Record, spot: Spot) -> None:
    record.plan["acks"] = "1"
    for row in record.rows("sends"):
        row["acks"] = "1"
    never_write(record, spot)


@broken("lost-write", row="S10c", base="log")
def the_leader_alone_acknowledges_and_the_offset_stays_empty(record: Record, spot: Spot) -> None:
    record.plan["acks"] = "1"
    for row in record.rows("sends"):
        row["acks"] = "1"
    lose(record, spot, {spot.offset})
    unread(record, spot, {spot.offset})


@broken("lost-write", row="S6", base="log")
def the_last_leaders_folder_is_gone_after_a_clean_stop(record: Record, spot: Spot) -> None:
    _remove_folder(record, spot, tuple(set(NODES) - set(followers_of(record, spot))))


@broken("lost-write", row="S6", base="log")
def the_last_messages_are_gone_after_a_clean_stop(record: Record, spot: Spot) -> None:
    ends = {row["offset"] for row in record.rows("replica_records", snapshot="final", **spot.place)}
    cut(record, spot, max(ends) - 4, from_ns=None)


@broken("under-replicated", row="S6", base="log")
def a_folder_is_gone_after_a_clean_stop(record: Record, spot: Spot) -> None:
    _remove_folder(record, spot, followers_of(record, spot))


@broken("lost-write", row="catalogue", base="log")
def the_final_read_passes_over_a_message(record: Record, spot: Spot) -> None:
    unread(record, spot, {spot.offset}, phase="final")
