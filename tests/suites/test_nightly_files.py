"""What docs/nightly offers to be copied works as it stands."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.suites.choosing import OVERHEAD_S
from harness.suites.expansion import entries_of
from harness.suites.suite import Suite, load_suite
from results.index.reading import lasts_s

NIGHTLY = Path(__file__).parents[2] / "docs" / "nightly"
LOGQUAKE = str(Path(sys.executable).parent / "logquake")
CORES = 2


@pytest.mark.parametrize(
    ("name", "minutes"), [("five-minutes", 5), ("half-hour", 30), ("night", 480)]
)
def test_a_suite_fits_in_its_budget_with_time_for_repeats(name: str, minutes: int) -> None:
    suite = load_suite(NIGHTLY / f"{name}.toml")
    assert (suite.name, suite.budget) == (name, minutes * 60)
    needs_s = sum(lasts_s(each.plan(1)) + OVERHEAD_S for each in entries_of(suite)) / CORES
    assert 0.5 * suite.budget < needs_s < (1 - suite.repeat.share / 2) * suite.budget


LONG = [pytest.param(name, marks=pytest.mark.night) for name in ("night", "covering")]


@pytest.mark.parametrize("name", ["half-hour", *LONG])
def test_a_suite_is_printed_before_it_is_played(name: str) -> None:
    argv = [LOGQUAKE, "suite", "run", str(NIGHTLY / f"{name}.toml"), "--dry-run"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    entries = entries_of(load_suite(NIGHTLY / f"{name}.toml"))
    assert all(each.name in done.stdout for each in entries)
    assert f"{len(entries)} entries, " in done.stdout


def test_the_readme_knows_every_key() -> None:
    text = (NIGHTLY / "README.md").read_text(encoding="utf-8")
    for key in Suite.model_fields:
        assert re.search(rf"`(\[*){key}\b", text), key


def test_units_of_systemd_are_well_formed() -> None:
    for name in ("logquake-night.service", "logquake-night.timer", "logquake-resume.service"):
        unit = configparser.ConfigParser(strict=True, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
        unit.read(NIGHTLY / name, encoding="utf-8")
        assert "Unit" in unit
    service = configparser.ConfigParser(interpolation=None)
    service.read(NIGHTLY / "logquake-night.service", encoding="utf-8")
    assert "suite run" in service["Service"]["ExecStart"]


def test_cron_plays_the_night_without_a_file_for_the_webhook(tmp_path: Path) -> None:
    text = (NIGHTLY / "logquake.crontab").read_text(encoding="utf-8")
    jobs = re.findall(r"^(?:[\d*]+ [\d*]+ \S+ \S+ \S+|@reboot) +(.*)$", text, re.MULTILINE)
    assert len(jobs) == 2
    for job in jobs:
        here = job.replace("/var/lib/logquake", str(tmp_path)).replace("/etc/logquake", "/nowhere")
        found = f"logquake() {{ echo played; }}; {here}"
        subprocess.run(["bash", "-c", found], check=True, timeout=60)
    assert (tmp_path / "night.log").read_text(encoding="utf-8") == "played\n" * 2


def test_what_jobs_call_is_what_the_command_offers() -> None:
    shown = subprocess.run(
        [LOGQUAKE, "suite", "run", "-h"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for name in (
        "logquake.crontab", "logquake-night.service", "logquake-resume.service",
        "github-actions.yml",
    ):  # fmt: skip
        text = (NIGHTLY / name).read_text(encoding="utf-8")
        called = re.findall(r"suite run (.*)", text)
        assert called, name
        for option in re.findall(r"--[a-z]+", " ".join(called)):
            assert option in shown, (name, option)
