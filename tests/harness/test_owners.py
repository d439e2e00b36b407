"""Who may write what Logquake makes: its owner alone, and in a shared store whoever shares it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import exit_code
from harness.exit_codes import VALID
from harness.suites.nights import HIDDEN, SuiteLock
from results.store import Store
from results.trust import closed_to_others, refuse_unless_own


@pytest.fixture(autouse=True)
def _umask_of_a_group_of_one_s_own() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    assert os.umask(before) == 0o002, "it is the caller's again"


@pytest.fixture
def foreign_group(tmp_path: Path) -> None:
    """Have files made in a group that others are in, too."""
    os.chown(tmp_path, -1, 65534)
    tmp_path.chmod(0o2755)


def open_to_others(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    return [path for path in found if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)]


@pytest.mark.needs("root")
@pytest.mark.usefixtures("foreign_group")
def test_own_runs_are_trusted_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = ["--system", "reference", "--hosts", "simulated", "--time-limit", "8", "--topics", "1",
            "--partitions", "1", "--nemesis", "pause", "--engine", "local"]  # fmt: skip
    exit_code(["run", *plan])
    (run,) = Store(Path("runs")).runs()
    assert open_to_others(tmp_path / "runs") == []
    refuse_unless_own(run)
    assert exit_code(["heal"]) == VALID
    assert "nothing to heal" in capfd.readouterr().out


def test_a_bundle_is_taken_in_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["export", "sample:valid", "--as", "bundle", "-o", "run.tgz"]) == VALID
    assert exit_code(["import", "run.tgz"]) == VALID
    assert open_to_others(tmp_path) == []


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o1777, 0o2775])
def test_who_may_write_a_store_may_add_runs_and_nights_to_it(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    with closed_to_others(), Store(tmp_path).create("log", 7) as paths:
        SuiteLock(tmp_path, "made").release()
    for shared in (paths.root.parent, tmp_path / HIDDEN):
        assert shared.stat().st_mode & 0o1022 == mode & 0o1022
    for own in (paths.root, paths.record, tmp_path / HIDDEN / "made", paths.lock):
        assert not own.stat().st_mode & 0o022


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir(0o700)
    tmp_path.chmod(0o777)
    with Store(tmp_path).create("log", 7):
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700


def test_in_a_sticky_store_each_user_makes_runs_and_the_latest_is_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link to the latest run is the other user's there, and stays."""
    tmp_path.chmod(0o1777)
    with Store(tmp_path).create("log", 7) as first:
        pass

    def refused(self: Path, target: Path) -> Path:
        raise PermissionError(f"{self} cannot replace {target}")

    monkeypatch.setattr(Path, "replace", refused)
    with Store(tmp_path).create("log", 8) as second:
        pass
    latest = Store(tmp_path).latest()
    assert latest is not None
    assert latest.run_id == max(first.run_id, second.run_id)
    assert (tmp_path / "latest").resolve() == first.root.resolve()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["latest", "log"]
