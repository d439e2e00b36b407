"""What a scripted run set out to show, and whether it did: `scenario.json`.

Whoever plays a scenario writes it twice: before the first step, with `as_expected` None, and once
the run was judged. The steps are in `steps.jsonl`; pages need no more than the two and the tables.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from results.record.reading import read_bytes


class Story(BaseModel):
    """A scenario with its choices made, in words.

    Attributes:
        name: `leader-epoch-1`.
        title: In a few words.
        about: What it shows, and where it comes from; paragraphs with empty lines between.
        moral: What is to be learned from the end, a few sentences.
        expected: The end that the scenario expects, in words: `invalid: message2 is lost; a reader
            gets message1, message3`.
        as_expected: Whether it came so; None: not known (yet).
        differs: What came otherwise, a sentence each.
        choices: As `ScenarioPlan.choices`: `{"rule": "leader-epoch", "form": "article"}`, with the
            defaults.
        roles: How the story calls its nodes: `{"n1": "A", "n2": "B"}`; those without are n3, ...
        spectators: Nodes that hold no replica and are left out of drawings: `n3`, that is the
            controller.
        command: What to type for the same run: `logquake scenario run leader-epoch-1 --rule ...`.
        other_commands: The same for the other values of `rule` (or what else is compared), by
            value: `{"leader-epoch": "logquake scenario run leader-epoch-1 --rule leader-epoch"}`.
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
    """Write `scenario.json` of a run."""
    path.write_text(story.model_dump_json(indent=1) + "\n", encoding="utf-8")


def load_story(path: Path) -> Story | None:
    """Read `scenario.json` of a run; None of an ordinary run.

    Raises:
        ValueError: It is there, but damaged.
    """
    try:
        return Story.model_validate_json(read_bytes(path))
    except FileNotFoundError:
        return None
