"""What a plan reaches beyond its run: machines by ssh, an image, settings with passwords.

A plan may be a stranger's. Its faults would be played on machines of the user's, its image run as
the user, and the user's password shown to the brokers of that image. So where the plan is not the
user's own, each of the three counts only if the user says it again on the command line.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from results.record.plan import Plan, PlanError, plan_from
from results.trust import is_own_file

REACHING = ("hosts", "image", "clients")
"""Keys of a plan, each with an option of its name; hosts reach out by ssh only."""


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
        _refuse(f"the plan {plan_file} can be a stranger's", plan, said)


def said_again(plan: Plan, said: Mapping[str, str | None], *, run_id: str) -> Plan:
    """Return the plan of a stored run with what reaches beyond it as the user says it.

    Whose the plan of a run once was cannot be known: it may have come in an archive.

    Args:
        plan: As it was stored.
        said: The options, by key; None: it was not given.
        run_id: Of the run.

    Raises:
        PlanError: Something is not said again, or is said that the plan does not have.
    """
    told = {key: value for key, value in said.items() if value is not None}
    _refuse(f"the plan of {run_id} can be a stranger's", plan, told)
    if extra := sorted(told.keys() - reaching(plan).keys()):
        raise PlanError(
            f"--{extra[0]} {told[extra[0]]}: the plan of {run_id} has nothing that it could stand"
            " for; leave it out"
        )
    if not told:
        return plan
    again = plan_from({**plan.model_dump(mode="json", exclude_none=True), **told})
    if plan.hosts.startswith("ssh:") and not again.hosts.startswith("ssh:"):
        raise PlanError(f"--hosts {again.hosts}: {run_id} was played by ssh; name ssh:HOSTS.toml")
    return again


def reaching(plan: Plan) -> dict[str, str]:
    """Return what of a plan reaches beyond its run, by key."""
    found = {key: getattr(plan, key) for key in REACHING}
    if not plan.hosts.startswith("ssh:"):
        del found["hosts"]
    return {key: str(value) for key, value in found.items() if value is not None}


def _refuse(why: str, plan: Plan, said: Mapping[str, object]) -> None:
    for key, value in reaching(plan).items():
        if said.get(key) is None:
            raise PlanError(
                f"{why}, and its {key} reach beyond the run; if you mean them, say so:"
                f" --{key} {shlex.quote(value)}"
            )
