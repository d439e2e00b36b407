"""Controllers that vote twice, lead without being elected, or differ."""

from tests.broken.corpus import Spot, broken
from tests.broken.leaders import logged
from tests.broken.record import Record, Row

LOG = "__cluster_metadata"


def voters(record: Record) -> list[str]:
    """Return the controllers, the one that leads first."""
    told = [row for row in record.rows("quorum_states") if row["observed_ns"]]
    nodes = {str(row["node"]) for row in told if row["role"] != "observer"}
    led = leader(record)
    return sorted(nodes, key=lambda node: (node != led, node))


def leader(record: Record) -> str:
    """Return who led the quorum first."""
    told = [row for row in record.rows("quorum_states", role="leader") if row["observed_ns"]]
    return str(min(told, key=lambda row: int(row["observed_ns"]))["node"])


def number(node: str) -> int:
    """Return a controller's id: n102 is 102."""
    return int(node[1:])


def committed(record: Record, at_ns: int) -> int:
    """Return the quorum's high watermark as it was told last by a time."""
    told = [row for row in record.rows("quorum_states") if 0 < (row["observed_ns"] or 0) <= at_ns]
    return max(int(row["high_watermark"]) for row in told)


def log_of(record: Record, node: str) -> list[Row]:
    """Return the final metadata log of a node, in the order of offsets."""
    return record.rows("replica_records", topic=LOG, node=node)


def elect_controller(record: Record, at_ns: int, *, start: int | None = None) -> str:
    """Have another controller lead the quorum from a time on, in the next epoch; return it.

    Args:
        record: The run.
        at_ns: When.
        start: Where its epoch begins, or before; None: behind all that was committed.
    """
    changes = record.rows("leadership", source="metadata-log")
    taken = {row["log_offset"] for row in changes}
    places = range(committed(record, at_ns) + 1, 1 << 20) if start is None else range(start, 0, -1)
    start = next(at for at in places if at not in taken)
    led, elected, other = voters(record)
    for row in record.rows("leadership", source="metadata-log", topic=LOG, leader_epoch=1):
        record.add("leadership", row, leader=number(elected), leader_epoch=2, log_offset=start)
    for row in record.rows("quorum_states"):
        if (row["observed_ns"] or 0) > at_ns:
            role = {led: "follower", elected: "leader"}.get(row["node"], row["role"])
            row.update(epoch=2, leader=number(elected), role=role)
        elif row["observed_ns"] is None and row["log_end_offset"] is not None:
            role = "leader" if row["node"] == elected else "follower"
            row.update(epoch=2, leader=number(elected), role=role, voted_for=None)
    for row in record.rows("replica_records", topic=LOG):
        row["leader_epoch"] += row["offset"] >= start
    for row in record.rows("replica_states", topic=LOG, snapshot="final"):
        row["epochs"] = [*row["epochs"], {"epoch": 2, "start_offset": start}]
    for node, role in ((elected, "candidate"), (elected, "leader"), (other, "voted")):
        vote(record, node, 2, elected, role=role)
    for node in (led, other):
        state(record, node, epoch=2, role="follower", leader=number(elected))
    return elected


def state(record: Record, node: str, **said: object) -> None:
    """Add what a controller's log says of itself."""
    like = next(row for row in record.rows("quorum_states", node=node) if not row["observed_ns"])
    nothing = dict.fromkeys(("leader", "voted_for", "voted_directory", "log_end_offset"))
    record.add("quorum_states", like, **{**nothing, **said})


def vote(record: Record, node: str, epoch: int, candidate: str, *, role: str = "voted") -> None:
    """Add that a controller voted in an epoch; who became leader says so no more, nor its file."""
    told = {"voted_for": number(candidate)} if role != "leader" else {"leader": number(candidate)}
    state(record, node, epoch=epoch, role=role, **told)
    for row in record.rows("quorum_states", node=node, observed_ns=None):
        if row["log_end_offset"] is not None:
            row["voted_for"] = told.get("voted_for")


@broken("double-vote", row="catalogue", base="log")
def a_controller_votes_for_two(record: Record, spot: Spot) -> None:
    elect_controller(record, spot.at_ns)
    led, _, other = voters(record)
    vote(record, other, 2, led)


@broken("double-vote", row="catalogue", base="disks")
def a_candidate_votes_for_another_one_as_well(record: Record, spot: Spot) -> None:
    elected = elect_controller(record, spot.at_ns)
    vote(record, elected, 2, voters(record)[2])


@broken("two-leaders-in-epoch", row="quorum", base="log")
def two_controllers_lead_in_one_epoch(record: Record, spot: Spot) -> None:
    elect_controller(record, spot.at_ns)
    led = voters(record)[0]
    state(record, led, epoch=2, role="leader", leader=number(led))


@broken("incomplete-leader", row="quorum", base="disks")
def a_controller_begins_without_what_was_committed(record: Record, spot: Spot) -> None:
    elect_controller(record, spot.at_ns, start=committed(record, spot.at_ns) - 3)


@broken("metadata-divergence", row="quorum", base="log")
def a_controller_has_another_record(record: Record, spot: Spot) -> None:
    row = log_of(record, voters(record)[1])[committed(record, spot.at_ns) - 1]
    row["record_hash"] ^= 1


@broken("metadata-divergence", row="catalogue", base="log", moments=("kill", "isolate"))
@broken("metadata-divergence", row="catalogue", base="disks", moments=("power-loss",))
def one_copy_of_the_controllers_log_has_another_isr(record: Record, spot: Spot) -> None:
    (row,) = (each for each in logged(record, spot, spot.at_ns) if each["observer"] == "n1")
    row["isr"] = [each for each in row["isr"] if each != row["leader"]]
    log_of(record, "n1")[row["log_offset"]]["record_hash"] ^= 1


@broken("metadata-divergence", row="quorum", base="disks")
def a_broker_leaves_out_a_record_of_the_controllers(record: Record, spot: Spot) -> None:
    offset = committed(record, spot.at_ns) - 1
    record.drop("replica_records", lambda row: row["offset"] == offset, topic=LOG, node="n1")
