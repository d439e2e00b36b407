"""Passwords in runs of before are shown nowhere: by no page, site, bundle, export or terminal."""

import contextlib
import gzip
import json
import shutil
import sqlite3
import tomllib
from pathlib import Path, PurePath

import pytest
import tomli_w

from harness.cli import exit_code
from harness.exit_codes import VALID
from results.export.bundle import read_bundle
from results.index import open_index
from results.record.hidden import (
    HIDDEN,
    file_without_secrets,
    is_secret,
    plan_without_secrets,
    properties_without_secrets,
    without_secrets,
)
from results.record.paths import RunPaths
from results.record.plan import PlanError, dump_plan, load_plan, plan_from
from results.repeats import setting_key, setting_words
from results.report import render_report
from results.samples import find_sample
from results.site import make_site
from results.store import Store

WORD = "hunter2"
SECRETS = {
    "sasl.password": f"{WORD}-1",
    "ssl.key.pem": f"-----BEGIN KEY-----\n{WORD}-2\n",
    "sasl.jaas.config": f'Plain required password="{WORD}-3";',
    "sasl.oauthbearer.client.secret": f"{WORD}-4",
}
PROPERTIES = f"""\
node.id=1
ssl.keystore.password = {WORD}-5
listener.name.x.plain.sasl.jaas.config=Plain required \\
  password="{WORD}-6" \\
  user="{WORD}-7";
  ssl.key.password: {WORD}-8
sasl.jaas.config {WORD}-9
log.dirs=data
"""


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """Return a run whose settings are full of passwords, as one of before may be."""
    paths = RunPaths(tmp_path / "runs" / "log" / "20261121T104500Z-7")
    shutil.copytree(find_sample("valid"), paths.root)
    plan = tomllib.loads(paths.plan.read_text())
    for table in ("client", "broker", "node"):
        plan[table] = {**plan.get(table, {}), **SECRETS}
    paths.plan.write_text(tomli_w.dumps(plan))
    for node in paths.nodes.glob("*"):
        (node / "server.properties").write_text(PROPERTIES)
    workers = paths.root / "workers"
    workers.mkdir()
    (workers / "worker-0.json").write_text(json.dumps({"plan": plan, "rows": [SECRETS]}))
    other = RunPaths(paths.root.with_name("20261121T104600Z-8"))
    shutil.copytree(find_sample("valid"), other.root)
    return paths


def test_12_no_command_shows_or_packs_a_password(
    paths: RunPaths,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    store = ["--store", str(tmp_path / "runs")]
    forms = ("bundle", "perfetto", "csv", "jepsen")
    for command in (
        ["show", paths.run_id], ["runs"], ["report", paths.run_id, "--output", str(out / "r.html")],
        ["timeline", paths.run_id, "--output", str(out / "t.html")],
        *(["export", paths.run_id, "--as", form, "-o", str(out / form)] for form in forms),
        ["export", paths.run_id, "--as", "bundle", "--with-nodes", "-o", str(out / "nodes")],
    ):  # fmt: skip
        assert exit_code([*command, *store]) == VALID, command
    assert WORD not in "".join(capfd.readouterr())
    written = [each for each in out.rglob("*") if each.is_file()]
    assert len(written) > len(forms)
    for file in written:
        data = file.read_bytes()
        assert WORD.encode() not in (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    assert HIDDEN in (out / "r.html").read_text()
    for bundle in ("bundle", "nodes"):
        taken = read_bundle(out / bundle, Store(tmp_path / bundle))
        plan = tomllib.loads(taken.plan.read_text())
        assert plan["client"]["sasl.password"] == HIDDEN, "whoever reads it sees that one is needed"


def test_12_the_site_serves_no_password(paths: RunPaths) -> None:
    client = make_site(Store(paths.root.parent.parent)).test_client()
    files = [str(each.relative_to(paths.root)) for each in paths.root.rglob("*")
             if each.suffix in (".toml", ".json", ".properties")]  # fmt: skip
    assert len(files) > 4
    run, other = paths.run_id, paths.run_id.replace("500Z-7", "600Z-8")
    for url in (
        "/", "/runs", f"/files/{run}", f"/bundle/{run}", f"/compare?left={run}&right={other}",
        f"/run/{run}/report.html", *(f"/run/{run}/{each}" for each in files),
    ):  # fmt: skip
        answer = client.get(url, buffered=True)
        assert answer.status_code == 200, url
        data = answer.get_data()
        assert WORD.encode() not in (gzip.decompress(data) if "/bundle/" in url else data), url
    assert HIDDEN in client.get(f"/run/{run}/plan.toml").get_data(as_text=True)


def with_passwords(paths: RunPaths) -> None:
    """Give a run a plan that is valid, and holds passwords."""
    plan = tomllib.loads(find_sample("valid").joinpath("plan.toml").read_text())
    settings = {"client": SECRETS, "broker": SECRETS, "node": {"n1": SECRETS}}
    paths.plan.write_text(tomli_w.dumps({**plan, **settings}))
    paths.report.unlink(missing_ok=True)


def test_12_settings_of_a_plan_are_shown_without_passwords(
    paths: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    with_passwords(paths)
    store = Store(paths.root.parent.parent)
    assert exit_code(["show", paths.run_id, "--store", str(store.root)]) == VALID
    said = capfd.readouterr().out
    assert HIDDEN in said
    assert "sasl.password" in said
    assert WORD not in said
    assert WORD not in render_report(paths)
    plan = plan_from(load_plan(paths.plan))
    assert f"client.sasl.password={HIDDEN}" in setting_words(plan)
    assert WORD not in setting_words(plan)
    other = plan.model_copy(update={"client": {**SECRETS, "sasl.password": "another"}})
    assert setting_key(plan) == setting_key(other), "its digits would let a word be guessed"


def test_12_the_index_holds_no_password_of_a_plan_nor_one_of_an_older_index(
    paths: RunPaths,
) -> None:
    with_passwords(paths)
    store = Store(paths.root.parent.parent)
    with open_index(store) as index:
        index.refresh()
    file = store.root / ".index.sqlite"
    assert WORD.encode() not in file.read_bytes()
    with contextlib.closing(sqlite3.connect(file)) as database, database:  # As an older one was.
        database.execute("UPDATE runs SET settings = ?", (f"client.sasl.password={WORD}",))
        database.execute("PRAGMA user_version = 8")
    assert WORD.encode() in file.read_bytes()
    with open_index(store) as index:
        index.refresh()
    assert WORD.encode() not in file.read_bytes()


def test_12_a_password_of_a_wrong_kind_is_not_told() -> None:
    for values in (
        {"client": {"sasl.password": 4711}},
        {"node": {"n1": {"ssl.key.password": 4711}}},
    ):
        with pytest.raises(PlanError, match="password cannot have this value") as refused:
            plan_from(dict(values))
        assert "4711" not in str(refused.value)


@pytest.mark.parametrize("name", [*SECRETS, "ssl.keystore.key", "ssl.truststore.certificates",
                                  "ssl.key.passphrase", "delegation.token.secret.key",
                                  "sasl.username", "SASL.PASSWORD"])  # fmt: skip
def test_a_name_that_means_a_secret_is_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", [
    *plan_from({}).model_dump(), "acks", "group.id", "transactional.id", "linger.ms", "keys",
    "log.message.timestamp.type", "delegation.token.expiry.check.interval.ms", "security.protocol",
])  # fmt: skip
def test_a_name_that_means_none_is_shown(name: str) -> None:
    assert not is_secret(name)


def test_what_holds_no_secret_stays_as_it_is_to_the_byte() -> None:
    plan = f"# as it was\n{dump_plan(plan_from({}))}"
    assert plan_without_secrets(plan) == plan
    told = b"node.id=1\r\n# \xff\nlog.dirs=data\n\n"
    assert file_without_secrets(PurePath("nodes/n1/server.properties"), told) == told


def test_a_value_that_goes_on_for_lines_is_hidden_to_its_end() -> None:
    assert properties_without_secrets(PROPERTIES).splitlines() == [
        "node.id=1",
        "ssl.keystore.password=(hidden)",
        "listener.name.x.plain.sasl.jaas.config=(hidden)",
        "ssl.key.password=(hidden)",
        "sasl.jaas.config=(hidden)",
        "log.dirs=data",
    ]


@pytest.mark.parametrize("text", ['client = {"sasl.password" = "hunter2"', "# password\nx = ["])
def test_a_plan_that_cannot_be_read_and_may_hold_one_is_not_shown(text: str) -> None:
    assert HIDDEN in plan_without_secrets(text)
    assert WORD not in plan_without_secrets(text)


def test_tables_and_lists_are_looked_into() -> None:
    deep: dict[str, object] = {"a": [{"ssl.key.password": WORD}], "password": {"b": [WORD, 1]}}
    assert without_secrets({"x": deep}) == {
        "x": {"a": [{"ssl.key.password": HIDDEN}], "password": HIDDEN}
    }
