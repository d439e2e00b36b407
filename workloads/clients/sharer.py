"""librdkafka's consumer as a share group member (KIP-932)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition, admin

from results.record.plan import Plan
from results.record.shares import group_settings
from results.record.terms import ShareAct
from workloads.clients.consumer import batch_of
from workloads.clients.failures import error_name
from workloads.clients.settings import admin_settings, share_settings
from workloads.member import GroupError
from workloads.protocol import Batch, Key

_COMMIT_S = 10.0
"""Seconds to wait for the response to acknowledgements: as long as librdkafka's request timeout."""
_NO_ANSWER = "no broker confirmed the acknowledgements"
_SET_S = 30.0
_REFUSED = (KafkaException, RuntimeError)
"""Errors that a consumer may raise. Older versions raise a RuntimeError instead of
`IllegalStateException`.
"""


class ShareConsumer:
    """A confluent-kafka share consumer. It implements `workloads.sharer.ShareClient`.

    An acknowledgement is confirmed only if two conditions hold: librdkafka reports the record's
    offset as confirmed, and the whole commit of the partition succeeded.

    Args:
        plan: The plan, which decides the client's settings.
        bootstrap: The addresses `host:port,...`.
        client_id: The logical process's name, which brokers log.
        group: The group's id.
    """

    def __init__(self, plan: Plan, *, bootstrap: str, client_id: str, group: str) -> None:
        settings = share_settings(plan, bootstrap=bootstrap, client_id=client_id, group=group)
        self._headers = plan.keeps_headers
        # Older versions of the library have no ShareConsumer. Other workloads may use them.
        self._handle = confluent_kafka.ShareConsumer(settings)
        self._handle.set_acknowledgement_commit_callback(self._on_answer)
        self._held: list[Message] = []
        self._confirmed: set[tuple[Key, int]] = set()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group.

        Raises:
            GroupError: librdkafka refused.
        """
        try:
            self._handle.subscribe(list(topics))
        except _REFUSED as refused:
            raise GroupError(_why(refused)) from refused

    def poll(self, timeout_s: float) -> Batch:
        """Return acquired records with delivery counts. Wait for records up to a timeout."""
        try:
            messages = list(self._handle.poll(timeout_s))
        except _REFUSED as refused:
            self._held = []
            return replace(batch_of([], error=_why(refused)), delivery_counts=_counts([]))
        self._held = [message for message in messages if message.error() is None]
        batch = batch_of(messages, headers=self._headers)
        return replace(batch, delivery_counts=_counts(self._held))

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Sequence[str | None]:
        """Acknowledge each record of the last poll; return each record's error."""
        self._confirmed.clear()
        places = [key for key, length in batch.spans for _ in range(length)]
        refused: dict[int, str] = {}
        for at, (message, act) in enumerate(zip(self._held, acts, strict=True)):
            try:
                self._handle.acknowledge(message, confluent_kafka.AcknowledgeType[act.name])
            except _REFUSED as error:
                refused[at] = _why(error)
        self._held = []
        try:
            answers = self._handle.commit_sync(_COMMIT_S)
        except _REFUSED as error:
            return [_why(error)] * len(places)
        failed = _failures(answers)
        offsets = batch.offsets.tolist()
        return [
            refused.get(at)
            or failed.get(key, _NO_ANSWER)
            or (None if (key, offset) in self._confirmed else _NO_ANSWER)
            for at, (key, offset) in enumerate(zip(places, offsets, strict=True))
        ]

    def close(self) -> None:
        """Leave the group. The records that the consumer has acquired are released."""
        with suppress(*_REFUSED):  # The brokers may be unreachable.
            self._handle.close()

    def abandon(self) -> None:
        """End without leaving the group.

        The Python client destroys an unclosed consumer without leaving the group.
        """
        self._held = []
        del self._handle

    def _on_answer(
        self, offsets: Mapping[TopicPartition, set[int]], error: KafkaException | None
    ) -> None:
        if error is None:
            self._confirmed.update(
                ((part.topic, part.partition), offset)
                for part, mine in offsets.items()
                for offset in mine
            )


def _why(refused: Exception) -> str:
    (error,) = refused.args[:1] or ("",)
    return error_name(error) if isinstance(error, KafkaError) else f"{error}"


def _counts(messages: Sequence[Message]) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    return np.array([message.delivery_count() for message in messages], dtype=np.int32)


def _failures(answers: Mapping[TopicPartition, KafkaException | None]) -> dict[Key, str | None]:
    return {
        (part.topic, part.partition): error_name(error.args[0]) if error else None
        for part, error in answers.items()
    }


def set_up_share_group(plan: Plan, *, bootstrap: str, group: str) -> None:
    """Set a share group's start offset and delivery limit on the brokers.

    Raises:
        KafkaException: The brokers refused, or did not respond in time.
    """
    configs: Any = admin  # Most of this has no type stubs.
    entries = [
        configs.ConfigEntry(name, value, incremental_operation=configs.AlterConfigOpType.SET)
        for name, value in group_settings(plan).items()
    ]
    resource = configs.ConfigResource(
        configs.ResourceType.GROUP, group, incremental_configs=entries
    )
    client = configs.AdminClient(admin_settings(plan, bootstrap=bootstrap))
    for answer in client.incremental_alter_configs([resource], request_timeout=_SET_S).values():
        answer.result(_SET_S)
