"""The example plans and suites that come with Logquake: `example:acks-1`, `example:half-hour`."""

from pathlib import Path

from harness.manual import sources
from results.record.plan import PlanError

PREFIX = "example:"
_PLANS, _SUITES = "docs/plans", "docs/nightly"


def example_plans() -> dict[str, Path]:
    """Return the file of each example plan; the keys are the names on the command line."""
    return _named(_PLANS)


def example_suites() -> dict[str, Path]:
    """Return the file of each example suite; the keys are the names on the command line."""
    return _named(_SUITES)


def plan_file(name: Path) -> Path:
    """Return the file of the plan if the path is `example:NAME`; else return the path unchanged.

    Raises:
        PlanError: There is no such example.
    """
    return _found(name, example_plans(), "plan")


def suite_file(name: Path) -> Path:
    """Return the file of the suite if the path is `example:NAME`; else return the path unchanged.

    Raises:
        PlanError: There is no such example.
    """
    return _found(name, example_suites(), "suite")


def about(example: Path) -> str:
    """Return the first sentence of the comment that begins an example.

    The result is empty if there is no comment.
    """
    lines = example.read_text(encoding="utf-8").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line.strip("# "))
    said, dot, _ = " ".join(comment).partition(". ")
    return f"{said}{dot.strip()}"


def _named(folder: str) -> dict[str, Path]:
    return {f"{PREFIX}{path.stem}": path for path in sorted((sources() / folder).glob("*.toml"))}


def _found(name: Path, known: dict[str, Path], what: str) -> Path:
    if not str(name).startswith(PREFIX):
        return name
    if str(name) not in known:
        raise PlanError(f"there is no example {what} {str(name)!r}; use one of {', '.join(known)}")
    return known[str(name)]
