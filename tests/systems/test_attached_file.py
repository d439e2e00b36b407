"""The file of an attached cluster: what may stand in it, and what is made of it."""

import os
from pathlib import Path

import pytest

from results.record.attached_file import load_attached, security_of
from results.record.plan import PlanError

MINIMAL = 'bootstrap = "a.example:9093, b.example:9094"\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "cluster.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_the_example_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    example = Path(__file__).parents[2] / "docs" / "systems" / "attached.toml"
    monkeypatch.setenv("STAGING_PASSWORD", "s3cret")
    file = load_attached(example)
    assert file.test_cluster
    assert file.commands(3).kill != file.commands(1).kill
    assert file.commands(3).start == file.commands(1).start
    settings = security_of(file, example)
    assert settings["sasl.password"] == "s3cret"
    assert settings["ssl.ca.location"] == str(example.parent / "staging-ca.pem")


def test_commands_of_a_node_stand_over_those_of_all(tmp_path: Path) -> None:
    text = MINIMAL + '[nodes]\nkill = "all {id}"\n[node.2]\nkill = ["one", "two words"]\n'
    file = load_attached(written(tmp_path, text))
    assert file.commands(1).kill == ("all", "{id}")
    assert file.commands(2).kill == ("one", "two words")
    assert file.commands(2).start is None
    assert file.bootstrap == ("a.example:9093", "b.example:9094")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "docs/systems/attached.toml"),
        ('bootstrap = "nowhere"', "'nowhere' is no host:port"),
        (MINIMAL + "nemesis = 3", "nemesis: extra inputs"),
        (MINIMAL + '[security]\n"sasl.password" = "hunter2"', "sasl.password must not stand here"),
        (MINIMAL + '[security]\n"plugin.library.paths" = "x"', "is no setting of security"),
        (MINIMAL + '[nodes]\nkill = ""', "nodes.kill"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(PlanError) as refused:
        load_attached(written(tmp_path, text))
    assert why in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, MINIMAL)
    file.chmod(0o666)
    with pytest.raises(PlanError, match="others may write"):
        load_attached(file)


def test_secrets_come_from_files_and_the_users_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "clients.toml"
    own.write_text('[lab]\n"sasl.password" = "env:LAB"\n"sasl.username" = "me"\n')
    own.chmod(0o600)
    monkeypatch.setenv("LOGQUAKE_CONFIG", os.fspath(own))
    monkeypatch.setenv("LAB", "from-the-environment")
    (tmp_path / "name").write_text("from-a-file\n")
    text = MINIMAL + '[security]\nclients = "lab"\n"sasl.username" = "file:name"\n'
    path = written(tmp_path, text)
    settings = security_of(load_attached(path), path)
    assert settings == {"sasl.password": "from-the-environment", "sasl.username": "from-a-file"}
    monkeypatch.delenv("LAB")
    with pytest.raises(PlanError, match="the variable LAB, which is not set"):
        security_of(load_attached(path), path)
