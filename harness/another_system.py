"""Change the plan of a stored run so that another system can play it.

The seed, the faults, the clients and the settings do not change. Plan keys that only the old system
knows are left out. Broker settings do not change either. Kafka and the reference cluster ignore
settings with unknown names, but refuse to start if a known setting has an invalid value.
"""

from dataclasses import dataclass
from typing import Any

from harness.scenarios.choices import choice_words, refuse_another_story
from harness.swarm import misfits
from results.record.group_ways import CONSUMER, consumer_refusal
from results.record.plan import SIMULATED, Plan, PlanError, plan_from
from results.record.systems import SystemKind

_OF_THE_OLD = ("version", "broker_ids")
"""The plan keys whose values the old system reported when the run began."""
_OF_KAFKA = ("features", "disk_mb", "image")
"""The plan keys that work only with Kafka, or only with nodes that Logquake creates."""
_OF_BROKERS = ("broker", "node")
"""The plan keys for settings that the owner of an attached cluster has already chosen."""
_MIN_INSYNC: int = Plan.model_fields["min_insync"].default


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A stored run's plan, changed for another system.

    Attributes:
        plan: The plan that will be played.
        notes: For each difference from the stored run, except the system, one sentence.
    """

    plan: Plan
    notes: tuple[str, ...] = ()


def moved(plan: Plan, system: str, *, run_id: str) -> Moved:
    """Return a stored run's plan for another system.

    Args:
        plan: The stored plan.
        system: The new system, as the user named it.
        run_id: The stored run, for messages.

    Raises:
        PlanError: There is no such system, or the system cannot play the plan.
    """
    values = without_prefix(plan.model_dump(mode="json", exclude_none=True))
    new = plan_from({"system": system})
    gone = [*_OF_THE_OLD]
    if not new.is_reference:
        gone.append("bug")
    if new.named.is_strange:
        gone += _OF_KAFKA
    if new.named.kind is SystemKind.ATTACHED:
        gone += _OF_BROKERS
    notes = []
    if plan.named.kind is SystemKind.ATTACHED and _without_owners_settings(values):
        notes.append(f"the attached cluster's broker settings are not applied to {system}")
    left_out = [key for key in gone if values.pop(key, None) and key not in _OF_THE_OLD]
    notes += [
        f"{key} of the stored plan is left out, because {system} does not have it"
        for key in left_out
    ]
    if _other_hosts(plan, new):
        values["hosts"] = "auto"
        notes.append(
            f"hosts {plan.hosts} of the stored plan do not work with {system}, so hosts is auto"
        )
    if plan.mode != new.mode and not new.named.is_strange:
        notes.append(_other_mode(plan, new, run_id))
    if plan.group_protocol == CONSUMER and "group_protocol" in plan.swarmed:
        notes += _without_consumer(values, system)
    played = plan_from({**values, "system": system})
    for key, setting in misfits(plan, played).items():
        name = key.partition(".")[2]
        played = _without(played, name)
        notes.append(
            f"{name} = {setting}, which the swarm chose, is left out, because {system}"
            " does not have it"
        )
    _refuse_another_story(played, run_id)
    return Moved(plan=played, notes=tuple(notes))


def _without_consumer(values: dict[str, Any], system: str) -> list[str]:
    """Remove the consumer protocol that the swarm chose, if the new system does not support it.

    Returns:
        A list with one sentence about the removal; an empty list if nothing was removed.
    """
    without = {key: value for key, value in values.items() if key != "group_protocol"}
    without["swarmed"] = [key for key in values["swarmed"] if key != "group_protocol"]
    if (why := consumer_refusal(plan_from({**without, "system": system}))) is None:
        return []
    del values["group_protocol"]
    values |= without
    return [f"group_protocol = {CONSUMER}, which the swarm chose, is left out: {why}"]


def _without(plan: Plan, name: str) -> Plan:
    """Return a plan without one broker setting."""
    broker = {each: value for each, value in plan.broker.items() if each != name}
    swarmed = tuple(each for each in plan.swarmed if each != f"broker.{name}")
    return plan.model_copy(update={"broker": broker, "swarmed": swarmed})


def without_prefix(values: dict[str, Any]) -> dict[str, Any]:
    """Return a plan's values, and remove the topic prefix of an attached cluster from them.

    On an attached cluster, each run has its own prefix. The names of the run's topics and the
    targets of its faults start with that prefix.
    """
    prefix = values.get("prefix")
    if not prefix:
        return values
    plain = {key: value for key, value in values.items() if key != "prefix"}
    plain["faults"] = [
        {key: each.replace(prefix, "") if isinstance(each, str) else each
         for key, each in fault.items()}
        for fault in values.get("faults") or ()
    ]  # fmt: skip
    if values.get("faults") is None:
        del plain["faults"]  # They come from the seed.
    return plain


def _without_owners_settings(values: dict[str, Any]) -> bool:
    """Remove the settings of attached brokers from a plan; return whether the plan had any."""
    values["min_insync"] = min(_MIN_INSYNC, values["replication"])
    gone = [values.pop(key, None) for key in _OF_BROKERS]
    return any(gone)


def _other_hosts(old: Plan, new: Plan) -> bool:
    """Return whether the new system needs other hosts than the hosts of the stored plan."""
    if old.hosts == "auto":
        return False
    attached = SystemKind.ATTACHED in {old.named.kind, new.named.kind}
    return attached or (old.hosts == SIMULATED and not new.is_reference)


def _other_mode(old: Plan, new: Plan, run_id: str) -> str:
    sentence = f"{run_id} ran in the mode {old.mode}, but {new.system} has the mode {new.mode}"
    if new.named.mode is not None:
        return sentence
    same = f"{new.system}:{old.mode}"
    try:
        plan_from({"system": same})
    except PlanError:  # No version has all modes.
        return sentence
    return f"{sentence}; for the same mode, use {same}"


def _refuse_another_story(plan: Plan, run_id: str) -> None:
    """Raise an error if the scenario has other steps on the new system.

    Raises:
        PlanError: The steps differ. The message names the command that plays the scenario on the
            new system.
    """
    if plan.scenario is None:
        return
    try:
        refuse_another_story(plan)
    except PlanError as otherwise:
        words = " ".join((plan.scenario.name, *choice_words(plan.scenario.choices)))
        raise PlanError(
            f"the scenario of {run_id} has other steps on {plan.system}; rerun it by its name:"
            f" logquake repro {words} --system {plan.system}"
        ) from otherwise
