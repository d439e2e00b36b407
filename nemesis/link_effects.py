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
        stalled_by_others: Another fault stalled it, so that its silence proves nothing.
        dropped: Packets that the receiver's firewall had dropped when the cut was confirmed; of a
            link that others stall only these prove the cut. None: of another version.
    """

    sender: str
    receiver: str
    cut: bool
    before: bool
    during: bool
    stalled_by_others: bool = False
    dropped: int | None = None


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
        stalled_by_others: Another fault still stalls it, so that a probe comes too late.
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
    stalled_by_others: bool = False


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
        fastest_ms, median_ms: Of the round trips; None: nothing came back.
        spread_ms: Between the first and the last quarter of round trips; None: fewer than two.
        rate_kbit: Kilobits a second that arrived; None: fewer than two.
    """

    sent: int
    arrived: int
    copies: int
    overtaken: int
    fastest_ms: float | None
    median_ms: float | None
    spread_ms: float | None
    rate_kbit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """One directed link that is bad, measured before and since.

    Attributes:
        sender, receiver: The link.
        before, during: What was measured before, and when it was bad: of a link that stalls, when
            all came, or all came back.
        midway: Of a link that stalls: what had become of the same datagrams `midway_s` after they
            were sent.
        midway_s, over_s: When it was asked midway, and when all had come, in seconds after they
            were sent.
        flows, flows_held: From how many ports they were sent, and of how many of these none had
            arrived midway.
    """

    sender: str
    receiver: str
    before: LinkMeasured
    during: LinkMeasured
    midway: LinkMeasured | None = None
    midway_s: float = 0.0
    over_s: float = 0.0
    flows: int = 0
    flows_held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityEffect:
    """Links that are bad.

    Attributes:
        shape_id: Of the hosts' shape.
        took_s: Until it was confirmed.
        quality: What the links do to packets.
        links: Those that nobody cuts.
        back: Where links stall one way: the other way, over which packets pass, and answers wait.
    """

    shape_id: str
    took_s: float
    quality: Quality
    links: tuple[LinkQuality, ...]
    back: tuple[LinkQuality, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClear:
    """One directed link that was bad.

    Attributes:
        sender, receiver: The link.
        after: What was measured; None: another fault cuts it, so that nothing can be.
        let_go: Of a link that stalled: what became of datagrams that were sent into it right before
            its heal; None: none could be sent.
    """

    sender: str
    receiver: str
    after: LinkMeasured | None
    let_go: LinkMeasured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearEffect:
    """Links that are as good as before.

    Attributes:
        shape_id: Of the hosts' shape.
        took_s: Until it was confirmed.
        links: Each of them.
        ended_before: Nodes whose links had been good for some of the time already: what made them
            bad there had died.
        killed: Nodes where it had to be killed at the heal, and what it held is lost.
        dropped: So many packets found no room in stalls.
    """

    shape_id: str
    took_s: float
    links: tuple[LinkClear, ...]
    ended_before: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()
    dropped: int = 0
