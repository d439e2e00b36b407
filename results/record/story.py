"""The purpose of a scripted run, and whether the run succeeded: `scenario.json`.

The scenario's player writes the file twice: before the first step, with `as_expected` None, and
again after the run was judged. The steps are in `steps.jsonl`. Pages need only these two files and
the tables.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from results.record.reading import read_bytes


class Story(BaseModel):
    """A scenario with the choices made for a run, as text.

    Attributes:
        name: Name of the scenario: `leader-epoch-1`.
        title: Title in a few words.
        about: Purpose and source, as paragraphs with empty lines between them.
        moral: The lesson of the whole run, in a few sentences.
        expected: The expected end, as text: `invalid: message2 is lost; a reader gets message1,
            message3`.
        as_expected: Whether the run ended as expected; None if not known yet.
        differs: Differences from the expected end, one sentence each.
        choices: All choices, including defaults: `{"rule": "leader-epoch", "form": "article"}`.
        roles: Names of nodes in the scenario: `{"n1": "A", "n2": "B"}`; other nodes are n3, ...
        spectators: Nodes without a replica, which drawings leave out: `n3`, the controller.
        command: The command for the same run: `logquake scenario run leader-epoch-1 --rule ...`.
        other_commands: The commands for runs with another value of `rule`, or of another choice
            that pages compare. The keys are these values: `{"leader-epoch": "logquake scenario run
            leader-epoch-1 --rule leader-epoch"}`.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    title: str
    about: str = ""
    moral: str = ""
    expected: str = ""
    as_expected: bool | None = None
    differs: tuple[str, ...] = ()
    choices: dict[str, str] = {}
    roles: dict[str, str] = {}
    spectators: tuple[str, ...] = ()
    command: str = ""
    other_commands: dict[str, str] = {}


def dump_story(story: Story, path: Path) -> None:
    """Write a run's `scenario.json`."""
    path.write_text(story.model_dump_json(indent=1) + "\n", encoding="utf-8")


def load_story(path: Path) -> Story | None:
    """Return a run's `scenario.json`, or None for an ordinary run.

    Raises:
        ValueError: The file exists, but is damaged.
    """
    try:
        return Story.model_validate_json(read_bytes(path))
    except FileNotFoundError:
        return None
