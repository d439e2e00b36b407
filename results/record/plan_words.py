"""Why a plan cannot be run, in a sentence."""

import difflib
from collections.abc import Sequence

from pydantic import ValidationError

from results.record.hidden import is_secret
from results.record.plan_parts import FORMS, Budgets, Minimums, Part, PlannedFault, ScenarioPlan


def refusal_of(invalid: ValidationError, plan: type[Part]) -> str:
    """Return the first refusal as one sentence, with the key and the remedy.

    Args:
        invalid: All of them.
        plan: The model of a whole plan.
    """
    first = invalid.errors(include_url=False)[0]
    *tables, name = map(str, first["loc"] or ("",))
    key, where = ".".join((*tables, name)), ""
    if isinstance(at := next(iter(first["loc"][1:]), None), int):  # Which of `faults`, from 0 on.
        key, where = name, f" in [[{tables[0]}]] number {at + 1}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, _keys_of(tables, plan), n=1)
        meant = f"; did you mean '{key.removesuffix(name)}{near[0]}'?" if near else ""
        unknown = f"the plan has a key {key!r}{where} that Logquake does not know"
        return f"{unknown}{meant} (see: logquake init)"
    if first["type"] == "missing":
        return f"the plan's {key}{where} is missing (see: logquake init)"
    if where:
        key = f"{key}{where}"
    if key in FORMS:
        return f"the plan's {key} cannot be {first['input']!r}: {FORMS[key]}"
    if not key:
        return f"the plan cannot be run: {message}"
    if is_secret(name):
        return f"the plan's {key} cannot be set so: {message[:1].lower()}{message[1:]}"
    return f"the plan's {key} cannot be {first['input']!r}: {message[:1].lower()}{message[1:]}"


def _keys_of(tables: Sequence[str], plan: type[Part]) -> list[str]:
    """Return the keys of the plan, or of a table in it: `budgets`, one of `faults`."""
    parts: dict[tuple[str, ...], type[Part]] = {
        (): plan, ("budgets",): Budgets, ("minimums",): Minimums, ("scenario",): ScenarioPlan,
    }  # fmt: skip
    return list(parts.get(tuple(tables), PlannedFault).model_fields)
