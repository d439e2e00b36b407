"""What is wrong with a plan, in one sentence that names the key, the value and what would do."""

import difflib
from collections.abc import Mapping

from pydantic import ValidationError

from results.record.hidden import is_secret
from results.record.plan_parts import FORMS, Part, PlannedFault


def sentence_of(
    invalid: ValidationError, plan: type[Part], tables: Mapping[str, type[Part]]
) -> str:
    """Return what is wrong with a plan first, in one sentence.

    Args:
        invalid: What pydantic found.
        plan: The class of plans.
        tables: Those of its tables, by key.
    """
    first = invalid.errors(include_url=False)[0]
    *path, name = map(str, first["loc"] or ("",))
    key, where = ".".join((*path, name)), ""
    if isinstance(at := next(iter(first["loc"][1:]), None), int):  # Which of `faults`, from 0 on.
        key, where = name, f" in [[{path[0]}]] number {at + 1}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        of = tables.get(path[0], PlannedFault) if path else plan
        near = difflib.get_close_matches(name, list(of.model_fields), n=1)
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
