"""The systems under test; a system's module is imported only when a plan names the system.

So a run does not wait for the modules of other systems.
"""
# ruff: noqa: PLC0415 - that is what the functions are for

from collections.abc import Callable, Mapping, Sequence

from cluster.kafka.fetch import cached_versions
from cluster.logs import KafkaLogs
from cluster.protocol import Logs, UserError
from cluster.systems.system import System
from results.record.plan import Plan
from results.record.systems import SystemKind


def _kafka(plan: Plan) -> System:
    from cluster.systems.kafka import KafkaSystem

    return KafkaSystem(plan)


def _reference(plan: Plan) -> System:
    from cluster.systems.reference import ReferenceSystem

    return ReferenceSystem(plan)


def _attached(plan: Plan) -> System:
    from cluster.systems.attached.system import AttachedSystem

    return AttachedSystem(plan)


def _command(plan: Plan) -> System:
    from cluster.systems.command import CommandSystem

    return CommandSystem(plan)


SYSTEMS: Mapping[SystemKind, Callable[[Plan], System]] = {
    SystemKind.KAFKA: _kafka,
    SystemKind.REFERENCE: _reference,
    SystemKind.ATTACHED: _attached,
    SystemKind.COMMAND: _command,
}
LOGS: Logs = KafkaLogs()
"""The file reader for runs whose system is unknown.

So far all systems write the same format.
"""


def system_of(plan: Plan) -> System:
    """Return the system that a plan names.

    Raises:
        UserError: There is no such system, or its file cannot be read.
    """
    kind = plan.named.kind
    if kind not in SYSTEMS:
        raise UserError(f"--system {plan.system}: this system is not supported")
    return SYSTEMS[kind](plan)


def releases_at_hand() -> Sequence[str]:
    """Return the versions of Kafka that need no download.

    Raises:
        OSError, UserError: The cache cannot be read.
    """
    return cached_versions()
