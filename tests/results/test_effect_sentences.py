"""What the page says of each effect that a fault can have, and of what it does not know."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import pytest

from cluster.protocol import Quality
from nemesis.broker_effects import (
    KillEffect,
    ProcessChange,
    Restarted,
    RollingRestartEffect,
    StruckAgain,
)
from nemesis.cluster_effects import (
    AssignedAgainEffect,
    ClockEffect,
    ClockShifted,
    ClockTrueEffect,
    ControllerFailoverEffect,
    DisputedElectionEffect,
    Led,
    PreferredElectionEffect,
    ReassignmentEffect,
    TopicChurnEffect,
    TopicsGoneEffect,
    UncleanElectionEffect,
    VoterStruck,
)
from nemesis.disk_effects import (
    BitFlipEffect,
    BitsRightEffect,
    DiskFullEffect,
    DiskRightEffect,
    FlippedBit,
    QuickDiskEffect,
    ReadOnlyEffect,
    RefetchedEffect,
    ReplicaWiped,
    SlowDiskEffect,
    WipeEffect,
)
from nemesis.effects import Effect, HealEffect, SaysItself, effect_to_json
from nemesis.link_effects import (
    ClearEffect,
    CutEffect,
    FlapEffect,
    FlappedEffect,
    FlapPhase,
    LinkClear,
    LinkEffect,
    LinkMeasured,
    LinkQuality,
    QualityEffect,
)
from results.wording.effects import effect_sentence, heal_sentence

PLACE = ("log-0", 1)
GONE = ProcessChange(node="n2", pid=811, start_ticks=1, state_before="S", state_after=None)
RUNS = ProcessChange(node="n2", pid=812, start_ticks=2, state_before=None, state_after="S")
GOOD = LinkMeasured(
    sent=50,
    arrived=50,
    copies=0,
    overtaken=0,
    fastest_ms=0.2,
    median_ms=0.3,
    spread_ms=0.1,
    rate_kbit=9000,
)
BAD = LinkMeasured(
    sent=50,
    arrived=40,
    copies=5,
    overtaken=4,
    fastest_ms=200.0,
    median_ms=210.0,
    spread_ms=90,
    rate_kbit=512,
)


def _led(leader: str | None, epoch: int, *replicas: str) -> Led:
    return Led(leader=leader, leader_epoch=epoch, replicas=replicas, isr=replicas[:1], asked="n3")


def _quality(**what: float) -> QualityEffect:
    link = LinkQuality(sender="n1", receiver="n2", before=GOOD, during=BAD)
    return QualityEffect(shape_id="fault-1", took_s=1, quality=Quality(**what), links=(link,))  # type: ignore[arg-type] # floats


STRUCK = StruckAgain(node="n2", pid=812, start_ticks=2, lived_s=1.25, back=True)


def _stalled(share: float) -> QualityEffect:
    whole = _quality(stall_ms=4000, stall_share=share)
    midway = replace(BAD, arrived=0)
    (link,) = whole.links
    held = replace(link, midway=midway, midway_s=1.4, over_s=4, flows=20, flows_held=9)
    return replace(whole, links=(held,))


def _silence(**what: object) -> CutEffect:
    link = LinkEffect(sender="n1", receiver="n2", cut=True, before=True, during=False, **what)  # type: ignore[arg-type] # As its fields.
    return CutEffect(cut_id="c", took_s=1, links=(link,))


SENTENCES: list[tuple[Any, str]] = [
    (
        KillEffect(
            took_s=4, processes=(GONE,), again=(STRUCK, replace(STRUCK, pid=813, back=False))
        ),
        (
            "process 811 of n2 is gone; process 812 of n2 was killed 1.2 s after its start, after"
            " it was registered; process 813 of n2 was killed 1.2 s after its start, before it was"
            " registered"
        ),
    ),
    (
        FlapEffect(cut_id="c", took_s=1, links=(("n1", "n2"),), phases=()),
        "probes alternately stopped arriving and arrived again on n1 → n2",
    ),
    (_silence(), "probes stopped arriving on 1 of 1 cut links (n1 → n2)"),
    (
        _silence(stalled_by_others=True, dropped=0),
        "probes stopped arriving on 0 of 1 cut links (n1 → n2)",
    ),
    (
        _silence(stalled_by_others=True, dropped=3),
        "probes stopped arriving on 1 of 1 cut links (n1 → n2)",
    ),
    (_quality(delay_ms=100), "datagrams on 1 link: fastest round trip 0.2 → 200.0 ms"),
    (_quality(jitter_ms=100), "datagrams on 1 link: spread of round trips 0.1 → 90.0 ms"),
    (_quality(loss=0.2), "datagrams on 1 link: lost 0.0 → 20.0 %"),
    (_quality(duplicate=0.2), "datagrams on 1 link: arrived twice 0.0 → 10.0 %"),
    (_quality(reorder=0.2), "datagrams on 1 link: overtaken 0.0 → 8.0 %"),
    (
        _stalled(1.0),
        "datagrams on 1 link: 0 of 50 had arrived after 1.4 s; after 4.0 s 40 had arrived",
    ),
    (
        _stalled(0.5),
        (
            "datagrams on 1 link: 9 of 20 flows stalled for 1.4 s or longer;"
            " after 4.0 s 40 had arrived"
        ),
    ),
    (_quality(rate_kbit=512), "datagrams on 1 link: rate 9,000.0 → 512.0 kbit/s"),
    (
        RollingRestartEffect(
            took_s=9,
            restarts=(
                Restarted(
                    node="n1",
                    pid_before=1,
                    start_ticks_before=1,
                    pid=2,
                    start_ticks=2,
                    graceful=True,
                    back_s=5.04,
                    whole_s=6,
                ),
            ),
        ),
        "n1: process 1 became 2, registered after 5.0 s",
    ),
    (
        WipeEffect(
            took_s=1,
            graceful=("n2",),
            processes=(GONE,),
            removed={},
            replicas=(
                ReplicaWiped(
                    topic="log-0", partition=1, log_start=0, log_end=9, files=4, bytes_wiped=1234
                ),
            ),
        ),
        (
            "process 811 of n2 is gone; ended by itself: n2; deleted from disk: 1 replica of"
            " 1,234 bytes"
        ),
    ),
    (
        BitFlipEffect(
            took_s=1,
            ran_s=0.5,
            latent=False,
            processes=(GONE,),
            found=("log-0-1: the sum is wrong",),
            flips=(
                FlippedBit(
                    node="n2",
                    topic="log-0",
                    partition=1,
                    segment="0.log",
                    position=9,
                    byte=70,
                    bit=3,
                    base_offset=7,
                    end_offset=8,
                    log_end=9,
                    recovery_point=0,
                ),
            ),
        ),
        "bit 3 of byte 70 of 0.log on n2, in the batch at offset 7: log-0-1: the sum is wrong",
    ),
    (
        DiskFullEffect(
            took_s=1,
            taken={"n2": 5000},
            errors={"n2": ("", "ENOSPC")},
            processes=(GONE,),
            ended=("n2",),
        ),
        (
            "5,000 bytes filled; a write to the disk of n2 fails with ENOSPC; brokers that exited"
            " because of that: n2"
        ),
    ),
    (
        ReadOnlyEffect(
            took_s=1,
            errors={"n2": ("", "EROFS")},
            graceful=(),
            processes=(GONE,),
            refused={"n2": 44},
        ),
        (
            "a write to the disk of n2 fails with EROFS; brokers that could not start on this disk:"
            " n2"
        ),
    ),
    (
        PreferredElectionEffect(
            took_s=1,
            place=PLACE,
            before=_led("n2", 3, "n1"),
            after=_led("n1", 4, "n1"),
            reordered=False,
        ),
        "log-0-1: n2 led in epoch 3, n1 leads in epoch 4",
    ),
    (
        UncleanElectionEffect(
            took_s=1,
            place=PLACE,
            last_isr=("n2", "n3"),
            before=_led(None, 3, "n1"),
            after=_led("n1", 4, "n1"),
        ),
        "log-0-1: no broker led in epoch 3, n1 leads in epoch 4, which was not in the ISR (n2, n3)",
    ),
    (
        ReassignmentEffect(
            took_s=1, place=PLACE, before=_led("n1", 3, "n1", "n2"), after=_led("n1", 3, "n1", "n3")
        ),
        "log-0-1: replicas n1, n2 → n1, n3",
    ),
    (
        ControllerFailoverEffect(
            took_s=1, before="n1", epoch_before=3, after="n2", epoch_after=5, gone=811, asked="n3"
        ),
        "n1 led the controllers in epoch 3, n2 leads in epoch 5; process 811 has ended",
    ),
    (
        TopicChurnEffect(took_s=1, seen="__churn-0", by="n2"),
        ("n2 has the new topic __churn-0 in its metadata"),
    ),
    (
        ClockEffect(
            took_s=1,
            offset_s=60,
            rate=1,
            clocks=(ClockShifted(node="n2", before_s=0.0, during_s=(60.01, 59.2)),),
        ),
        "the clock of n2's own log gained 59.2 to 60.0 s; it was 0.0 s ahead before the fault",
    ),
    (
        SlowDiskEffect(took_s=1, flushes_s={"n1": (0.001, 0.046)}),
        "a flush on n1 took 0.046 s, and 0.001 s before the fault",
    ),
    (
        DisputedElectionEffect(
            took_s=1,
            struck=(VoterStruck(node="n3", epoch=2, voted_for="n1"),),
            slow=_quality(delay_ms=60, loss=0.2),
        ),
        (
            "killed and restarted: n3 after its vote for n1 in epoch 2; datagrams on 1 link:"
            " fastest round trip 0.2 → 200.0 ms; lost 0.0 → 20.0 %"
        ),
    ),
]
HEALS: list[tuple[Any, str]] = [
    (
        FlappedEffect(
            cut_id="c",
            took_s=1,
            phases=(FlapPhase(cut=True, at_s=0, confirmed=True, dropped_before=0),),
            alive=(("n1", "n2"),),
            cut_by_others=(("n3", "n2"),),
        ),
        "probes arrive on 1 link again, after 1 phase (1 more is cut or stalled by other faults)",
    ),
    (
        ClearEffect(
            shape_id="s",
            took_s=1,
            links=(
                LinkClear(sender="n1", receiver="n2", after=GOOD),
                LinkClear(sender="n2", receiver="n1", after=None),
            ),
        ),
        "datagrams arrive as before on 1 of 2 links",
    ),
    (
        ClearEffect(
            shape_id="s",
            took_s=1,
            links=(LinkClear(sender="n1", receiver="n2", after=GOOD, let_go=BAD),),
            killed=("n1",),
            dropped=7,
        ),
        (
            "datagrams arrive as before on 1 of 1 link; 40 of 50 datagrams sent just before the"
            " heal arrived; 7 packets did not fit into the queue while links stalled; the traffic"
            " shaper at n1 had to be killed"
        ),
    ),
    (
        ClearEffect(shape_id="s", took_s=1, links=(), ended_before=("n1", "n3")),
        "datagrams arrive as before on 0 of 0 links; the traffic shaper at n1, n3 had died before",
    ),
    (
        RefetchedEffect(
            took_s=7, processes=(RUNS,), refetched=("log-0-0",), missing=("log-0-1",), log_ends={}
        ),
        "n2 registered again after 7.0 s; in the ISR again: 1 replica, not log-0-1",
    ),
    (
        BitsRightEffect(
            took_s=7, processes=(RUNS,), flipped_back=("log-0-0",), gone=("log-0-1",), sound=1200
        ),
        (
            "flipped back in log-0-0; truncated by the broker itself in log-0-1; 1,200 batches"
            " read, all checksums match; n2 registered again after 7.0 s"
        ),
    ),
    (
        DiskRightEffect(took_s=7, errors={"n2": ""}, processes=(RUNS,)),
        "the disk accepts writes again; n2 registered again after 7.0 s",
    ),
    (
        AssignedAgainEffect(took_s=1, place=PLACE, after=_led("n1", 4, "n1", "n2")),
        "log-0-1: replicas n1, n2",
    ),
    (
        TopicsGoneEffect(took_s=1, created=7, deleted=5, refused=0, asked=("n1", "n2")),
        "7 topics had been created; the metadata of n1, n2 has none of them any more",
    ),
    (
        ClockTrueEffect(took_s=1, ahead_s={"n2": 0.04}, unasked=()),
        "by the brokers' own logs: n2 0.0 s ahead",
    ),
    (
        QuickDiskEffect(took_s=1, flushes_s={"n1": 0.001}),
        "a flush takes 0.001 s on n1",
    ),
    (
        QuickDiskEffect(took_s=1, flushes_s={}),
        "no flush measured: no broker runs there",
    ),
]
OF_OLD = {
    "StopEffect", "PauseEffect", "PowerLossEffect",
    "JoinEffect", "BackEffect", "SupersededEffect", "LeftEffect",
}  # fmt: skip
"""Told on the pages of whole runs, in other tests."""


@pytest.mark.parametrize(("effect", "sentence"), SENTENCES)
def test_an_effect_is_told(effect: Any, sentence: str) -> None:  # noqa: ANN401 - any of them
    assert effect_sentence(effect_to_json(effect), confirmed=True) == sentence


@pytest.mark.parametrize(("effect", "sentence"), HEALS)
def test_a_heal_is_told(effect: Any, sentence: str) -> None:  # noqa: ANN401 - any of them
    assert heal_sentence(effect_to_json(effect)) == sentence


def test_every_effect_that_there_is_is_told() -> None:
    told = {type(effect).__name__ for effect, _ in (*SENTENCES, *HEALS)}
    every = {each.__name__ for each in (*get_args(Effect), *get_args(HealEffect))}
    assert every - OF_OLD - {SaysItself.__name__} == told


@dataclass(frozen=True, slots=True, kw_only=True)
class HotEffect:
    """Of a fault's own module."""

    degrees: int

    @property
    def told(self) -> str:
        return f"it is {self.degrees} degrees warm"


def test_an_effect_that_says_itself_what_it_is_is_told_so() -> None:
    text = effect_to_json(HotEffect(degrees=90))
    assert json.loads(text) == {"kind": "hot", "degrees": 90, "told": "it is 90 degrees warm"}
    assert effect_sentence(text, confirmed=True) == "it is 90 degrees warm"
    assert heal_sentence(text) == "it is 90 degrees warm"
    assert heal_sentence('{"kind": "hot", "degrees": 90, "told": 7}') == "degrees 90, told 7"


@pytest.mark.parametrize("effect", [effect for effect, _ in SENTENCES])
def test_a_damaged_effect_is_shown_as_it_is(effect: Any) -> None:  # noqa: ANN401 - any of them
    kind = json.loads(effect_to_json(effect))["kind"]
    fields = asdict(effect)
    for missing in fields:
        rest = {key: value for key, value in fields.items() if key != missing}
        assert isinstance(effect_sentence(json.dumps({"kind": kind, **rest}), confirmed=True), str)
        wrong = {**fields, missing: 7}
        assert isinstance(effect_sentence(json.dumps({"kind": kind, **wrong}), confirmed=True), str)
    assert effect_sentence('{"kind": "novel", "what": 3}', confirmed=True) == "what 3"
    assert heal_sentence('{"kind": "novel", "what": 3}') == "what 3"


NOTHING_SENT = {"sent": 0, "arrived": 0}
SILENT = {"before": NOTHING_SENT, "during": NOTHING_SENT}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "quality", "quality": {"loss": 1}, "links": [SILENT]}),
        '{"kind": "bits-right", "sound": Infinity, "processes": []}',
        "[" * 100_000,
    ],
)
def test_numbers_that_cannot_be_are_shown_as_they_are(text: str) -> None:
    assert effect_sentence(text, confirmed=True)
    assert heal_sentence(text)
