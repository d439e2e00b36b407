"""The nested tables of a plan. Each one refuses unknown keys."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from results.record.systems import FORMS as SYSTEM_FORMS
from results.record.terms import Rule

FORMS = {
    "system": SYSTEM_FORMS,
    "hosts": "use one of auto, namespace, docker, ssh:HOSTS.toml, process, simulated",
    "name": "it becomes the name of a folder; use up to 61 letters, digits, dots, underscores or"
    " hyphens, with a letter or digit first",
    "client_kind": "use java, java:VERSION (such as java:4.3.1), or librdkafka (the default)",
}
"""For some keys of the plan, a description of the values that the key accepts."""
CLIENT_KINDS = r"^librdkafka$|^java(:\d{1,4}(\.\d{1,4}){2,3})?$"
"""Pattern of the values that `--client-kind` accepts."""


class Part(BaseModel):
    """Base class of a plan's tables. A table with an unknown key is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Budgets(Part):
    """Time limits of recovery in seconds, counted from the last heal."""

    heal_s: float = Field(default=60, gt=0)
    """Limit until the faults are healed and all brokers are back. The other limits begin at that
    time."""
    unavailable_s: float = Field(default=30, gt=0)
    """Limit until every partition accepts messages again."""
    election_s: float = Field(default=15, gt=0)
    """Limit until every partition, and the quorum of controllers, has a leader."""
    isr_s: float = Field(default=60, gt=0)
    """Limit until every in-sync replica set is full again."""
    group_s: float = Field(default=30, gt=0)
    """Limit until each group has read from each partition that accepted messages."""


class Minimums(Part):
    """Minimum activity that a run needs for a verdict."""

    ok_sends: int = Field(default=100, ge=1)
    """Minimum number of acknowledged messages."""
    ok_polls: int = Field(default=100, ge=0)
    """Minimum number of messages that were read."""
    confirmed_faults: int | None = Field(default=None, ge=0)
    """Minimum number of confirmed faults; by default half of the scheduled faults."""
    around_faults: int = Field(default=1, ge=0)
    """Minimum number of successful ops in each of three periods: before, during and after the
    faults."""


class PlannedFault(Part):
    """A handwritten fault: when it begins, its kind, its target and its duration."""

    at_s: float = Field(default=0, ge=0)
    """Seconds from the start of the main phase; with `when`, the earliest time."""
    when: str | None = None
    """A condition to wait for: `leader epoch of log-0-0 >= 3`."""
    kind: str
    """A name in the registry of `nemesis`: kill, stop, pause, isolate, halves, one-way-in, ..."""
    target: str = "one"
    """A role expression: n2, one, leader(log-0,1), follower(log-0,1), last-isr(log-0,1), ..."""
    hold_s: float = Field(default=5, gt=0)
    """The seconds from the confirmation of the fault until its heal begins. A heal may take long,
    for example until a broker has started again."""


_NO_CHOICES = {"name", "topic", "transactions"}


class ScenarioPlan(Part):
    """The scenario of a scripted run, with the choices that this scenario offers."""

    name: str
    """A name from `logquake scenario list`."""
    topic: str = "peter-test01"
    """The topic that the scenario uses."""
    rule: Rule | None = None
    """The rule by which a follower truncates its log."""
    form: Literal["article", "clean"] | None = None
    """`article`: as in the article. `clean`: without a setting that allows a loss."""
    way: Literal["restart", "move"] | None = None
    """In the form `clean`: whether the scenario restarts the broker or moves the leadership."""
    late: Literal["new-leader", "old-leader"] | None = None
    """The node that is late to learn of the new leader that the controller chose."""
    elr: bool | None = None
    """Whether eligible leader replicas (KIP-966) are on."""
    transactions: bool | None = None
    """Whether the scenario writes in transactions; by default it does not."""

    @property
    def choices(self) -> dict[str, str]:
        """The choices of the user, by option: `{"rule": "leader-epoch"}`."""
        given = self.model_dump(mode="json", exclude=_NO_CHOICES, exclude_none=True)
        return {key: {True: "on", False: "off"}.get(each, each) for key, each in given.items()}
