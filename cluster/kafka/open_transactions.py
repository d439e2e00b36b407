"""Finds open transactions through partition leaders and transaction coordinators (KIP-664)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kio.schema.describe_producers.v0.response import DescribeProducersResponse, ProducerState
from kio.schema.describe_transactions.v0.response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from kio.schema.list_transactions.v0.response import ListTransactionsResponse

from cluster.kafka import questions
from cluster.kafka.dialects import UnknownQuestionError
from cluster.kafka.ends import by_leader
from cluster.kafka.lines import Lines
from cluster.kafka.questions import Place
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterView
from results.record.nodes import is_controller


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coordinated:
    """The reports of the transaction coordinators about the transactions of some producers.

    Attributes:
        told: For each producer id, the coordinator's node and the coordinator's report.
        all_answered: Whether every broker answered. If so, a producer without a report has no
            coordinator.
    """

    told: Mapping[int, tuple[str, TransactionState]]
    all_answered: bool


def open_transactions(
    lines: Lines, view: Callable[[], ClusterView | None], places: Iterable[Place]
) -> dict[Place, list[str]]:
    """Return one sentence for each open transaction, by partition.

    Leaders report open transactions, and coordinators report the state of each transaction. A
    hanging transaction is open in a partition, but no coordinator knows it as open. So it never
    ends. Brokers before 2.8 cannot report open transactions. Coordinators before 3.0 cannot report
    the state of a transaction.

    Args:
        lines: Connections to the brokers.
        view: Returns a view of the cluster with the current leaders.
        places: The partitions, as (topic, partition).
    """
    found: dict[Place, list[str]] = {}
    writers: dict[Place, list[tuple[str, ProducerState]]] = {}
    for node, led in by_leader(view(), places).items():
        try:
            said = lines.ask(node, questions.producers(led), DescribeProducersResponse)
        except UnknownQuestionError:
            continue
        except WireError as failed:
            found |= {place: [str(failed)] for place in led}
            continue
        for topic in said.topics:
            for each in topic.partitions:
                writers[str(topic.name), int(each.partition_index)] = [
                    (node, producer)
                    for producer in each.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
    ids = {int(producer.producer_id) for here in writers.values() for _, producer in here}
    coordinated = _coordinated(lines, ids)
    return found | {
        place: [_sentence(place, node, producer, coordinated) for node, producer in here]
        for place, here in writers.items()
    }


def _coordinated(lines: Lines, producer_ids: Iterable[int]) -> _Coordinated:
    ids, all_answered = sorted(producer_ids), True
    told: dict[int, tuple[str, TransactionState]] = {}
    for node in lines.nodes if ids else ():
        if is_controller(node):
            continue
        try:
            known = lines.ask(node, questions.transactions_of(ids), ListTransactionsResponse)
            asked = questions.transactions(
                each.transactional_id for each in known.transaction_states
            )
            said = lines.ask(node, asked, DescribeTransactionsResponse)
        except WireError:
            all_answered = False
            continue
        told |= {int(each.producer_id): (node, each) for each in said.transaction_states}
        all_answered = all_answered and not known.error_code.value
    return _Coordinated(told=told, all_answered=all_answered)


def _sentence(place: Place, node: str, producer: ProducerState, coordinated: _Coordinated) -> str:
    return (
        f"{node}: the transaction of producer {producer.producer_id} epoch"
        f" {producer.producer_epoch} has been open since offset"
        f" {producer.current_txn_start_offset}"
        f"{_coordinator_says(place, int(producer.producer_id), coordinated)}"
    )


def _coordinator_says(place: Place, producer_id: int, coordinated: _Coordinated) -> str:
    node, known = coordinated.told.get(producer_id, ("", None))
    if known is None:
        return ", and no broker is its coordinator" if coordinated.all_answered else ""
    here = any(place[0] == each.topic and place[1] in each.partitions for each in known.topics)
    return (
        f"; {node} is the coordinator of {known.transactional_id}, which is in state"
        f" {known.transaction_state}, {'with' if here else 'without'} this partition"
    )
