"""Write the page of the example plans and suites that come with Logquake."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.examples import example_plans, example_suites

_TOP = """\
# Example plans and suites

The package contains these files. You need no copy of the repository to run them:

```sh
logquake run example:acks-1
logquake suite run example:half-hour
```
"""


def page() -> str:
    """Return the page with the text of each example file."""
    plans = _sections("Plans", "logquake run", example_plans())
    return "\n".join([_TOP, *plans, *_sections("Suites", "logquake suite run", example_suites())])


def _sections(title: str, command: str, examples: Mapping[str, Path]) -> Iterator[str]:
    yield f"## {title}\n"
    for name, path in examples.items():
        text = path.read_text(encoding="utf-8").rstrip()
        yield f"### `{name}`\n\n```sh\n{command} {name}\n```\n\n```toml\n{text}\n```\n"
