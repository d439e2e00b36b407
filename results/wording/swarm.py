"""What a swarm drew of a plan's settings, in one line."""

from collections.abc import Iterable, Mapping


def swarm_words(plan: Mapping[str, object]) -> str:
    """Return `rate = 50; num.io.threads = 8`; empty if nothing was drawn so.

    Args:
        plan: As stored. It may be anybody's: whatever has another form is left out.
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
