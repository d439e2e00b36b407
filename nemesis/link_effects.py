"""The measured effects of faults on links. `effects` lists these classes, too."""

from dataclasses import dataclass

from cluster.protocol import Link, Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEffect:
    """One directed link of a network partition, probed with test datagrams.

    Attributes:
        sender, receiver: The link.
        cut: Whether the fault cuts this link. If False, the link is the open direction of a one-way
            cut, and must still work.
        before, during: Whether a probe arrived before the cut, and whether one arrived during the
            cut.
        stalled_by_others: Whether another fault stalls the link, so that its silence proves
            nothing.
        dropped: Packets that the receiver's firewall had dropped when the cut was confirmed. If
            other faults stall the link, only this count proves the cut. None in records of older
            versions.
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
    """A network partition that is active."""

    cut_id: str
    took_s: float
    links: tuple[LinkEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealed:
    """One directed link after a network partition.

    Attributes:
        sender, receiver: The link.
        after: Whether a probe arrived after the cut was removed.
        cut_by_others: Whether another fault still cuts the link, so that nothing can arrive.
        stalled_by_others: Whether another fault still stalls the link, so that a probe comes too
            late.
        dropped_at_first: Packets, including test probes, that the receiver's firewall dropped
            before the cut was confirmed.
        dropped_while_held: Packets that were dropped between the confirmation and the heal. Servers
            or clients sent these packets, because the fault sends no probes then. Probes of other
            faults are included if their cuts overlap.
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
    """A network partition that has ended."""

    cut_id: str
    took_s: float
    links: tuple[LinkHealed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapPhase:
    """A phase in which flapping links were cut, or open.

    Attributes:
        cut: Whether the links were cut.
        at_s: The start of the phase, in seconds after the first phase.
        confirmed: Whether probes confirmed the phase in time. In a cut phase no probe arrived. In
            an open phase all probes arrived, except over links that another fault cuts or stalls.
        dropped_before: Packets that the cut of the previous phase dropped, counted by the
            firewalls. 0 if the links were open before this phase.
    """

    cut: bool
    at_s: float
    confirmed: bool
    dropped_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapEffect:
    """Flapping links. The list of phases ends when a cut phase and an open phase are confirmed."""

    cut_id: str
    took_s: float
    links: tuple[Link, ...]
    phases: tuple[FlapPhase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlappedEffect:
    """Links that no longer flap.

    Attributes:
        cut_id, took_s: The id of the cut, and the seconds until its end was confirmed.
        phases: All phases.
        alive: Links over which a probe arrived.
        cut_by_others: Links over which no probe arrived, because another fault still cuts or stalls
            them.
    """

    cut_id: str
    took_s: float
    phases: tuple[FlapPhase, ...]
    alive: tuple[Link, ...]
    cut_by_others: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMeasured:
    """Measurement of a link with numbered test datagrams.

    Attributes:
        sent, arrived, copies, overtaken: The counts of `cluster.protocol.Measured`.
        fastest_ms, median_ms: The fastest and the median round trip. None if nothing came back.
        spread_ms: The distance between the first and third quartile of the round trip times. None
            if there are fewer than two round trips.
        rate_kbit: Kilobits a second that arrived. None for fewer than two datagrams.
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
    """One degraded directed link, measured before and during the fault.

    Attributes:
        sender, receiver: The link.
        before, during: The measurement before the fault, and during it. For a stalling link,
            `during` is measured when nearly all datagrams or answers have arrived.
        midway: For a stalling link: the measurement of the same datagrams, `midway_s` after they
            were sent.
        midway_s, over_s: Seconds from the sending to the midway measurement, and to the measurement
            when nearly all datagrams had arrived.
        flows, flows_held: The number of sending ports, and the number of ports whose datagrams all
            arrived after the midway measurement.
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
    """Links that are degraded.

    Attributes:
        shape_id: The id of the traffic shape on the hosts.
        took_s: Seconds until the fault was confirmed.
        quality: The effect of the links on packets.
        links: The links that worked before the fault, and that no other fault cuts.
        back: For links that stall in one direction: the opposite direction. The packets in this
            direction pass, but the answers to these packets wait.
    """

    shape_id: str
    took_s: float
    quality: Quality
    links: tuple[LinkQuality, ...]
    back: tuple[LinkQuality, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClear:
    """One directed link that was degraded.

    Attributes:
        sender, receiver: The link.
        after: The measurement after the heal. None if another fault cuts the link.
        let_go: For a stalling link: the measurement of datagrams that were sent just before its
            heal. None if no datagram could be sent.
    """

    sender: str
    receiver: str
    after: LinkMeasured | None
    let_go: LinkMeasured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearEffect:
    """Links that are no longer degraded.

    Attributes:
        shape_id: The id of the traffic shape on the hosts.
        took_s: Seconds until the heal was confirmed.
        links: All links of the fault.
        ended_before: Nodes on which the process that shapes the links had died, so that the links
            became good too early.
        killed: Nodes on which the process that shapes the links was killed at the heal. The packets
            that it held are lost.
        dropped: Packets that were lost because a stalled link's queue was full.
    """

    shape_id: str
    took_s: float
    links: tuple[LinkClear, ...]
    ended_before: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()
    dropped: int = 0
