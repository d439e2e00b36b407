"""Choose a run's messages and their batching at random, unless the user has set them.

The random numbers come from the run's seed. Most payloads are short, some have 1 to 256 KiB, and a
few are almost as long as a broker accepts. The stored plan holds all chosen values. So nothing is
chosen again for a stored plan.
"""

from collections.abc import Mapping
from random import Random

from results.record.loads import Load
from results.record.plan import MESSAGE_FORMAT, Plan, plan_from
from results.record.plan_contents import MOST_IN_FLIGHT

WHOLE = "schema_version"
"""The plan key that only stored plans have."""
_KIB = 1024
_SHORT = (20, 400)
"""The smallest and the largest size of most payloads, in bytes."""
_LONG = ((_KIB, 16 * _KIB), (16 * _KIB, 256 * _KIB), (900_000, 995_000))
"""The bytes of longer payloads, as three ranges. The last range stays below two limits: 1,000,000
bytes in a client and 1,000,012 in a broker. Both limits count the key and the headers, too."""
_KNOWN_LIMIT = 256 * _KIB
"""The longest payload for a system whose limit is unknown."""
_SHARES, _BUSY_SHARES = (30, 400, 1500), (300, 20_000, 60_000)
"""A number N for each range in `_LONG`: one message in N has a payload from this range. In a run of
more than two minutes, N is larger. If clients are not busy, these messages take some tens of MB on
each broker."""
_SHORT_RUN_S = 120
_BUSY = 2000
"""A run whose clients send more messages than this in a second is called busy."""
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
"""Client settings with the same effect as the plan's `max_in_flight`."""


def with_drawn(plan: Plan, said: Mapping[str, object]) -> Plan:
    """Return a plan with random values for the contents and the batching of messages.

    The plan of a scenario stays as it is, because its steps determine the messages. A plan in
    virtual time also stays as it is: simulated clients send payloads of one size, and never
    compress.

    Args:
        plan: The plan with defaults.
        said: The user's plan without defaults. The keys in this plan keep their values.
    """
    if plan.scenario is not None or plan.is_simulated or WHOLE in said:
        return plan
    keys = _of_all(plan)
    compressed = {**keys, **said}.get("compression") != "none"
    contents = {
        "sizes": [] if "payload_bytes" in said else _sizes(plan),
        # Messages with plain headers have hashes as payloads, which no codec can compress.
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
    """Return the kind of the messages' headers, or None if the plan has a fixed number of keys."""
    if plan.keys:
        return None
    return "mixed" if compressed else _stream(plan, "headers").choice(("plain", "mixed"))


def _stream(plan: Plan, what: str) -> Random:
    """Return the random stream for one value. Its numbers do not depend on the other values."""
    return Random(f"{plan.seed}/contents/{what}")


def _of_all(plan: Plan) -> dict[str, object]:
    """Return random values for the keys that old plans have, too: size, linger and compression."""
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
    """Return a random codec.

    With equal seeds, two releases choose the same codec if both releases support it.
    """
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
    """Return the longest payload that the known limits allow."""
    if not (plan.is_kafka or plan.is_reference):
        return _KNOWN_LIMIT
    if plan.clients is not None:  # The clients' file is not read, and may set a limit.
        return 0
    settings = (plan.broker, plan.client, *plan.node.values())
    limits = [each[name] for each in settings for name in _LIMITS if name in each]
    # Kafka itself refuses a limit that is not a number.
    numbers = [int(limit) - _MARGIN for limit in limits if limit.isdecimal()]
    return min(numbers, default=_LONG[-1][1])


def _batch_bytes(plan: Plan) -> int | None:
    if plan.clients is not None or not _BATCHING.isdisjoint(plan.client):
        return None
    return _stream(plan, "batches").choice(_BUSY_BATCHES if _is_busy(plan) else _BATCHES)


def _max_in_flight(plan: Plan) -> int | None:
    """Return a random limit for requests in flight.

    The result is None if several requests in flight could reorder messages.
    """
    if plan.clients is not None or not _FLYING.isdisjoint(plan.client) or not plan.idempotent:
        return None
    return _stream(plan, "in flight").choice(_IN_FLIGHT)


def _is_busy(plan: Plan) -> bool:
    paced = plan.rate > 0 and plan.load is Load.LIGHT
    return not paced or plan.rate * plan.sends_per_op > _BUSY


def _between(random: Random, least: int, most: int) -> int:
    """Return a random number between two bounds; its logarithm is uniformly distributed."""
    drawn: float = least * (most / least) ** random.random()
    return round(drawn)
