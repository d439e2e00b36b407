"""Write the pages of the keys of plans and suites, section by section, from the models."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from harness.cli.keys import default, models, takes, texts, written
from harness.documentation.markdown_tables import code, table
from harness.suites.suite import Suite
from results.record.plan import Plan

_TOP = """\
# Keys of a plan

Every key that a plan file may have. `logquake init` writes a plan with comments to start from.
An option of `logquake run` with the key's name wins over the file.
"""
_SUITE_TOP = """\
# Keys of a suite

Every key that the file of a suite or of a hunt may have. The page
[Suites](../nightly/README.md) explains how to write such a file. Tables named `plan` take the
[keys of a plan](plan.md).
"""


def page() -> str:
    """Return the page of a plan's keys."""
    return "\n".join([_TOP, *_sections(Plan)])


def suite_page() -> str:
    """Return the page of a suite's keys."""
    return "\n".join([_SUITE_TOP, *_sections(Suite)])


def _sections(top: type[BaseModel]) -> Iterator[str]:
    for name, model in models(top):
        said = texts(model)
        yield f"## {code(name)}\n" if name else "## Top level\n"
        if name:
            yield f"{(model.__doc__ or '').strip()}\n"
        rows = (
            (code(key), takes(info), _default(info), said[key])
            for key, info in written(model).items()
        )
        yield table(("Key", "Takes", "Default", "What it does"), rows)


def _default(info: FieldInfo) -> str:
    value = default(info)
    return "none: the key is needed" if value is None else code(value) or "none"
