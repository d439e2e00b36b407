"""The measured effects of faults: a dataclass for each kind. The `faults` table has them as JSON.

The columns `effect` and `heal_effect` contain one effect each, and its kind: `{"kind": "cut",
...}`. If no effect was confirmed, `effect` has the reason: `{"without_effect": ...}`. If a heal is
not confirmed, `heal_effect` has the reason: `{"not_healed": ...}`. A `SaysItself` effect describes
its own measurement in a sentence. The JSON contains this sentence as `told`, and pages print it.
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
    """A fault that another fault ended: for example, a paused broker was killed.

    Attributes:
        by_fault: The id of the other fault. The row of the other fault describes the effect on the
            broker.
    """

    by_fault: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftEffect:
    """A fault that stays active until the run ends, because the run's scenario requests it.

    Attributes:
        nodes: The nodes that stay as they are.
    """

    nodes: tuple[str, ...]


class SaysItself(Protocol):
    """An effect from a fault's own module: a frozen dataclass that describes its measurement."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def told(self) -> str:
        """Return the measurement as a phrase, such as `n2 stood still three times`."""


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
