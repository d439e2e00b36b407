"""What a plan reaches beyond its run: machines by ssh, an image, settings with passwords, programs.

A plan may be a stranger's. Its faults would be played on machines of the user's, its image and its
jars run as the user, and the user's password shown to the brokers of that image. So where the plan
is not the user's own, each of these counts only if the user says it again on the command line.

A file that says how to reach a cluster, or with which commands brokers are started, counts only if
the command line names it, whoever wrote the plan: such a plan is copied, stored and played again.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from results.record.plan import Plan, PlanError, plan_from
from results.record.systems import SystemName, system_named
from results.trust import is_own_file

REACHING = ("hosts", "image", "clients", "system")
"""Keys of a plan, each with an option of its name; hosts reach out by ssh only, and systems only if
they name files."""
_TOLD_BY_THE_SYSTEM = ("version", "broker_ids")
"""Keys that are another system's as soon as the user names one."""


def refuse_unsaid(plan_file: Path, plan: Plan, said: Mapping[str, object]) -> None:
    """Refuse what reaches beyond the run in the plan of a file that others may have written.

    Args:
        plan_file: As the user named it.
        plan: Put together from it and the options.
        said: The options, by key; None: it was not given.

    Raises:
        PlanError: One sentence with the key, the value and the option.
    """
    if not is_own_file(plan_file):
        _refuse(f"the plan {plan_file} can be a stranger's", reaching(plan), said)


def refuse_unsaid_system(
    plan_file: Path, values: Mapping[str, object], said: Mapping[str, object]
) -> None:
    """Refuse a system with files of its own in a plan file, before any of them is looked at.

    Args:
        plan_file: As the user named it.
        values: That it has.
        said: As for `refuse_unsaid`.

    Raises:
        PlanError: The file can be a stranger's; or the system is one that no file may name.
    """
    named = _named(values.get("system"))
    if said.get("system") is not None or named is None:
        return
    if refusal := from_a_file(named, f"the plan {plan_file}"):
        raise PlanError(refusal)
    if named.is_yours and not is_own_file(plan_file):
        _refuse(f"the plan {plan_file} can be a stranger's", {"system": named.text}, said)


def from_a_file(named: SystemName, where: str) -> str | None:
    """Return why a system is not taken from any file, in one sentence; None if it is.

    Args:
        named: The system.
        where: Which file names it: `the plan mine.toml`.
    """
    if not named.is_strange:
        return None
    return (
        f"{where} names the system {named.text}, whose file says what is run and reached; such a"
        f" file is taken from the command line only: --system {shlex.quote(named.text)}"
    )


def said_again(plan: Plan, said: Mapping[str, str | None], *, run_id: str) -> Plan:
    """Return the plan of a stored run with what reaches beyond it as the user says it.

    Whose the plan of a run once was cannot be known: it may have come in an archive.

    Args:
        plan: As it was stored.
        said: The options, by key; None: it was not given. The system may be another one than the
            run had, whatever that was.
        run_id: Of the run.

    Raises:
        PlanError: Something is not said again, or is said that the plan does not have.
    """
    told = {key: value for key, value in said.items() if value is not None}
    beyond = reaching(plan)
    _refuse(f"the plan of {run_id} can be a stranger's", beyond, told)
    if extra := sorted(told.keys() - beyond.keys() - {"system"}):
        raise PlanError(
            f"--{extra[0]} {told[extra[0]]}: the plan of {run_id} has nothing that it could stand"
            " for; leave it out"
        )
    if not told:
        return plan
    values = plan.model_dump(mode="json", exclude_none=True)
    if "system" in told:
        values = {key: value for key, value in values.items() if key not in _TOLD_BY_THE_SYSTEM}
    again = plan_from({**values, **told})
    if plan.hosts.startswith("ssh:") and not again.hosts.startswith("ssh:"):
        raise PlanError(f"--hosts {again.hosts}: {run_id} was played by ssh; name ssh:HOSTS.toml")
    return again


def reaching(plan: Plan) -> dict[str, str]:
    """Return what of a plan reaches beyond its run, by key."""
    found = {key: getattr(plan, key) for key in REACHING}
    if not plan.hosts.startswith("ssh:"):
        del found["hosts"]
    if not plan.named.is_yours:
        del found["system"]
    return {key: str(value) for key, value in found.items() if value is not None}


def _named(system: object) -> SystemName | None:
    """Return the name of a plan's system; None: it has none, or one that will be refused."""
    try:
        return system_named(system) if isinstance(system, str) else None
    except ValueError:
        return None


def _refuse(why: str, beyond: Mapping[str, str], said: Mapping[str, object]) -> None:
    for key, value in beyond.items():
        if said.get(key) is None:
            raise PlanError(
                f"{why}, and by its {key} it reaches beyond the run; if you mean that, say so:"
                f" --{key} {shlex.quote(value)}"
            )
