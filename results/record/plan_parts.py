"""The parts of a plan: tables of its own, each strict about its keys."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from results.record.systems import FORMS as SYSTEM_FORMS
from results.record.terms import Rule

FORMS = {
    "system": SYSTEM_FORMS,
    "hosts": "they are one of auto, namespace, docker, ssh:HOSTS.toml, process, simulated",
    "name": "it becomes a folder; letters, digits, dot, underscore and hyphen, at most 61, a letter"
    " or a digit first",
    "client_kind": "it is java, or java:VERSION (java:4.3.1); or librdkafka, the default",
}
"""What some keys of a plan take, by key."""
CLIENT_KINDS = r"^librdkafka$|^java(:\d{1,4}(\.\d{1,4}){2,3})?$"
"""As `--client-kind` takes them."""


class Part(BaseModel):
    """Strict base of the plan's parts: an unknown key is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Budgets(Part):
    """Limits of recovery in seconds, counted from the last heal."""

    heal_s: float = Field(default=60, gt=0)
    """Until the faults are healed and all brokers are back; the other limits begin then."""
    unavailable_s: float = Field(default=30, gt=0)
    """Until every partition takes messages again."""
    election_s: float = Field(default=15, gt=0)
    """Until every partition, and the quorum of controllers, has a leader."""
    isr_s: float = Field(default=60, gt=0)
    """Until every in-sync replica set is full again."""
    group_s: float = Field(default=30, gt=0)
    """Until each group has read something of each partition that took a message."""


class Minimums(Part):
    """What must have happened for a run to be worth a verdict."""

    ok_sends: int = Field(default=100, ge=1)
    """Messages that were acknowledged."""
    ok_polls: int = Field(default=100, ge=0)
    """Messages that were read."""
    confirmed_faults: int | None = Field(default=None, ge=0)
    """None: half of those scheduled."""
    around_faults: int = Field(default=1, ge=0)
    """Ok ops before, during and after the faults, at least so many each."""


class PlannedFault(Part):
    """One fault written by hand: when, what, to whom, for how long."""

    at_s: float = Field(default=0, ge=0)
    """Seconds from the start of the main phase; with `when`: not before."""
    when: str | None = None
    """A state that is waited for: `leader epoch of log-0-0 >= 3`."""
    kind: str
    """A name in `nemesis`'s registry: kill, stop, pause, isolate, halves, one-way-in, ..."""
    target: str = "one"
    """A role expression: n2, one, leader(log-0,1), follower(log-0,1), last-isr(log-0,1), ..."""
    hold_s: float = Field(default=5, gt=0)
    """How long the fault lasts, in seconds, until it is healed."""


_NO_CHOICES = {"name", "topic", "transactions"}


class ScenarioPlan(Part):
    """What a scripted run was asked for: its choices, those that its scenario has."""

    name: str
    """As in `logquake scenario list`."""
    topic: str = "peter-test01"
    """The topic of its story."""
    rule: Rule | None = None
    """By what a follower truncates."""
    form: Literal["article", "clean"] | None = None
    """As the article tells it, or without a setting that excuses a loss."""
    way: Literal["restart", "move"] | None = None
    """Of the clean form: whether the broker restarts, or leadership is moved."""
    late: Literal["new-leader", "old-leader"] | None = None
    """Who hears the controller late."""
    elr: bool | None = None
    """Whether eligible leader replicas (KIP-966) are on."""
    transactions: bool | None = None
    """Whether its story writes in transactions; None: no."""

    @property
    def choices(self) -> dict[str, str]:
        """The choices that were made, by the option that makes them: `{"rule": "leader-epoch"}`."""
        given = self.model_dump(mode="json", exclude=_NO_CHOICES, exclude_none=True)
        return {key: {True: "on", False: "off"}.get(each, each) for key, each in given.items()}
