"""What faults did to links, as measured: like `effects`, of which these are."""

from dataclasses import dataclass

from cluster.protocol import Link, Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEffect:
    """One directed link under a partition, probed with datagrams of our own.

    Attributes:
        sender, receiver: The link.
        cut: Whether the fault cuts it; otherwise it is the opposite of a one-way cut, which must go
            on working.
        before, during: Whether a probe arrived before the cut, and while it was in force.
    """

    sender: str
    receiver: str
    cut: bool
    before: bool
    during: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEffect:
    """A partition that is in force."""

    cut_id: str
    took_s: float
    links: tuple[LinkEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealed:
    """One directed link after a partition.

    Attributes:
        sender, receiver: The link.
        after: Whether a probe arrived after the cut was removed.
        cut_by_others: Another fault still cuts it, so that nothing can arrive.
        dropped_at_first: Packets dropped until the cut was confirmed, our own probes among them, as
            the receiver's firewall counted.
        dropped_while_held: Packets dropped from then on until the heal: the brokers' own, for
            nobody probes meanwhile (but for other faults whose cuts overlap).
    """

    sender: str
    receiver: str
    after: bool
    cut_by_others: bool
    dropped_at_first: int
    dropped_while_held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinEffect:
    """A partition that is over."""

    cut_id: str
    took_s: float
    links: tuple[LinkHealed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapPhase:
    """A time for which flapping links were cut, or open.

    Attributes:
        cut: Which of both.
        at_s: When it began, in seconds after the first.
        confirmed: Whether probes saw it in time: over no link, or over every one that no other
            fault cuts.
        dropped_before: Packets that the cut before it had dropped, as the firewalls counted.
    """

    cut: bool
    at_s: float
    confirmed: bool
    dropped_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapEffect:
    """Links that are cut and joined again and again; the phases until both kinds were seen."""

    cut_id: str
    took_s: float
    links: tuple[Link, ...]
    phases: tuple[FlapPhase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlappedEffect:
    """Links that flap no more.

    Attributes:
        cut_id, took_s: Which cut, and how long its end took to be seen.
        phases: All that there were.
        alive: Links over which a probe arrived.
        cut_by_others: Links that another fault still cuts.
    """

    cut_id: str
    took_s: float
    phases: tuple[FlapPhase, ...]
    alive: tuple[Link, ...]
    cut_by_others: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMeasured:
    """What became of numbered datagrams of our own over one link.

    Attributes:
        sent, arrived, copies, overtaken: As `cluster.protocol.Measured` counts them.
        fastest_ms, median_ms, slowest_ms: Of the round trips; None: nothing came back.
        spread_ms: Between the first and the last quarter of round trips; None: fewer than two.
        rate_kbit: Kilobits a second that arrived; None: fewer than two.
    """

    sent: int
    arrived: int
    copies: int
    overtaken: int
    fastest_ms: float | None
    median_ms: float | None
    slowest_ms: float | None
    spread_ms: float | None
    rate_kbit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """One directed link that is bad, measured before and since."""

    sender: str
    receiver: str
    before: LinkMeasured
    during: LinkMeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityEffect:
    """Links that are bad.

    Attributes:
        shape_id: Of the hosts' shape.
        took_s: Until it was confirmed.
        quality: What the links do to packets.
        links: Those that nobody cuts.
    """

    shape_id: str
    took_s: float
    quality: Quality
    links: tuple[LinkQuality, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClear:
    """One directed link that was bad.

    Attributes:
        sender, receiver: The link.
        after: What was measured; None: another fault cuts it, so that nothing can be.
    """

    sender: str
    receiver: str
    after: LinkMeasured | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearEffect:
    """Links that are as good as before.

    Attributes:
        shape_id: Of the hosts' shape.
        took_s: Until it was confirmed.
        links: Each of them.
        ended_before: Nodes whose links had been good for some of the time already: what made them
            bad there had died.
    """

    shape_id: str
    took_s: float
    links: tuple[LinkClear, ...]
    ended_before: tuple[str, ...] = ()
