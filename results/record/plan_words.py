"""Explain in a sentence why a plan is invalid."""

import difflib
from collections.abc import Sequence

from pydantic import ValidationError

from results.record.hidden import is_secret
from results.record.plan_parts import FORMS, Budgets, Minimums, Part, PlannedFault, ScenarioPlan


def refusal_of(invalid: ValidationError, plan: type[Part]) -> str:
    """Return the first validation error as one sentence, with the key and a remedy.

    Args:
        invalid: All validation errors.
        plan: The class of complete plans, which knows all keys.
    """
    first = invalid.errors(include_url=False)[0]
    *tables, name = map(str, first["loc"] or ("",))
    key, where = ".".join((*tables, name)), ""
    if isinstance(at := next(iter(first["loc"][1:]), None), int):  # The index in `faults`, from 0.
        key, where = name, f" in [[{tables[0]}]] number {at + 1}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, _keys_of(tables, plan), n=1)
        meant = f"; did you mean '{key.removesuffix(name)}{near[0]}'?" if near else ""
        unknown = f"the plan has an unknown key {key!r}{where}"
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
        return f"the plan's {key} cannot have this value: {message[:1].lower()}{message[1:]}"
    return f"the plan's {key} cannot be {first['input']!r}: {message[:1].lower()}{message[1:]}"


def _keys_of(tables: Sequence[str], plan: type[Part]) -> list[str]:
    """Return the known keys of the plan, or of one of its tables."""
    parts: dict[tuple[str, ...], type[Part]] = {
        (): plan, ("budgets",): Budgets, ("minimums",): Minimums, ("scenario",): ScenarioPlan,
    }  # fmt: skip
    return list(parts.get(tuple(tables), PlannedFault).model_fields)
