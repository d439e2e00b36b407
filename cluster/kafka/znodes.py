"""Reads and writes ZooKeeper nodes with time limits, because the server may be down."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kazoo.client import KazooClient  # type: ignore[import-untyped]  # No types.
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError  # type: ignore[import-untyped]  # No types.
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]  # No types.
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]  # No types.

from cluster.protocol import ClusterError
from results.record.clock import stopwatch_s
from results.record.runtime import new_lock

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 2.0
SESSION_TIMEOUT_S = 4.0
"""ZooKeeper's session timeout for this client, in seconds.

This time is short, so that a dead server is detected soon.
"""

_silent = logging.getLogger(f"{__name__}.kazoo")
_silent.setLevel(logging.CRITICAL)  # Our own errors report connection problems.


class ZooKeeperError(ClusterError):
    """ZooKeeper did not answer in time."""


class _Pending(Protocol[T_co]):
    """A future result of the library kazoo."""

    def get(self, block: bool = ..., timeout: float | None = ...) -> T_co:  # noqa: FBT001 - kazoo's
        """Wait for the result and return it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Znode:
    """A node of ZooKeeper's tree.

    Attributes:
        data: The node's content.
        czxid: The id of the ZooKeeper transaction that created the node. If a node is deleted and
            created again, this id is another one.
    """

    data: bytes
    czxid: int


class Znodes:
    """A connection to ZooKeeper, which opens at the first request and reopens after failures.

    Several threads may use it at once.

    Args:
        hosts: `host:port` of the server.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._client: KazooClient | None = None
        self._lock = new_lock()

    def read(self, path: str) -> Znode | None:
        """Return a ZooKeeper node, or None if it does not exist."""
        return self.read_all([path])[0]

    def read_all(self, paths: Iterable[str]) -> list[Znode | None]:
        """Request several ZooKeeper nodes at once; return them, with None for each missing node."""
        read = self._asked(lambda client: [client.get_async(path) for path in paths])
        return [None if it is None else Znode(data=it[0], czxid=it[1].czxid) for it in read]

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a node's children.

        The result is an empty list if the node does not exist.
        """
        (names,) = self._asked(lambda client: [client.get_children_async(path)])
        return sorted(names or ())

    def create(self, path: str, data: bytes) -> bool:
        """Create a ZooKeeper node, and return False if it already exists.

        Raises:
            ZooKeeperError: No response came, so it is unknown whether the node was created.
        """
        try:
            self._asked(lambda client: [client.create_async(path, data)])
        except NodeExistsError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete a ZooKeeper node, if it exists."""
        self._asked(lambda client: [client.delete_async(path)])

    def close(self) -> None:
        """End the session and its threads. Idempotent."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            _end(client)

    def _give_up(self, failed: KazooClient) -> None:
        """End a client, unless another thread has begun to end it."""
        with self._lock:
            mine = self._client is failed
            if mine:
                self._client = None
        if mine:
            _end(failed)

    def _asked(self, ask: Callable[[KazooClient], list[_Pending[T]]]) -> list[T | None]:
        client = self._connected()
        deadline_s = stopwatch_s() + ANSWER_TIMEOUT_S
        try:
            return [_answer(pending, deadline_s) for pending in ask(client)]
        except NodeExistsError:
            raise
        except (KazooException, KazooTimeoutError) as failure:
            # Closing the client also drops its unsent requests, whose results are not awaited.
            self._give_up(client)
            raise self._silence() from failure

    def _silence(self) -> ZooKeeperError:
        return ZooKeeperError(
            f"ZooKeeper at {self._hosts} does not answer; see zookeeper/logs in the run's folder"
        )

    def _connected(self) -> KazooClient:
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> KazooClient:
        client = KazooClient(
            hosts=self._hosts,
            timeout=SESSION_TIMEOUT_S,
            connection_retry=KazooRetry(max_tries=0),
            command_retry=KazooRetry(max_tries=0),
            logger=_silent,
        )
        try:
            client.start(timeout=CONNECT_TIMEOUT_S)
        except (KazooException, KazooTimeoutError) as failure:
            _end(client)
            raise self._silence() from failure
        return client


def _answer(pending: _Pending[T], deadline_s: float) -> T | None:
    try:
        return pending.get(timeout=max(0.0, deadline_s - stopwatch_s()))
    except NoNodeError:
        return None


def _end(client: KazooClient) -> None:
    with suppress(KazooException, KazooTimeoutError):
        client.stop()
    with suppress(Exception):  # Kazoo raises a bare Exception if the client's thread still runs.
        client.close()
