"""The rows of the swarm's table, and the conditions that say which runs a row fits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from results.record.cleaning import COMPACT, POLICY
from results.record.loads import Load
from results.record.plan import Plan

Fits = Callable[[Plan], bool]
TABLES = ("broker", "client", "contents")
"""The tables of a plan in which rows set values."""
_LEAST_MEBIBYTE = (4, 0)
"""The first version in which a topic's segments must have at least 1 MiB (KIP-1030)."""
_FEW_BYTES = 1000
_FEW_MESSAGES = 500
_SHORT_RUN_S = 600


def _always(_plan: Plan) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a row.

    Attributes:
        settings: The plan keys to set, such as `rate` or `broker.num.io.threads`, and their values.
        why: The mechanism that the value exercises.
        fits: A function that returns whether the value fits a run. The row itself already fits the
            run.
    """

    settings: Mapping[str, object]
    why: str
    fits: Fits = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Settings that are chosen together, from one random stream.

    Attributes:
        name: The name of the random stream.
        values: The values other than the default.
        takes: A function that returns whether the plan's system has these settings, whatever the
            workload is.
        fits: Whether the row fits a run on such a system. The plan already has the values of
            earlier rows.
        where: A description of the runs that the row fits.
    """

    name: str
    values: tuple[Value, ...]
    takes: Fits = _always
    fits: Fits = _always
    where: str = "all"


def of_brokers(
    name: str,
    where: str,
    takes: Fits,
    values: Mapping[str, str],
    *more: Value,
    fits: Fits = _always,
) -> Row:
    """Return a row for one broker setting.

    Args:
        name: The setting.
        where: A description of the runs that the row fits.
        takes: Whether the plan's system has the setting.
        values: Each value with its reason.
        more: Values that also set other keys.
        fits: Whether the row fits a run on such a system.
    """
    own = (Value(settings={f"broker.{name}": value}, why=why) for value, why in values.items())
    return Row(name=name, values=(*own, *more), takes=takes, fits=fits, where=where)


def kafka(plan: Plan) -> bool:
    """Return whether the brokers run Kafka, and Logquake configures them."""
    return plan.is_kafka


def ours(plan: Plan) -> bool:
    """Return whether Logquake configures the brokers: Kafka brokers, or the reference cluster."""
    return plan.is_kafka or plan.is_reference


def every(*all_of: Fits) -> Fits:
    """Return a condition that is true if all given conditions are true."""
    return lambda plan: all(each(plan) for each in all_of)


def since(*numbers: int) -> Fits:
    """Return a condition that is true if the plan's Kafka has at least the given version."""
    return lambda plan: plan.version_numbers >= numbers


def doing(*workloads: str) -> Fits:
    """Return a condition that is true if the plan has one of the given workloads."""
    return lambda plan: plan.workload in workloads


def quorum(plan: Plan) -> bool:
    """Return whether a quorum of Kafka's controllers keeps the metadata (KRaft)."""
    return plan.has_quorum


def keeper(plan: Plan) -> bool:
    """Return whether ZooKeeper keeps the metadata."""
    return plan.kept_outside


def grouped(plan: Plan) -> bool:
    """Return whether the workload has consumer groups."""
    return plan.is_grouped


def transactional(plan: Plan) -> bool:
    """Return whether the workload has transactions."""
    return plan.transactional


def uncompacted(plan: Plan) -> bool:
    """Return whether the run's topics are not compacted. Compaction needs special settings."""
    return not plan.keys and not any(COMPACT in each.get(POLICY, "") for each in plan.settings)


def small_segments(plan: Plan) -> bool:
    """Return whether a topic's segments may be smaller than 1 MiB."""
    return not plan.is_kafka or plan.version_numbers < _LEAST_MEBIBYTE


def simulated(plan: Plan) -> bool:
    """Return whether the run is played in virtual time."""
    return plan.is_simulated


def real(plan: Plan) -> bool:
    """Return whether the run is played in real time."""
    return not plan.is_simulated


def paced(plan: Plan) -> bool:
    """Return whether clients send at a fixed rate."""
    return plan.load is Load.LIGHT and plan.rate > 0


def trickles(plan: Plan) -> bool:
    """Return whether messages are few and small, so that even small segments fill slowly."""
    small = plan.payload_bytes <= _FEW_BYTES and not plan.contents.sizes
    return paced(plan) and small and plan.rate * plan.sends_per_op <= _FEW_MESSAGES


def briefly(plan: Plan) -> bool:
    """Return whether the run is short enough to have only some thousands of small segments."""
    return plan.time_limit_s <= _SHORT_RUN_S


def own_clients(plan: Plan) -> bool:
    """Return whether the clients are librdkafka, and the user has no private settings for them."""
    return real(plan) and not plan.wants_java and plan.clients is None


def javas(plan: Plan) -> bool:
    """Return whether the clients are Kafka's Java clients."""
    return plan.wants_java


def leaders_stay(plan: Plan) -> bool:
    """Return whether no fault moves leaders on purpose.

    If a fault moves leaders on purpose, nothing else may move them back.
    """
    written = [each.kind for each in plan.faults or ()]
    ordered = {"preferred-election", "reassignment"}.isdisjoint(written)
    return ordered and {"leadership", "all"}.isdisjoint(plan.nemesis)
