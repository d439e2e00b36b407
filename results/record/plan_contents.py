"""The plan's table `contents`: the contents of messages, and how producers batch the messages.

A plan without this table behaves like an old plan: payloads of one size, plain headers, and the
client's default batches. `harness/drawing.py` chooses the table at random from the seed.
"""

from typing import Literal

from pydantic import Field, field_validator

from results.record.plan_parts import Part

LEAST_BYTES, MOST_BYTES = 8, 1_000_000
"""Limits of a payload's size in bytes."""
MOST_IN_FLIGHT = 5
"""Maximum number of requests that an idempotent producer may have in flight, because brokers
remember only the last five batches of a producer (KIP-98)."""


class Contents(Part):
    """The content of messages besides their numbers (values), and how producers batch messages."""

    sizes: tuple[tuple[int, int], ...] = ()
    """`[[4000, 50], [980000, 5000]]`: one message in 50 has a payload of 4000 bytes, and one in
    5000 has 980000 bytes. All other messages have `payload_bytes`."""
    headers: Literal["plain", "mixed"] = "plain"
    """`mixed` means: null or empty values, repeated or empty names, many headers, or long headers.
    """
    batch_bytes: int | None = Field(default=None, ge=1, le=100_000_000)
    """Producers' `batch.size`; by default the client's own default."""
    max_in_flight: int | None = Field(default=None, ge=1, le=1_000_000)
    """Maximum unanswered requests of a producer to a broker; by default the client's limit."""

    @field_validator("sizes")
    @classmethod
    def _are_shares(cls, sizes: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        for size, one_in in sizes:
            if not LEAST_BYTES <= size <= MOST_BYTES:
                raise ValueError(
                    f"a size of {size} bytes is not between {LEAST_BYTES} and {MOST_BYTES}"
                )
            if one_in < 1:
                raise ValueError(f"one message in {one_in} is not a possible share; use 1 or more")
        if sum(1 / one_in for _, one_in in sizes) > 1:
            raise ValueError("the sum of the shares is more than all messages")
        return sizes


def in_flight_refusal(contents: Contents, *, idempotent: bool) -> str | None:
    """Return why producers cannot have this many requests in flight at once; None if they can."""
    asked = contents.max_in_flight
    if not idempotent or asked is None or asked <= MOST_IN_FLIGHT:
        return None
    return (
        f"contents.max_in_flight: idempotent producers can have at most {MOST_IN_FLIGHT} requests"
        f" in flight, not {asked}"
    )
