"""What clients of a run send, and how: drawn from its seed, where the user has set nothing.

Payloads are mostly short, some have some KiB, and now and then one is nearly as long as brokers
take. What is drawn stands in the plan that is stored. A stored plan is whole: it draws nothing.
"""

from collections.abc import Mapping
from random import Random

from results.record.loads import Load
from results.record.plan import MESSAGE_FORMAT, Plan, plan_from
from results.record.plan_contents import MOST_IN_FLIGHT

WHOLE = "schema_version"
"""Only a plan that was stored has it."""
_KIB = 1024
_SHORT = (20, 400)
"""Bytes of most payloads."""
_LONG = ((_KIB, 16 * _KIB), (16 * _KIB, 256 * _KIB), (900_000, 995_000))
"""Bytes of those that are longer: a client's limit of 1,000,000 bytes, and a broker's of 1,000,012,
count key and headers, too."""
_KNOWN_LIMIT = 256 * _KIB
"""Of systems whose limit nobody here knows."""
_SHARES, _BUSY_SHARES = (30, 400, 1500), (300, 20_000, 60_000)
"""One message in so many is longer, in a run of up to two minutes; fewer in a longer one. Where
clients are not busy, these take some tens of MB on each broker."""
_SHORT_RUN_S = 120
_BUSY = 2000
"""From so many messages a second on."""
_LIMITS = ("message.max.bytes", "max.message.bytes", "max.request.size", "log.segment.bytes",
           "segment.bytes", "replica.fetch.max.bytes", "fetch.max.bytes")  # fmt: skip
_MARGIN = 5000
_COMPRESSIONS = ("none", "none", "gzip", "snappy", "lz4")
_WITH_ZSTD = (*_COMPRESSIONS, "zstd", "mixed")
_FIRST_WITH_ZSTD = (2, 1)
_LINGERS_MS, _BUSY_LINGERS_MS = (0, 1, 5, 5, 20, 50), (2, 5, 10, 30)
_BATCHES, _BUSY_BATCHES = (None, None, 1, 1000, 16_384, 200_000), (None, None, 16_384, 200_000)
_IN_FLIGHT = range(1, MOST_IN_FLIGHT + 1)
_BATCHING = frozenset({"batch.size", "batch.num.messages"})
_FLYING = frozenset({"max.in.flight", "max.in.flight.requests.per.connection"})
"""Settings of clients that decide the same as a key of the plan."""


def with_drawn(plan: Plan, said: Mapping[str, object]) -> Plan:
    """Return a plan with what is drawn of what messages hold and how they are batched.

    Nothing is drawn for a story, whose steps decide, or for virtual time: simulated clients send
    payloads of one size, and never compress.

    Args:
        plan: With defaults.
        said: The plan without them. What is in it is not drawn.
    """
    if plan.scenario is not None or plan.is_simulated or WHOLE in said:
        return plan
    keys = _of_all(plan)
    compressed = {**keys, **said}.get("compression") != "none"
    contents = {
        "sizes": [] if "payload_bytes" in said else _sizes(plan),
        # Payloads beside plain headers are hashes, which no codec makes smaller.
        "headers": _headers(plan, compressed=compressed),
        "batch_bytes": _batch_bytes(plan),
        "max_in_flight": _max_in_flight(plan),
    }
    own = said.get("contents")
    told = {
        **{key: value for key, value in contents.items() if value is not None},
        **(own if isinstance(own, Mapping) else {}),
    }
    return plan_from({**keys, **said, "contents": told})


def _headers(plan: Plan, *, compressed: bool) -> str | None:
    """Return which headers messages have; nothing where each of few keys has a mark instead."""
    if plan.keys:
        return None
    return "mixed" if compressed else _stream(plan, "headers").choice(("plain", "mixed"))


def _stream(plan: Plan, what: str) -> Random:
    """Return what one thing is drawn from: it is the same whatever is set of the others."""
    return Random(f"{plan.seed}/contents/{what}")


def _of_all(plan: Plan) -> dict[str, object]:
    """Return what was a key of plans before they had contents."""
    knows_zstd = plan.is_reference or (
        plan.is_kafka and not plan.named.is_yours and plan.version_numbers >= _FIRST_WITH_ZSTD
    )
    compressions: tuple[str, ...] = _WITH_ZSTD if knows_zstd else _COMPRESSIONS
    if MESSAGE_FORMAT in plan.broker:
        compressions = ("none",)
    lingers_ms = _BUSY_LINGERS_MS if _is_busy(plan) else _LINGERS_MS
    return {
        "payload_bytes": _between(_stream(plan, "payload"), *_SHORT),
        "linger_ms": _stream(plan, "linger").choice(lingers_ms),
        "compression": _chosen(_stream(plan, "compression"), compressions),
    }


def _chosen(random: Random, known: tuple[str, ...]) -> str:
    """Return a codec: of two releases the same, where both have it."""
    drawn = random.choice(_WITH_ZSTD)
    return drawn if drawn in known else random.choice(known)


def _sizes(plan: Plan) -> list[list[int]]:
    random, most = _stream(plan, "sizes"), _most_bytes(plan)
    shares = _BUSY_SHARES if _is_busy(plan) else _SHARES
    fewer = max(1, plan.time_limit_s / _SHORT_RUN_S)
    drawn = [
        [_between(random, *range_), round(share * fewer)]
        for range_, share in zip(_LONG, shares, strict=True)
    ]
    return [[size, share] for size, share in drawn if size <= most]


def _most_bytes(plan: Plan) -> int:
    """Return how long a payload may be, as far as is known here."""
    if not (plan.is_kafka or plan.is_reference):
        return _KNOWN_LIMIT
    if plan.clients is not None:  # Settings that are not read here may limit them.
        return 0
    settings = (plan.broker, plan.client, *plan.node.values())
    limits = [each[name] for each in settings for name in _LIMITS if name in each]
    # A limit that is no number is refused by whom it is for.
    numbers = [int(limit) - _MARGIN for limit in limits if limit.isdecimal()]
    return min(numbers, default=_LONG[-1][1])


def _batch_bytes(plan: Plan) -> int | None:
    if plan.clients is not None or not _BATCHING.isdisjoint(plan.client):
        return None
    return _stream(plan, "batches").choice(_BUSY_BATCHES if _is_busy(plan) else _BATCHES)


def _max_in_flight(plan: Plan) -> int | None:
    """Return how many requests are in flight; nothing of a producer that would change the order."""
    if plan.clients is not None or not _FLYING.isdisjoint(plan.client) or not plan.idempotent:
        return None
    return _stream(plan, "in flight").choice(_IN_FLIGHT)


def _is_busy(plan: Plan) -> bool:
    paced = plan.rate > 0 and plan.load is Load.LIGHT
    return not paced or plan.rate * plan.sends_per_op > _BUSY


def _between(random: Random, least: int, most: int) -> int:
    """Draw a number that is as likely within a factor of two here as there."""
    drawn: float = least * (most / least) ** random.random()
    return round(drawn)
