"""Ask an attached cluster, which already runs, for its brokers, settings and permissions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kio.schema.describe_cluster.v0.request import DescribeClusterRequest
from kio.schema.describe_cluster.v0.response import DescribeClusterResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8
from kio.static.protocol import RequestPayload, ResponsePayload

from cluster.kafka import questions
from cluster.kafka.dialects import Dialogue
from cluster.kafka.secure import RefusedError, dial_by
from cluster.kafka.wire import Dial, WireError, dialling
from cluster.protocol import Endpoint, UserError
from results.record.attached_file import OF_A_RUN, AttachedFile, load_attached, security_of
from results.record.tuning import ABORT_INTERVAL

A = TypeVar("A", bound=ResponsePayload)
ASK_TIMEOUT_S = 5.0
BROKER_RESOURCE = i8(4)
ALTER = 7
"""The bit of `cluster_authorized_operations` (KIP-430) for Alter."""
_HOST = re.compile(r"[A-Za-z0-9._:-]+")

SESSIONS = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
LAG = "replica.lag.time.max.ms"
PROMISED = (
    "min.insync.replicas", "unclean.leader.election.enable", "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)  # fmt: skip
"""The settings on which the meaning of an acknowledgement depends."""
WANTED = (*PROMISED, LAG, *SESSIONS, ABORT_INTERVAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The answers of an attached cluster.

    Attributes:
        cluster_id: The cluster's id.
        endpoints: By node, the addresses of the broker.
        settings: By node, the settings of each broker that reports its settings.
        operations: Our permissions on the cluster, as bits (KIP-430). None means that the cluster
            does not report permissions.
        ours: The existing topics whose names have the prefix of any Logquake run.
    """

    cluster_id: str
    endpoints: Mapping[str, Endpoint]
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    operations: int | None = None
    ours: Sequence[str] = ()

    def may(self, operation: int) -> bool:
        """Return whether the cluster permits an operation; True if the permissions are unknown."""
        return self.operations is None or bool(self.operations >> operation & 1)


@dataclass(slots=True)
class Attached:
    """An attached cluster, as described by its file.

    Args:
        path: The file.

    Attributes:
        path: The file.
        file: The content of the file.
        dial: Opens connections to the brokers.

    Raises:
        PlanError, UserError: The file, or a file named in it, cannot be read.
    """

    path: Path
    file: AttachedFile = field(init=False)
    dial: Dial = field(init=False)

    def __post_init__(self) -> None:
        """Read the file."""
        self.file = load_attached(self.path)
        self.dial = dial_by(security_of(self.file, self.path))

    def metadata(self, topics: Sequence[str] | None = ()) -> MetadataResponse:
        """Return the metadata of the first broker that answers.

        Raises:
            UserError: No broker answers, or a broker refuses us. The message is one sentence with
                the remedy.
        """
        failure: WireError | None = None
        for place in self.file.bootstrap:
            host, _, port = place.rpartition(":")
            try:
                return self.ask((host, int(port)), questions.metadata(topics), MetadataResponse)
            except RefusedError as refused:
                raise UserError(f"{self.path}: {refused}") from refused
            except WireError as silent:
                failure = silent
        raise UserError(
            f"{self.path}: no broker of the cluster answers ({failure}); start it, or fix"
            " `bootstrap` or `security.protocol`"
        )

    def ask(self, place: tuple[str, int], question: RequestPayload, answer: type[A]) -> A:
        """Send a question to one broker over a new connection; return its answer.

        Raises:
            WireError: No complete answer came within `ASK_TIMEOUT_S` seconds.
        """
        with dialling(self.dial):
            dialogue = Dialogue(*place)
        try:
            return dialogue.ask(question, answer, timeout_s=ASK_TIMEOUT_S)
        finally:
            dialogue.close()

    def endpoints(self) -> dict[str, Endpoint]:
        """Return, by node, the addresses of the brokers that are registered now.

        Raises:
            UserError: For the same reasons as in `metadata`.
        """
        return _endpoints(self.path, self.metadata())

    def told(self) -> Told:
        """Ask for everything that a run needs to know.

        Raises:
            UserError: No broker answers, or a run cannot use these brokers.
        """
        said = self.metadata(None)
        endpoints = _endpoints(self.path, said)
        return Told(
            cluster_id=said.cluster_id or "",
            endpoints=endpoints,
            settings={
                node: found
                for node, at in endpoints.items()
                if (found := self._settings(node, at)) is not None
            },
            operations=self._operations(next(iter(endpoints.values()))),
            ours=sorted(filter(OF_A_RUN.match, (str(topic.name) for topic in said.topics))),
        )

    def _settings(self, node: str, at: Endpoint) -> dict[str, str] | None:
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=node[1:], configuration_keys=WANTED
        )
        question = DescribeConfigsRequest(resources=(resource,))
        try:
            said = self.ask((at.host, at.broker_port), question, DescribeConfigsResponse)
        except WireError:
            return None
        if any(each.error_code is not ErrorCode.none for each in said.results):
            return None
        return {
            each.name: each.value
            for result in said.results
            for each in result.configs
            if each.value is not None
        }

    def _operations(self, at: Endpoint) -> int | None:
        question = DescribeClusterRequest(include_cluster_authorized_operations=True)
        try:
            said = self.ask((at.host, at.broker_port), question, DescribeClusterResponse)
        except WireError:
            return None
        told = int(said.cluster_authorized_operations)
        return told if told >= 0 and said.error_code is ErrorCode.none else None


def _endpoints(path: Path, said: MetadataResponse) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {}
    for broker in sorted(said.brokers, key=lambda each: int(each.node_id)):
        if not _HOST.fullmatch(broker.host):
            raise UserError(f"{path}: broker {broker.node_id} announces no host's name")
        found[f"n{broker.node_id}"] = Endpoint(
            host=broker.host, broker_port=int(broker.port), controller_port=0
        )
    return found
