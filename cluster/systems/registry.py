"""The systems: one line each."""

from collections.abc import Callable, Mapping, Sequence

from cluster.kafka.fetch import cached_versions
from cluster.logs import KafkaLogs
from cluster.protocol import Logs, UserError
from cluster.systems.attached.system import AttachedSystem
from cluster.systems.command import CommandSystem
from cluster.systems.kafka import KafkaSystem
from cluster.systems.reference import ReferenceSystem
from cluster.systems.system import System
from results.record.plan import Plan
from results.record.systems import SystemKind

SYSTEMS: Mapping[SystemKind, Callable[[Plan], System]] = {
    SystemKind.KAFKA: KafkaSystem,
    SystemKind.REFERENCE: ReferenceSystem,
    SystemKind.ATTACHED: AttachedSystem,
    SystemKind.COMMAND: CommandSystem,
}
LOGS: Logs = KafkaLogs()
"""How files are read of runs whose system is not at hand: so far all write the same."""


def system_of(plan: Plan) -> System:
    """Return the system that a plan names.

    Raises:
        UserError: It cannot be played, or its file cannot be read.
    """
    kind = plan.named.kind
    if kind not in SYSTEMS:
        raise UserError(f"--system {plan.system}: there is no such system yet")
    return SYSTEMS[kind](plan)


def releases_at_hand() -> Sequence[str]:
    """Return the versions of Kafka that need no download.

    Raises:
        OSError, UserError: The cache cannot be looked at.
    """
    return cached_versions()
