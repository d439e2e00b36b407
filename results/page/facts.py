"""The facts about the main anomaly as cards: offset, acknowledging broker, next leader."""

from collections.abc import Iterator, Sequence

from results.page.case import Reign
from results.page.witness import Kind, Told
from results.record.clock import seconds
from results.record.verdict import Evidence, Example
from results.wording.headline import broker_name

_LEADERS = ("leader", "broker")
_EPOCHS = ("leader_epoch_then", "leader_epoch", "epoch")

Card = tuple[str, str]
"""(label, value) of a card: `offset`, `121`."""


def facts_of(
    witness: Example | None, reigns: Sequence[Reign] = (), told: Told | None = None
) -> tuple[Card, ...]:
    """Return the cards of the main anomaly, or no cards if there is none.

    Args:
        witness: The main anomaly: the example that the verdict's sentence describes.
        reigns: Periods of leadership of the anomaly's partition, in order of time. Without them,
            there is no card for the next leader.
        told: The main anomaly's events. Without them, there is no card for truncations.
    """
    cut = _truncated(told) if told else ()
    sent = _sent(witness.evidence, told) if witness and told else ()
    return (*_cards(witness, reigns), *sent, *cut) if witness else ()


def _sent(evidence: Evidence, told: Told) -> Iterator[Card]:
    """Yield a card with the name of the client that sent the main anomaly's message."""
    own = f"sent value {evidence.get('value')} "
    for each in told.events:
        if each.kind is Kind.SENT and each.what.startswith(own):
            yield "sent by", each.who
            return


def _truncated(told: Told) -> Iterator[Card]:
    for each in told.events:
        if each.kind is Kind.CUT and each.when:
            yield "truncated", f"{each.who}, {each.when if each.seen else f'at {each.when}'}"


def _cards(witness: Example, reigns: Sequence[Reign]) -> Iterator[Card]:
    evidence = witness.evidence
    if witness.topic:
        yield "partition", f"{witness.topic}-{witness.partition}"
    if witness.offset >= 0:
        yield "offset", str(witness.offset)
    if isinstance(acked_ns := evidence.get("acknowledged_ns"), int):
        yield "acknowledged at", seconds(acked_ns)
    if evidence.get("value") is not None:
        yield "value", str(evidence["value"])
    yield from _leaders(evidence, reigns)


def _leaders(evidence: Evidence, reigns: Sequence[Reign]) -> Iterator[Card]:
    then, epoch = evidence.get("leader_then"), _known(evidence, _EPOCHS)
    last = evidence.get("final_leader"), evidence.get("final_leader_epoch")
    if then is not None:
        yield "acknowledged by", _led(then, epoch)
    elif (leader := _known(evidence, _LEADERS)) is not None:
        yield "leader then", _led(leader, epoch)
    elif epoch is not None:
        yield "leader epoch", str(epoch)
    following = _next(evidence, reigns)
    if following is not None and following != last:
        yield "next leader", _led(*following)
    if following is not None and following == last:
        yield "next leader, and when the run ended", _led(*last)
    elif last[0] is not None:
        yield "leader when the run ended", _led(*last)


def _next(evidence: Evidence, reigns: Sequence[Reign]) -> tuple[object, object] | None:
    """Return (broker, epoch) of the next observed leader with a later epoch, or None."""
    then, epoch = evidence.get("leader_then"), evidence.get("leader_epoch_then")
    if not isinstance(epoch, int):
        return None
    later = [
        each
        for each in reigns
        if each.leader not in (-1, then) and each.epoch is not None and each.epoch > epoch
    ]
    first = min(later, key=lambda each: (each.epoch or 0, each.from_ns), default=None)
    return (first.leader, first.epoch) if first else None


def _known(evidence: Evidence, keys: Sequence[str]) -> object:
    return next((evidence[key] for key in keys if evidence.get(key) is not None), None)


def _led(broker: object, epoch: object) -> str:
    return broker_name(broker) + ("" if epoch is None else f", epoch {epoch}")
