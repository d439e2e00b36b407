"""Reject plan keys that affect more than the run: ssh hosts, images, passwords, programs.

A stranger may have written the plan. Then the faults of that plan would hit the user's machines.
The plan's image and jars would run with the user's rights. The brokers in the image would see the
user's password. So if the plan is not the user's own, each such key is accepted only if the user
repeats it on the command line. Some files name the address of a cluster, or the commands that start
brokers. Such a file is accepted only if the command line names it. This rule is also for the user's
own plans, because plans are copied, stored and played again.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from results.record.plan import Plan, PlanError, plan_from
from results.record.systems import SystemName, system_named
from results.trust import is_own_file

REACHING = ("hosts", "image", "clients", "system")
"""Plan keys that affect more than the run. Each has an option of the same name. `hosts` counts only
if its value is ssh hosts, and `system` counts only if its value names files."""
_TOLD_BY_THE_SYSTEM = ("version", "broker_ids")
"""Plan keys whose stored values are wrong if the user names another system."""


def refuse_unsaid(plan_file: Path, plan: Plan, said: Mapping[str, object]) -> None:
    """Raise an error if other users can write this plan, and its keys affect more than the run.

    The values of such keys are ssh hosts, images, programs, or client settings that contain
    passwords. There is no error if the user repeats the keys on the command line.

    Args:
        plan_file: The file, as the user named it.
        plan: The plan from this file and the options.
        said: The options, by key; None for an option that was not given.

    Raises:
        PlanError: One sentence with the key, the value and the option.
    """
    if not is_own_file(plan_file):
        _refuse(f"another user may have written the plan {plan_file}", reaching(plan), said)


def refuse_unsaid_system(
    plan_file: Path, values: Mapping[str, object], said: Mapping[str, object]
) -> None:
    """Before the system's files are read, check that the plan file may name this system.

    Args:
        plan_file: The plan file, as the user named it.
        values: The file's values.
        said: See `refuse_unsaid`.

    Raises:
        PlanError: Other users can write the plan file, or a plan file must not name this system.
    """
    named = _named(values.get("system"))
    if said.get("system") is not None or named is None:
        return
    if refusal := from_a_file(named, f"the plan {plan_file}"):
        raise PlanError(refusal)
    if named.is_yours and not is_own_file(plan_file):
        _refuse(f"another user may have written the plan {plan_file}", {"system": named.text}, said)


def from_a_file(named: SystemName, where: str) -> str | None:
    """Return None if a plan file may name this system, otherwise a sentence with the reason.

    Args:
        named: The system.
        where: The file that names the system: `the plan mine.toml`.
    """
    if not named.is_strange:
        return None
    return (
        f"{where} names the system {named.text}, whose file determines the commands and addresses"
        " of the run. You must name such a file on the command line: --system"
        f" {shlex.quote(named.text)}"
    )


def said_again(plan: Plan, said: Mapping[str, str | None], *, run_id: str) -> Plan:
    """Return a stored run's plan. The user must repeat each key that affects more than the run.

    The author of a stored plan is unknown, because the run may come from an archive.

    Args:
        plan: The stored plan.
        said: The options, by key; None for an option that was not given. The system may differ from
            the run's system.
        run_id: The stored run.

    Raises:
        PlanError: The user did not repeat such a key, or gave an option that the plan does not
            need.
    """
    told = {key: value for key, value in said.items() if value is not None}
    beyond = reaching(plan)
    _refuse(f"another user may have written the plan of {run_id}", beyond, told)
    if extra := sorted(told.keys() - beyond.keys() - {"system"}):
        raise PlanError(
            f"--{extra[0]} {told[extra[0]]}: the plan of {run_id} has no such value to confirm;"
            " remove this option"
        )
    if not told:
        return plan
    values = plan.model_dump(mode="json", exclude_none=True)
    if "system" in told:
        values = {key: value for key, value in values.items() if key not in _TOLD_BY_THE_SYSTEM}
    again = plan_from({**values, **told})
    if plan.hosts.startswith("ssh:") and not again.hosts.startswith("ssh:"):
        raise PlanError(
            f"--hosts {again.hosts}: {run_id} ran on ssh hosts; use --hosts ssh:HOSTS.toml"
        )
    return again


def reaching(plan: Plan) -> dict[str, str]:
    """Return the plan keys, with their values, that affect more than the run; see `REACHING`."""
    found = {key: getattr(plan, key) for key in REACHING}
    if not plan.hosts.startswith("ssh:"):
        del found["hosts"]
    if not plan.named.is_yours:
        del found["system"]
    return {key: str(value) for key, value in found.items() if value is not None}


def _named(system: object) -> SystemName | None:
    """Return the parsed name of a plan's system; None if the name is missing or invalid."""
    try:
        return system_named(system) if isinstance(system, str) else None
    except ValueError:
        return None


def _refuse(why: str, beyond: Mapping[str, str], said: Mapping[str, object]) -> None:
    for key, value in beyond.items():
        if said.get(key) is None:
            raise PlanError(
                f"{why}, and its {key} reaches beyond the run; to confirm it, add: --{key}"
                f" {shlex.quote(value)}"
            )
