"""Nights that somebody else wrote, and nights that meet another user's run."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.ledger import mark
from cluster.hosts.signals import environment_of
from harness.suites.journal import Begun, Journal, Planned, Started
from harness.suites.leading import Resumption, opened
from harness.suites.nights import HIDDEN, NightFolder, SuiteLock, suite_folder
from results.record.atomic import StoreError
from results.record.clock import wait_until
from results.record.milestones import Milestone, append_milestone, load_milestones
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.store import Store
from results.trust import UntrustedRunError

NOBODY = 65534
AS_ROOT = pytest.mark.needs("root")
SUITE = """\
name = "made"
budget = "1h"
[[entries]]
name = "calm"
seeds = [1]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    file = tmp_path / "made.toml"
    file.write_text(SUITE, encoding="utf-8")
    return file


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run(store: Path) -> RunPaths:
    with Store(store).create("log", 7) as paths:
        paths.plan.write_text(dump_plan(plan_from({})), encoding="utf-8")
        append_milestone(paths.milestones, Milestone(name="main", at_ns=1))
    return paths


@pytest.fixture
def night(store: Path, run: RunPaths) -> NightFolder:
    """Return a night that died while it played a run."""
    folder = NightFolder(root=suite_folder(store, "made") / "20261121T010000Z")
    folder.root.mkdir(parents=True)
    folder.suite.write_text(SUITE, encoding="utf-8")
    Journal(folder.journal).write(
        Planned(item=1, entry="calm#1", seed=1),
        Started(item=1, run_id=run.run_id),
        Begun(suite="made", night=folder.night, budget_s=3600),
    )
    return folder


@pytest.fixture
def left(run: RunPaths) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that the run left running, another user's."""
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sleep", "600"]
    with subprocess.Popen(words, env=os.environ | mark(run.processes)) as process:
        wait_until(lambda: environment_of(process.pid), timeout_s=20, what="its environment")
        yield process
        process.kill()


@AS_ROOT
@pytest.mark.usefixtures("night")
def test_a_night_leaves_a_run_of_another_user_alone(
    store: Path, suite: Path, run: RunPaths, left: "subprocess.Popen[bytes]"
) -> None:
    subprocess.run(["chown", "-R", f"{NOBODY}", run.root], check=True)
    before = load_milestones(run.milestones)
    with opened(suite, store, mode=Resumption.RESUME) as lead:
        (item,) = lead.conductor.state.items.values()
    assert item.cut_short == (run.run_id,), "it is played anew, under another id"
    (sentence,) = item.left
    assert f"{run.run_id} is not used: it belongs to nobody; run Logquake as that user" in sentence
    assert left.poll() is None
    assert load_milestones(run.milestones) == before


@pytest.mark.usefixtures("night")
def test_a_night_heals_a_run_of_its_own(store: Path, suite: Path, run: RunPaths) -> None:
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(run.processes)) as process:
        wait_until(lambda: environment_of(process.pid), timeout_s=20, what="its environment")
        with opened(suite, store, mode=Resumption.RESUME) as lead:
            (item,) = lead.conductor.state.items.values()
        assert process.wait(20) == -9
    assert not item.left


@AS_ROOT
@pytest.mark.parametrize("part", ["made", "made/20261121T010000Z",
                                  "made/20261121T010000Z/journal.jsonl",
                                  "made/20261121T010000Z/suite.toml"])  # fmt: skip
def test_nights_of_another_user_do_not_go_on(
    part: str, store: Path, suite: Path, night: NightFolder
) -> None:
    before = night.journal.read_bytes()
    os.chown(store / HIDDEN / part, NOBODY, -1)
    for mode in Resumption:
        with (
            pytest.raises(UntrustedRunError, match=r"are not used: made.* belongs to nobody"),
            opened(suite, store, mode=mode),
        ):
            raise AssertionError("it goes on")
    assert night.journal.read_bytes() == before


@AS_ROOT
def test_root_s_nights_are_no_ordinary_user_s(
    store: Path, suite: Path, night: NightFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = night.journal.read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with pytest.raises(UntrustedRunError, match="belongs to root"), opened(suite, store):
        raise AssertionError("it goes on")
    assert night.journal.read_bytes() == before


@pytest.mark.parametrize("part", ["", "made", "made/lock", "made/20261121T010000Z",
                                  "made/20261121T010000Z/journal.jsonl"])  # fmt: skip
def test_nights_by_a_link_do_not_go_on(
    *, part: str, store: Path, night: NightFolder, tmp_path: Path
) -> None:
    SuiteLock(store, "made").release()
    place, elsewhere = store / HIDDEN / part, tmp_path / "elsewhere"
    before = night.journal.read_bytes()
    shutil.move(place, elsewhere)
    place.symlink_to(elsewhere)
    with pytest.raises(UntrustedRunError, match=r" is a link, but .*; remove it"):
        SuiteLock(store, "made")
    assert night.journal.read_bytes() == before


def test_nights_that_everybody_can_write_go_on_after_the_remedy(
    store: Path, night: NightFolder
) -> None:
    night.journal.chmod(0o666)
    with pytest.raises(StoreError, match="other users can write") as refused:
        SuiteLock(store, "made")
    subprocess.run(str(refused.value).partition("type: ")[2].split(), check=True)
    SuiteLock(store, "made").release()
