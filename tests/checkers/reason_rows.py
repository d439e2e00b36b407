"""Rows of three replicas' logs and of clients, for the reasons that checks give."""

from checkers.group import Group
from checkers.protocol import Checker
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, S, ack, facts, leads, log, read, state

NODES = ("n1", "n2", "n3")
READ = facts(collected_nodes=frozenset(NODES))
"""All files of all nodes were read."""
LED = [leads(2, 0, at=S // 2), leads(2, 0, at=20 * S)]
"""Broker 2 led all the time."""
TWO = [leads(2, 0, at=S // 2), leads(3, 1, at=20 * S)]
ALL = "the logs of n1, n2 and n3 hold"


def logs(*records: tuple[int, int], nodes: tuple[str, ...] = NODES) -> dict[str, list[Row]]:
    return {
        "replica_records": [row for node in nodes for row in log(node, *records)],
        "replica_states": [state(node, len(records)) for node in nodes],
    }


def reason(checker: Checker, on: Group) -> str:
    """Why the first anomaly that a check finds came about."""
    anomaly = checker.check(on).anomalies[0]
    assert not anomaly.cause
    return checker.why(on, anomaly)


def told(value: int, offset: int, *, op: int = 9, at: int = 2 * S, **changes: object) -> Row:
    """What a poll returned."""
    row = {**read(value, offset, op=op, phase="main"), "invoke_ns": at - 5, "complete_ns": at}
    return {**row, **changes}


def written(*records: Row, nodes: tuple[str, ...] = NODES, start: int = 0) -> dict[str, list[Row]]:
    """The same records in each log, with who wrote them."""
    rows = [
        {**log(node, (0, A), start=offset)[0], **record}
        for node in nodes
        for offset, record in enumerate(records, start=start)
    ]
    return {"replica_records": rows, "replica_states": [state(n, len(records)) for n in nodes]}


def of(value: int, sequence: int, *, producer: int = 1, epoch: int = 0, led: int = 0) -> Row:
    return {"value": value, "sequence": sequence, "producer_id": producer,
            "producer_epoch": epoch, "leader_epoch": led}  # fmt: skip


def marker(*, producer: int = 1) -> Row:
    return {"value": None, "control": True, "sequence": -1, "producer_id": producer}


TXN = facts(plan={"workload": "txn"}, collected_nodes=frozenset(NODES))


def in_txn(value: int, offset: int, *, op: int = 1, outcome: str = "ok") -> Row:
    return {**ack(value, offset, op=op), "txn_id": op, "outcome": outcome}
