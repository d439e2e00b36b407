"""A plan may be a stranger's: what it may set, and that nothing of it runs before that is known."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import tomli_w

from harness.cli import exit_code
from harness.exit_codes import BAD_ARGUMENTS
from harness.plans import completed_plan
from results.record.plan import PlanError
from results.record.tuning import tunes_a_broker, tunes_a_client
from results.samples import find_sample

WITNESS = """
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) { system("touch WITNESS"); }
int conf_init(void *conf, void **opaque, char *err, unsigned long size) { return 0; }
"""


@pytest.mark.parametrize(
    "key",
    [
        "plugin.library.paths", "ssl.engine.location", "ssl.ca.location", "ssl.key.location",
        "ssl.key.password", "ssl.keystore.location", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab", "sasl.password", "sasl.username", "sasl.jaas.config",
        "sasl.oauthbearer.config", "sasl.oauthbearer.token.endpoint.url", "security.protocol",
        "bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers", "https.ca.location",
        "log_cb", "open_cb", "no.such",
    ],
)  # fmt: skip
def test_a_client_is_told_nothing_that_loads_reads_or_runs(key: str) -> None:
    with pytest.raises(PlanError, match=f"the plan's client.{key} cannot be set"):
        completed_plan({"client": {key: "anything"}}, {}, broker={}, client={})


@pytest.mark.parametrize(
    "key",
    [
        "log.dirs", "log.dir", "metadata.log.dir", "listeners", "advertised.listeners",
        "metric.reporters", "metrics.recording.listener", "authorizer.class.name",
        "principal.builder.class", "log.message.format.class", "kafka.metrics.reporters",
        "remote.log.storage.manager.class.name", "ssl.keystore.location", "ssl.key.password",
        "sasl.jaas.config", "password.encoder.secret", "config.providers", "zookeeper.connect",
        "controller.quorum.voters", "controller.quorum.bootstrap.servers", "early.start.listeners",
        "client.quota.callback.class", "alter.config.policy.class.name", "process.roles",
        "replica.selector.class", "delegation.token.secret.key", "super.users",
    ],
)  # fmt: skip
@pytest.mark.parametrize("table", ["broker", "node"])
def test_35_a_broker_is_told_nothing_that_loads_reads_or_listens(table: str, key: str) -> None:
    told = {key: "anything"}
    values = {"broker": told} if table == "broker" else {"node": {"n1": told}}
    with pytest.raises(PlanError, match=f"{key} cannot be set"):
        completed_plan(values, {}, broker={}, client={})


@pytest.mark.parametrize(
    "key",
    [
        "replica.lag.time.max.ms", "unclean.leader.election.enable", "log.cleanup.policy",
        "log.segment.bytes", "num.recovery.threads.per.data.dir", "min.insync.replicas",
        "log.message.format.version", "inter.broker.protocol.version", "truncation",
        "broker.session.timeout.ms", "zookeeper.session.timeout.ms", "message.max.bytes",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "group.min.session.timeout.ms",
        "controller.quorum.fetch.timeout.ms", "metadata.max.idle.interval.ms",
        "log.message.timestamp.type", "auto.leader.rebalance.enable", "offsets.retention.minutes",
    ],
)  # fmt: skip
def test_what_tunes_a_broker_may_be_set(key: str) -> None:
    assert tunes_a_broker(key)


@pytest.mark.parametrize(
    "key",
    [
        "batch.size", "fetch.min.bytes", "session.timeout.ms", "socket.keepalive.enable",
        "partition.assignment.strategy", "debug", "max.in.flight.requests.per.connection",
        "group.protocol", "retry.backoff.max.ms", "topic.metadata.refresh.interval.ms",
    ],
)  # fmt: skip
def test_what_tunes_a_client_may_be_set(key: str) -> None:
    assert tunes_a_client(key)


def test_the_remedy_is_one_that_helps() -> None:
    file = "write the setting into ~/.config/logquake/clients.toml"
    with pytest.raises(
        PlanError, match=f"Remove the setting, or {file} and name its table"
    ) as told:
        completed_plan({"client": {"sasl.password": "x"}}, {}, broker={}, client={})
    assert str(told.value).endswith("with --clients")
    for values in ({"broker": {"listeners": "x"}}, {"node": {"n1": {"listeners": "x"}}}):
        with pytest.raises(PlanError, match=r"listeners cannot be set: .* Remove the setting$"):
            completed_plan(values, {}, broker={}, client={})


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return a library that leaves a file `witness` beside it when it is loaded."""
    made = tmp_path / "plugin.so"
    if compiler := shutil.which("cc"):
        source = tmp_path / "plugin.c"
        source.write_text(WITNESS.replace("WITNESS", str(tmp_path / "witness")))
        subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source], check=True)
    return made


def test_a_library_that_a_plan_names_is_never_loaded(library: Path) -> None:
    values = {"client": {"plugin.library.paths": str(library)}}
    with pytest.raises(PlanError, match="cannot be set"):
        completed_plan(values, {}, broker={}, client={})
    assert not library.with_name("witness").exists()


def test_1_and_2_neither_repro_nor_a_dry_run_loads_a_library_of_a_plan(
    library: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    run = store / "log" / "20261121T104500Z-7"
    shutil.copytree(find_sample("valid"), run, copy_function=shutil.copyfile)
    plan = tomllib.loads((run / "plan.toml").read_text())
    plan["client"] = {**plan.get("client", {}), "plugin.library.paths": str(library)}
    (run / "plan.toml").write_text(tomli_w.dumps(plan))
    for command in (["repro", str(run), "--times", "1"], ["run", str(run / "plan.toml"),
                                                         "--dry-run"]):  # fmt: skip
        assert exit_code([*command, "--store", str(store)]) == BAD_ARGUMENTS
        assert "client.plugin.library.paths cannot be set" in capfd.readouterr().err
        assert not library.with_name("witness").exists()


@pytest.mark.parametrize("command", ["--client sasl.password=hunter2",
                                     "--set sasl.jaas.config=hunter2"])  # fmt: skip
def test_12_a_password_of_the_command_line_reaches_no_file(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--system", "reference", "--hosts", "process", "--dry-run"]
    assert exit_code([*run, *command.split(), "--store", str(tmp_path)]) == BAD_ARGUMENTS
    said = capfd.readouterr()
    assert "cannot be set" in said.err
    assert ("name its table with --clients" in said.err) == ("--client" in command)
    assert "hunter2" not in said.out + said.err
    assert list(tmp_path.rglob("*")) == []
