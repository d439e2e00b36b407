"""A plan may be a stranger's: what it reaches beyond its run counts only if the user says it."""

import os
import shutil
import tomllib
from pathlib import Path

import pytest
import tomli_w

from harness.cli import exit_code
from harness.exit_codes import BAD_ARGUMENTS
from harness.reaching import said_again
from harness.suites.expansion import entries_of, suite_named
from harness.suites.suite import SuiteError
from results.record.plan import PlanError, plan_from
from results.samples import find_sample

BEYOND = [
    ({"hosts": "ssh:/lab/HOSTS.toml"}, "hosts"),
    ({"hosts": "docker", "image": "evil/image"}, "image"),
    ({"clients": "prod"}, "clients"),
    ({"system": "kafka:/lab/kafka"}, "system"),
    ({"system": "kafka:4.3.1+/lab/patch.jar"}, "system"),
]
STRANGE = ["attached:/lab/CLUSTER.toml", "command:/lab/BROKER.toml"]
"""Systems whose file says what is run, or reached: they come from the command line alone."""
NOBODY = 65534


def strangers(path: Path, text: str) -> Path:
    """Write a file that others can write: one of another user's looks the same to the gate."""
    path.write_text(text)
    path.chmod(0o666)
    return path


@pytest.mark.parametrize(("values", "key"), BEYOND)
def test_what_a_strangers_plan_reaches_beyond_its_run_is_said_again_or_refused(
    values: dict[str, str], key: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = strangers(tmp_path / "plan.toml", tomli_w.dumps(values))
    command = ["run", str(plan), "--dry-run"]
    assert exit_code(command) == BAD_ARGUMENTS
    assert f"its {key} reaches beyond the run; to confirm it, add: --{key}" in (
        capfd.readouterr().err.replace("\n", " ")
    )
    exit_code([*command, f"--{key}", values[key]])
    assert "beyond the run" not in capfd.readouterr().err.replace("\n", " ")
    plan.chmod(0o644)
    exit_code(command)
    assert "beyond the run" not in capfd.readouterr().err.replace("\n", " ")


@pytest.mark.needs("root")
def test_a_plan_that_belongs_to_another_user_is_a_strangers(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('clients = "prod"\n')
    os.chown(plan, NOBODY, NOBODY)
    assert exit_code(["run", str(plan), "--dry-run"]) == BAD_ARGUMENTS


def test_a_strangers_plan_that_stays_within_its_run_is_taken(tmp_path: Path) -> None:
    plan = strangers(tmp_path / "plan.toml", 'system = "reference"\nhosts = "process"\n')
    assert exit_code(["run", str(plan), "--dry-run"]) == 0


@pytest.mark.parametrize(("values", "key"), BEYOND)
def test_repro_has_what_a_run_reaches_beyond_it_said_again(
    values: dict[str, str], key: str
) -> None:
    plan = plan_from(dict(values))
    with pytest.raises(PlanError, match=f"written the plan of log/7, and its {key} reaches"):
        said_again(plan, {"hosts": None, "image": None, "clients": None}, run_id="log/7")
    assert said_again(plan, {key: values[key]}, run_id="log/7") == plan
    other = {
        "hosts": "ssh:/mine.toml", "image": "mine", "clients": "mine", "system": "kafka:/mine",
    }[key]  # fmt: skip
    assert getattr(said_again(plan, {key: other}, run_id="log/7"), key) == other


def test_repro_on_another_system_knows_nothing_of_the_one_that_the_run_had() -> None:
    stored = plan_from({"system": "kafka:/lab/kafka", "version": "3.9.2"})
    again = said_again(stored, {"system": "kafka:2.8.2"}, run_id="log/7")
    assert (again.system, again.version, again.kafka_version) == ("kafka:2.8.2", None, "2.8.2")
    release = plan_from({"system": "kafka:4.3.1"})
    assert said_again(release, {"system": "reference"}, run_id="log/7").is_reference
    mine = said_again(release, {"system": "kafka:/mine"}, run_id="log/7")
    assert (mine.system, mine.version) == ("kafka:/mine", None)


@pytest.mark.parametrize("system", STRANGE)
def test_what_is_run_and_reached_comes_from_the_command_line_alone(
    system: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'system = "{system}"\n')
    plan.chmod(0o600)
    assert exit_code(["run", str(plan), "--dry-run"]) == BAD_ARGUMENTS
    assert f"You must name such a file on the command line: --system {system}" in (
        capfd.readouterr().err.replace("\n", " ")
    )
    exit_code(["run", str(plan), "--dry-run", "--system", system])
    assert "on the command line" not in capfd.readouterr().err.replace("\n", " ")
    stored = plan_from({"system": system})
    with pytest.raises(PlanError, match="to confirm it, add: --system"):
        said_again(stored, {}, run_id="log/7")
    assert said_again(stored, {"system": system}, run_id="log/7") == stored


@pytest.mark.parametrize("system", STRANGE)
def test_no_suite_names_what_is_run_and_reached(system: str, tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    entry = {"name": "e", "plan": {"system": system}}
    suite.write_text(tomli_w.dumps({"name": "s", "budget": "30m", "entries": [entry]}))
    suite.chmod(0o600)
    with pytest.raises(SuiteError, match=r"the entry e#1 names the system .* on the command line"):
        entries_of(suite_named(suite))


def test_no_file_of_a_strangers_system_is_opened_before_it_is_said_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    system = f"kafka:{tmp_path}/none"
    values = {"system": system, "scenario": {"name": "late-leader-and-isr"}}
    plan = strangers(tmp_path / "plan.toml", tomli_w.dumps(values))
    assert exit_code(["run", str(plan), "--dry-run"]) == BAD_ARGUMENTS
    assert "its system reaches beyond the run" in capfd.readouterr().err.replace("\n", " ")
    assert exit_code(["run", str(plan), "--dry-run", "--system", system]) == BAD_ARGUMENTS
    assert "none is not a folder" in capfd.readouterr().err.replace("\n", " ")


def test_repro_takes_no_other_hosts_than_the_run_had() -> None:
    with pytest.raises(PlanError, match="no such value to confirm"):
        said_again(plan_from({}), {"image": "mine"}, run_id="log/7")
    with pytest.raises(PlanError, match="ran on ssh hosts"):
        said_again(plan_from({"hosts": "ssh:x"}), {"hosts": "process"}, run_id="log/7")


def test_repro_asks_before_anything_is_tried(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "log" / "20261121T104500Z-7"
    shutil.copytree(find_sample("valid"), run, copy_function=shutil.copyfile)
    plan = tomllib.loads((run / "plan.toml").read_text())
    (run / "plan.toml").write_text(tomli_w.dumps({**plan, "clients": "prod"}))
    command = ["repro", str(run), "--times", "1", "--store", str(tmp_path / "runs")]
    assert exit_code(command) == BAD_ARGUMENTS
    assert "--clients prod" in capfd.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(("values", "key"), BEYOND)
def test_a_strangers_suite_reaches_nothing_beyond_its_runs(
    values: dict[str, str], key: str, tmp_path: Path
) -> None:
    text = tomli_w.dumps({"name": "s", "budget": "30m", "entries": [{"name": "e", "plan": values}]})
    suite = strangers(tmp_path / "suite.toml", text)
    with pytest.raises(SuiteError, match=f"and the {key} .* its entry e#1 reaches beyond"):
        suite_named(suite)
    suite.chmod(0o644)
    assert suite_named(suite).name == "s"
