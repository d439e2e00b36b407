"""The file of an attached cluster: what may stand in it, and what is made of it."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from cluster.systems.attached.commands import filled
from results.record.attached_file import UNSECURED, load_attached, security_of
from results.record.plan import Plan, PlanError
from workloads.clients.settings import check_client_settings

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
        ('bootstrap = "nowhere"', "'nowhere' does not have the form host:port"),
        (MINIMAL + "nemesis = 3", "nemesis: extra inputs"),
        (
            MINIMAL + '[security]\n"sasl.password" = "hunter2"',
            "sasl.password must not be written in this file",
        ),
        (MINIMAL + '[security]\n"plugin.library.paths" = "x"', "is not a security setting"),
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
    with pytest.raises(PlanError, match="other users can write"):
        load_attached(file)


def test_the_examples_command_prints_a_tar_of_the_runs_partitions(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "docs" / "systems" / "attached.toml"
    words = load_attached(example).nodes.files
    assert words is not None
    prefix = "logquake-0123abcd-"
    logs = tmp_path / "logs"
    for name in (f"{prefix}log-0-1", "orders-0"):
        (logs / name).mkdir(parents=True)
        (logs / name / "0.log").write_text(name)
    ssh, host, *remote = filled(words, {"own_host": "n1.example", "prefix": prefix})
    assert (ssh, host) == ("ssh", "n1.example")
    # ssh joins its words by blanks, and has the other side's shell split them anew.
    line = " ".join(remote).replace("sudo ", "").replace("/var/lib/kafka", str(logs))
    assert _tarred(line) == [f"{prefix}log-0-1", f"{prefix}log-0-1/0.log"]
    assert _tarred(line.replace(prefix, "logquake-76543210-")) == [], "nodes may have none"


def _tarred(line: str) -> list[str]:
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        return tar.getnames()


def test_the_users_own_table_secures_and_decides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "clients.toml"
    own.write_text('[lab]\n"sasl.password" = "pw"\n"group.id" = "payments"\n')
    own.chmod(0o600)
    monkeypatch.setenv("LOGQUAKE_CONFIG", os.fspath(own))
    path = written(tmp_path, MINIMAL + '[security]\nclients = "lab"\n')
    with pytest.raises(PlanError, match=r"group\.id of \[lab\] in .* is not a security setting"):
        security_of(load_attached(path), path)


OAUTH = (
    MINIMAL
    + """\
[security]
"security.protocol" = "sasl_ssl"
"sasl.mechanism" = "OAUTHBEARER"
"""
)


def test_tokens_that_nobody_signs_are_asked_for_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, OAUTH)
    with pytest.raises(PlanError, match=r"OAUTHBEARER needs .*unsecure\.jwt = \"true\""):
        security_of(load_attached(path), path)
    for more in (f'"{UNSECURED}" = "true"', '"sasl.oauthbearer.method" = "oidc"'):
        path.write_text(OAUTH + more)
        assert security_of(load_attached(path), path)["sasl.mechanism"] == "OAUTHBEARER"


def test_security_that_librdkafka_refuses_is_named_and_not_shown(tmp_path: Path) -> None:
    text = MINIMAL + '[security]\n"security.protocol" = "sasl_hunter2"\n'
    plan = Plan(system=f"attached:{written(tmp_path, text)}", client={"linger.ms": "1"})
    with pytest.raises(PlanError, match=r"security settings \(security\.protocol\)") as refused:
        check_client_settings(plan)
    assert "hunter2" not in str(refused.value)


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
