"""What faults did, as measured: one dataclass a kind, JSON in the `faults` table.

`effect` and `heal_effect` of a row are one of these, with `kind` added: `{"kind": "cut", ...}`.
One that says itself what it measured (`SaysItself`) has that added as `told`, and pages print it.
"""

import json
import re
from dataclasses import Field, asdict, dataclass
from typing import Any, ClassVar, Protocol

from nemesis.broker_effects import (
    BackEffect,
    KillEffect,
    PauseEffect,
    RollingRestartEffect,
    StopEffect,
)
from nemesis.cluster_effects import ClusterEffect, ClusterHeal
from nemesis.disk_effects import (
    BitFlipEffect,
    BitsRightEffect,
    DiskFullEffect,
    DiskRightEffect,
    PowerLossEffect,
    QuickDiskEffect,
    ReadOnlyEffect,
    RefetchedEffect,
    SlowDiskEffect,
    WipeEffect,
)
from nemesis.link_effects import (
    ClearEffect,
    CutEffect,
    FlapEffect,
    FlappedEffect,
    JoinEffect,
    QualityEffect,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededEffect:
    """A fault that another one ended: a paused broker that was killed is paused no more.

    Attributes:
        by_fault: The other one; what it did to the broker is in its own row.
    """

    by_fault: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftEffect:
    """A fault that was left in force to the end, because the run's script wanted it so.

    Attributes:
        nodes: Which stay as they are.
    """

    nodes: tuple[str, ...]


class SaysItself(Protocol):
    """An effect of a fault's own module: a frozen dataclass that says what it measured."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def told(self) -> str:
        """What was measured, for people: `n2 stood still three times`."""


Effect = (
    SaysItself
    | CutEffect
    | FlapEffect
    | QualityEffect
    | KillEffect
    | StopEffect
    | PauseEffect
    | PowerLossEffect
    | RollingRestartEffect
    | WipeEffect
    | BitFlipEffect
    | DiskFullEffect
    | ReadOnlyEffect
    | SlowDiskEffect
    | ClusterEffect
)
HealEffect = (
    SaysItself
    | JoinEffect
    | FlappedEffect
    | ClearEffect
    | BackEffect
    | RefetchedEffect
    | BitsRightEffect
    | DiskRightEffect
    | QuickDiskEffect
    | ClusterHeal
    | SupersededEffect
    | LeftEffect
)


def effect_to_json(effect: Effect | HealEffect) -> str:
    """Return an effect as the JSON of the `faults` table."""
    words = re.findall(r"[A-Z][a-z]+", type(effect).__name__)
    kind = "-".join(word.lower() for word in words if word != "Effect")
    told = getattr(effect, "told", None)
    said = {} if told is None else {"told": told}
    return json.dumps({"kind": kind, **asdict(effect), **said})
