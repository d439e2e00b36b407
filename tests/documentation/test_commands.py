"""Every command of the README and of the tutorial works, with shorter times."""

from pathlib import Path

import pytest

from benchmarks.commands import (
    PROGRAM,
    ROOT,
    Step,
    all_steps,
    pages,
    play,
    play_all,
    prepare,
    shorter,
    steps_of,
)

PAGE = """
Type `.venv/bin/logquake doctor`. Not `logquake heal`.

```sh
./setup && .venv/bin/logquake run --seed 1 \\
    --acks 1  # A comment.
.venv/bin/pytest --everything
cat 'a file'
```

Write this into `mine.toml`:

```toml
seed = 1
```

```
Invalid: 980 acknowledged writes were lost.
```
"""


def test_commands_and_files_of_a_page_are_found_in_order() -> None:
    found = [(each.text, each.file) for each in steps_of(PAGE, "page.md")]
    assert found == [
        (".venv/bin/logquake doctor", ""),
        (".venv/bin/logquake run --seed 1 --acks 1", ""),
        ("cat 'a file'", ""),
        ("seed = 1\n", "mine.toml"),
    ]
    assert next(steps_of(PAGE, "page.md")).place == "page.md:2"


@pytest.mark.parametrize(
    "block",
    ["```\n.venv/bin/logquake run\n```", "```\n$ ls\n```", "```python\nrun()\n```",
     "Somewhere:\n\n```toml\na = 1\n```"],
)  # fmt: skip
def test_a_block_that_would_not_be_played_is_refused(block: str) -> None:
    with pytest.raises(ValueError, match=r"page\.md:\d: "):
        list(steps_of(f"{block}\n", "page.md"))


def test_a_command_gets_the_options_that_it_has_and_that_the_page_does_not_give() -> None:
    assert shorter(f"{PROGRAM} show latest") == f"{PROGRAM} show latest"
    assert shorter(f"{PROGRAM} serve") == f"{PROGRAM} serve --port 0"
    assert shorter(f"{PROGRAM} serve --port=1") == f"{PROGRAM} serve --port=1"
    assert shorter(f"{PROGRAM} run --hosts process") == (
        f"{PROGRAM} run --hosts process --system reference --rate 50 --engine local"
        " --time-limit 10 --warmup 1"
    )
    assert "--time-limit" not in shorter(f"{PROGRAM} run mine.toml")
    assert shorter("cat serve") == "cat serve"


@pytest.mark.everything
def test_a_command_that_fails_is_noticed_and_one_that_finds_something_is_fine(
    tmp_path: Path,
) -> None:
    prepare(tmp_path, short=True)
    texts = (f"{PROGRAM} show nothing", "cat nothing", f"{PROGRAM} check sample:loss-acks-1")
    steps = [Step(place="page.md:1", text=text) for text in texts]
    ended = [(each.code, each.fine) for each in play(steps, tmp_path, short=True)]
    assert ended == [(254, False), (1, False), (1, True)]


@pytest.mark.everything
@pytest.mark.kafka
def test_every_command_of_the_readme_and_of_the_tutorial_works(tmp_path: Path) -> None:
    steps = [step for steps in all_steps().values() for step in steps]
    assert {step.place.partition(":")[0] for step in steps} == {
        page.relative_to(ROOT).as_posix() for theirs in pages().values() for page in theirs
    }, "a page without a command"
    ended = list(play_all(tmp_path, short=True))
    assert {each.step.text for each in ended} == {step.text for step in steps if not step.file}
    assert not [f"{each}\n{each.output}" for each in ended if not each.fine]
