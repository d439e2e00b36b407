"""The user's own settings of clients: who may write them, and that none of them is told on."""

import os
from pathlib import Path

import pytest

from results.record.own import own_file, own_settings
from results.record.plan import Plan, PlanError, dump_plan
from workloads.clients.settings import (
    check_client_settings,
    consumer_settings,
    member_settings,
    producer_settings,
    transactional_settings,
)

SECRET = "hunter2-of-the-lab"  # noqa: S105 - nobody's
LAB = Plan(clients="lab")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "clients.toml"
    monkeypatch.setenv("LOGQUAKE_CONFIG", str(path))
    monkeypatch.setenv("LAB_PASSWORD", SECRET)
    path.write_text('[lab]\n"sasl.password" = "env:LAB_PASSWORD"\n"sasl.username" = "me"\n')
    path.chmod(0o600)
    return path


@pytest.mark.usefixtures("file")
def test_all_clients_take_them_and_the_plan_holds_their_name_alone() -> None:
    about = LAB.model_copy(update={"workload": "txn"})
    for settings in (
        producer_settings(LAB, bootstrap="b:1", worker=0),
        transactional_settings(about, bootstrap="b:1", thread=0),
        consumer_settings(LAB, bootstrap="b:1", client_id="c"),
        member_settings(LAB, bootstrap="b:1", client_id="c", group="g"),
    ):
        assert (settings["sasl.password"], settings["sasl.username"]) == (SECRET, "me")
    check_client_settings(LAB)
    assert SECRET not in dump_plan(LAB)
    assert 'clients = "lab"' in dump_plan(LAB)


def test_a_secret_may_lie_in_a_file_of_its_own(file: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    file.write_text(f'[lab]\n"sasl.password" = "file:{tmp_path / "password"}"\n')
    assert own_settings("lab") == {"sasl.password": SECRET}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'lab' are not in "),
        ('[other]\n"a" = "b"\n', "add a table \\[lab\\]"),
        ('[lab]\n"retries" = 3\n', "is not a string; put its value in quotes"),
        (f'[lab]\n"sasl.password" = {SECRET}\n', "is not valid TOML at line 2, column 19"),
        ('[lab]\n"sasl.password" = "env:NO_SUCH"\n', "the variable NO_SUCH, which is not set"),
        ('[lab]\n"sasl.password" = "file:/no/such"\n', "refers to /no/such, which cannot be read"),
        ('[lab]\n"acks" = "0"\n', "acks of your clients lab cannot be set"),
        (f'[lab]\n"sasl.mechanisms" = "{SECRET}"\n"no.such" = "1"\n', "rejects the settings"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_a_value(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(PlanError, match=says) as refused:
        check_client_settings(LAB)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_file_the_name_is_not_there(file: Path) -> None:
    file.unlink()
    with pytest.raises(PlanError, match=f"'lab' are not in {file}"):
        own_settings("lab")


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_may_write_is_not_believed(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(PlanError, match=r"other users can write .*chmod go-w"):
        own_settings("lab")


@pytest.mark.needs("root")
def test_what_belongs_to_another_user_is_not_believed(file: Path) -> None:
    os.chown(file, 65534, -1)
    with pytest.raises(PlanError, match="belongs to another user"):
        own_settings("lab")


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(PlanError, match="cannot be read"):
        own_settings("lab")


def test_where_it_lies_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGQUAKE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/there")
    assert own_file() == Path("/there/logquake/clients.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert own_file() == Path("/home/me/.config/logquake/clients.toml")
