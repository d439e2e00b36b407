"""What a row of the swarm's table is, and in which runs rows have a place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from results.record.cleaning import COMPACT, POLICY
from results.record.loads import Load
from results.record.plan import Plan

Fits = Callable[[Plan], bool]
TABLES = ("broker", "client", "contents")
"""Tables of a plan that rows set something in."""
_LEAST_MEBIBYTE = (4, 0)
"""From here on no topic has a segment of less than 1 MiB (KIP-1030)."""
_FEW_BYTES = 1000
_FEW_MESSAGES = 500
_SHORT_RUN_S = 600


def _always(_plan: Plan) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a row.

    Attributes:
        settings: By key of a plan, with its table: `broker.num.io.threads`, `rate`.
        why: Which mechanism it brings into reach.
        fits: In which runs it has a place, of those in which its row has one.
    """

    settings: Mapping[str, object]
    why: str
    fits: Fits = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is drawn together, from one stream.

    Attributes:
        name: Of the stream.
        values: Beside the default.
        takes: Whether a plan's system takes it, whatever is sent.
        fits: In which runs on such a system it has a place. Earlier rows are in the plan already.
        where: In which runs it has a place, in words.
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
    """Return a row of one setting of brokers.

    Args:
        name: The setting.
        where: In which runs it has a place, in words.
        takes: Whether a plan's system takes it.
        values: With the reason of each.
        more: Values that set more than this one.
        fits: In which runs on such a system it has a place.
    """
    own = (Value(settings={f"broker.{name}": value}, why=why) for value, why in values.items())
    return Row(name=name, values=(*own, *more), takes=takes, fits=fits, where=where)


def kafka(plan: Plan) -> bool:
    """Tell whether the brokers are a Kafka that Logquake configures."""
    return plan.is_kafka


def ours(plan: Plan) -> bool:
    """Tell whether the brokers are a Kafka that Logquake configures, or the reference cluster."""
    return plan.is_kafka or plan.is_reference


def every(*all_of: Fits) -> Fits:
    """Return what holds if all of some do."""
    return lambda plan: all(each(plan) for each in all_of)


def since(*numbers: int) -> Fits:
    """Return what holds from a version of Kafka on."""
    return lambda plan: plan.version_numbers >= numbers


def doing(*workloads: str) -> Fits:
    """Return what holds with some workloads."""
    return lambda plan: plan.workload in workloads


def quorum(plan: Plan) -> bool:
    """Tell whether a quorum of Kafka's own keeps the metadata."""
    return plan.has_quorum


def keeper(plan: Plan) -> bool:
    """Tell whether ZooKeeper does."""
    return plan.kept_outside


def grouped(plan: Plan) -> bool:
    """Tell whether coordinators keep positions of groups."""
    return plan.is_grouped


def transactional(plan: Plan) -> bool:
    """Tell whether coordinators keep transactions."""
    return plan.transactional


def uncompacted(plan: Plan) -> bool:
    """Tell whether the run's topics are not compacted, which comes with settings of its own."""
    return not plan.keys and not any(COMPACT in each.get(POLICY, "") for each in plan.settings)


def small_segments(plan: Plan) -> bool:
    """Tell whether a topic's segment may be smaller than 1 MiB."""
    return not plan.is_kafka or plan.version_numbers < _LEAST_MEBIBYTE


def simulated(plan: Plan) -> bool:
    """Tell whether the run takes place in virtual time."""
    return plan.is_simulated


def real(plan: Plan) -> bool:
    """Tell whether it takes place in real time."""
    return not plan.is_simulated


def paced(plan: Plan) -> bool:
    """Tell whether clients send at a rate."""
    return plan.load is Load.LIGHT and plan.rate > 0


def trickles(plan: Plan) -> bool:
    """Tell whether so little is sent that small segments stay few, and batches fit into one."""
    small = plan.payload_bytes <= _FEW_BYTES and not plan.contents.sizes
    return paced(plan) and small and plan.rate * plan.sends_per_op <= _FEW_MESSAGES


def briefly(plan: Plan) -> bool:
    """Tell whether a run is so short that segments of some KiB stay some thousands."""
    return plan.time_limit_s <= _SHORT_RUN_S


def own_clients(plan: Plan) -> bool:
    """Tell whether clients are librdkafka, and have no settings that are the user's alone."""
    return real(plan) and not plan.wants_java and plan.clients is None


def javas(plan: Plan) -> bool:
    """Tell whether they are Kafka's own."""
    return plan.wants_java


def leaders_stay(plan: Plan) -> bool:
    """Tell whether no fault moves leaders by order, and has to see that they stay moved."""
    written = [each.kind for each in plan.faults or ()]
    ordered = {"preferred-election", "reassignment"}.isdisjoint(written)
    return ordered and {"leadership", "all"}.isdisjoint(plan.nemesis)
