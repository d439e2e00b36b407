"""A signal after the judgement: what is said of a run that has its verdict."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from rich.console import Console

from harness import conclusion
from harness.ahead import Ahead
from harness.interrupt import DRAWING, Answers
from harness.judgement import Engine
from results.record.paths import RunPaths
from results.record.plan import plan_from
from results.samples import find_sample
from results.verdict_json import read_verdict


@pytest.mark.parametrize("part", ["print_sentence", "write_report"])
def test_a_run_that_is_judged_is_not_said_to_be_unjudged(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, said = RunPaths(tmp_path / "run"), list[str]()
    shutil.copytree(find_sample("valid"), paths.root)

    def cut(*_words: object, **_named: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(conclusion, "judge_by", lambda *_, **__: [read_verdict(paths.verdict)])
    monkeypatch.setattr(conclusion, part, cut)
    with Answers(paths.run_id, said.append) as answers:
        answers.stage_ended(0)
        with pytest.raises(
            KeyboardInterrupt, match="has a verdict but no page; type: logquake report"
        ):
            conclusion.conclude(
                plan_from({}), paths, ahead=Ahead(Engine(name="local")), answers=answers,
                console=Console(quiet=True),
            )  # fmt: skip
    assert said == [DRAWING]
