"""Kafka's own consumer as a share group member (KIP-932), in Java."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from results.record.plan import Plan
from results.record.terms import ShareAct
from workloads.clients.java.bridge import AskedError, Bridge, limited
from workloads.clients.java.consumer import NOTHING, batch_of
from workloads.clients.java.frames import (
    Ask,
    Ending,
    Reading,
    Role,
    integer,
    texts,
    told_batch,
    told_counts,
)
from workloads.clients.java.settings import share_settings
from workloads.member import GroupError
from workloads.protocol import Batch

_COMMIT_S = 10.0
"""Seconds to wait for the response to acknowledgements: as long as a request may take."""
_TYPES = {ShareAct.ACCEPT: 1, ShareAct.RELEASE: 2, ShareAct.REJECT: 3}
"""The numbers of the acknowledgement types in the protocol."""


class JavaSharer:
    """A share consumer. It implements `workloads.sharer.ShareClient`.

    Args:
        bridge: The worker's JVM.
        plan: The plan, which decides the client's settings.
        bootstrap: The addresses `host:port,...`.
        client_id: The logical process's name, which brokers log.
        group: The group's id.
    """

    def __init__(
        self, bridge: Bridge, plan: Plan, *, bootstrap: str, client_id: str, group: str
    ) -> None:
        self._headers = plan.keeps_headers
        settings = share_settings(plan, bootstrap=bootstrap, client_id=client_id, group=group)
        self._seat = bridge.open(Role.SHARER, settings.plans, settings.own)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """
        try:
            self._seat.ask(Ask.SUBSCRIBE, texts(topics))
        except AskedError as refused:
            raise GroupError(str(refused)) from refused

    def poll(self, timeout_s: float) -> Batch:
        """Return acquired records with delivery counts. Wait for records up to a timeout."""
        try:
            told = self._seat.ask(Ask.POLL, integer(0) + limited(timeout_s))
        except AskedError as refused:
            failed = batch_of(NOTHING, error=str(refused), headers=self._headers)
            return replace(failed, delivery_counts=np.empty(0, np.int32))
        batch = batch_of(told_batch(told.body), headers=self._headers)
        return replace(batch, delivery_counts=told_counts(told.body, len(batch.offsets)))

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Sequence[str | None]:
        """Acknowledge each record of the last poll; return each record's error."""
        body = limited(_COMMIT_S) + bytes(_TYPES[act] for act in acts)
        try:
            read = Reading(self._seat.ask(Ask.ACKNOWLEDGE, body).body)
        except AskedError as refused:
            return [str(refused)] * len(batch.offsets)
        return [read.text() for _ in range(read.integer())]

    def close(self) -> None:
        """Leave the group."""
        self._seat.close()

    def abandon(self) -> None:
        """End without waiting. A share consumer leaves its group in any case."""
        self._seat.close(Ending.VANISH)
