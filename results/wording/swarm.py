"""Describe in one line the plan settings that the swarm chose at random."""

from collections.abc import Iterable, Mapping


def swarm_words(plan: Mapping[str, object]) -> str:
    """Return settings chosen at random: `rate = 50; num.io.threads = 8`; "" if there are none.

    Args:
        plan: The stored plan. The plan may come from another person, so invalid values are left
            out.
    """
    drawn = plan.get("swarmed")
    keys = drawn if isinstance(drawn, list | tuple) else ()
    return "; ".join(_words(plan, (each for each in keys if isinstance(each, str))))


def _words(plan: Mapping[str, object], keys: Iterable[str]) -> Iterable[str]:
    for key in keys:
        table, _, inner = key.partition(".")
        settings = plan.get(table) if inner else plan
        name = inner or key
        if isinstance(settings, Mapping) and settings.get(name) is not None:
            yield f"{name} = {settings[name]}"
