"""The kinds of clients that a worker can have: librdkafka's, and Kafka's own in Java."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from workloads.clients.consumer import ProcessConsumer
from workloads.clients.java.bridge import Bridge
from workloads.clients.java.consumer import JavaConsumer
from workloads.clients.java.member import JavaMember
from workloads.clients.java.producer import JavaProducer
from workloads.clients.java.sharer import JavaSharer
from workloads.clients.java.transactions import JavaTransactor
from workloads.clients.member import GroupConsumer
from workloads.clients.producer import SharedProducer
from workloads.clients.sharer import ShareConsumer
from workloads.clients.transactions import TransactionalProducer
from workloads.member import GroupClient
from workloads.protocol import LoneSender, Reader, Transactor
from workloads.sharer import ShareClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Creates clients. Each method takes the plan and the keyword arguments of a client class."""

    sender: Callable[..., LoneSender]
    reader: Callable[..., Reader]
    member: Callable[..., GroupClient]
    transactor: Callable[..., Transactor]
    sharer: Callable[..., ShareClient]


LIBRDKAFKA = Kind(
    sender=SharedProducer,
    reader=ProcessConsumer,
    member=GroupConsumer,
    transactor=TransactionalProducer,
    sharer=ShareConsumer,
)


def java(argv: Sequence[str]) -> Kind:
    """Return Kafka's own clients, in a JVM that starts now and ends with this process.

    Args:
        argv: The command line that starts the JVM.
    """
    bridge = Bridge(argv)
    return Kind(
        sender=partial(JavaProducer, bridge),
        reader=partial(JavaConsumer, bridge),
        member=partial(JavaMember, bridge),
        transactor=partial(JavaTransactor, bridge),
        sharer=partial(JavaSharer, bridge),
    )
