"""What is undone on an attached cluster, and by whom: its brokers' answers are made up here."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from rich.console import Console

from cluster.kafka.secure import dial_by
from cluster.protocol import ClusterError, Endpoint, UserError
from cluster.systems.attached import clean, cluster, mending
from cluster.systems.attached.asking import Attached, Told
from cluster.systems.attached.cluster import AttachedCluster
from cluster.systems.attached.hosts import AttachedHosts
from cluster.systems.attached.marker import Marker, write_marker
from cluster.systems.attached.system import AttachedSystem
from harness import permission
from harness.heal import heal_attached
from harness.permission import permit
from harness.staging import Staging
from results.record.attached_file import load_attached
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.store import Store

OURS, THEIRS = "logquake-0123abcd-", "logquake-4567abcd-"
COMMANDS = """\
bootstrap = "h:1"
[nodes]
status = "cat n{id}"
start = "sh -c 'echo start {node} >> did; echo running 7 > n{id}'"
join = "sh -c 'echo join {node} {host} >> did; test ! -e refuse-{host}'"
cut = "true"
"""


class Standing(Attached):
    """A cluster of two brokers that tell what a test wants."""

    def __init__(self, path: Path, topics: Sequence[str] = ()) -> None:
        self.path, self.file, self.topics = path, load_attached(path), topics
        self.groups_error, self.silent = ErrorCode.none, False
        self.dial = dial_by({})

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            node: Endpoint(host=f"h{node}", broker_port=1, controller_port=0)
            for node in ("n1", "n2")
        }

    def metadata(self, topics: Sequence[str] | None = ()) -> Any:  # noqa: ANN401, ARG002 - as much of it as is asked for
        if self.silent:
            raise UserError("no broker of the cluster answers")
        return self.ask()

    def ask(self, *asked: object) -> Any:  # noqa: ANN401, ARG002 - for topics and groups
        topics = [SimpleNamespace(name=name) for name in self.topics]
        return SimpleNamespace(error_code=self.groups_error, groups=(), topics=topics)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lab" / "cluster.toml"
    path.parent.mkdir()
    path.write_text(COMMANDS)
    path.chmod(0o600)
    for node in (1, 2):
        (path.parent / f"n{node}").write_text("running 5")
    return path


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], None]:
    def there(topics: Sequence[str]) -> None:
        monkeypatch.setattr(mending, "Attached", lambda path: Standing(path, topics))

    monkeypatch.setattr(clean, "CLEAN_LIMIT_S", 0.1)
    return there


def marker_of(file: Path) -> Marker:
    return Marker(file=str(file), prefix=OURS, endpoints={"n1": ("hn1", 1), "n2": ("hn2", 1)})


def done(file: Path) -> list[str]:
    log = file.parent / "did"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("topics", [[f"{THEIRS}log-0"], []])
def test_without_a_marker_no_command_is_run(
    file: Path, standing: Callable[[Sequence[str]], None], topics: list[str]
) -> None:
    standing(topics)
    (file.parent / "n1").write_text("gone")
    mended = mending.mend_attached(file, [])
    assert done(file) == []
    assert len(mended.failed) == len(topics)


def test_dead_runs_are_undone_and_names_like_ours_are_somebody_elses(
    file: Path, standing: Callable[[Sequence[str]], None]
) -> None:
    standing(["logquake-of-my-own"])
    (file.parent / "n2").write_text("gone")
    mended = mending.mend_attached(file, [marker_of(file)])
    assert sorted(done(file)) == ["join n1 hn2", "join n2 hn1", "start n2"]
    assert mended.failed == ()
    assert mended.whole == {OURS}


@pytest.mark.parametrize(("state", "whole"), [("running 5", {OURS}), ("gone", set())])
def test_while_another_run_may_be_under_way_no_node_is_touched(
    file: Path, standing: Callable[[Sequence[str]], None], state: str, whole: set[str]
) -> None:
    standing([f"{THEIRS}log-0"])
    (file.parent / "n2").write_text(state)
    mended = mending.mend_attached(file, [marker_of(file)])
    assert done(file) == []
    assert mended.whole == whole, "what was cleaned is not looked for again"
    (told,) = mended.failed
    assert told.startswith(f"{THEIRS}log-0 belongs to a run that is not in this store")


def test_whoever_answers_tells_of_other_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Standing(file, [f"{THEIRS}log-0"])
    there.silent = True  # Those that the file names.
    monkeypatch.setattr(mending, "Attached", lambda _: there)
    mended = mending.mend_attached(file, [marker_of(file)])
    assert done(file) == []
    assert mended.failed[0].startswith(THEIRS)


def test_groups_that_no_broker_lists_may_be_there(
    file: Path, standing: Callable[[Sequence[str]], None]
) -> None:
    standing([])
    there = Standing(file)
    assert clean.clean_up(there, OURS) == []
    there.groups_error = ErrorCode.coordinator_load_in_progress
    with pytest.raises(ClusterError, match="the groups of n1"):
        clean.clean_up(there, OURS)


def hosts_of(file: Path, root: Path) -> tuple[AttachedHosts, RunPaths]:
    paths = RunPaths(root)
    root.mkdir()
    hosts = AttachedHosts(Standing(file), ("n1", "n2"), prefix=OURS, paths=paths)
    hosts.up()
    return hosts, paths


def test_links_that_nobody_can_try_are_not_told_of(file: Path, tmp_path: Path) -> None:
    hosts, _ = hosts_of(file, tmp_path / "run")
    assert hosts.probe([("n1", "n2"), ("n2", "n1")]) == {}
    file.write_text(COMMANDS + '[node.1]\nreach = "true"\n')
    hosts, _ = hosts_of(file, tmp_path / "again")
    assert hosts.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): True}


@pytest.mark.parametrize(("state", "stays"), [("running 5", False), ("gone", True)])
def test_what_is_there_stays_written_down_while_a_broker_is_dead(
    *, file: Path, tmp_path: Path, state: str, stays: bool
) -> None:
    hosts, paths = hosts_of(file, tmp_path / "run")
    (file.parent / "n2").write_text(state)
    hosts.down()
    assert paths.attached.exists() is stays


def test_a_join_that_fails_keeps_no_other_from_being_tried(file: Path, tmp_path: Path) -> None:
    hosts, paths = hosts_of(file, tmp_path / "run")
    for cut_id, other in (("a", "n2"), ("b", "n3")):
        hosts.places()
        hosts._endpoints = {**hosts._endpoints, "n3": hosts._endpoints["n2"]}
        hosts.cut(cut_id, [("n1", other), (other, "n1")])
    (file.parent / "refuse-hn1").touch()
    with pytest.raises(ClusterError, match="`join` of broker 2"):
        hosts.down()
    assert "join n3 hn1" in done(file)
    assert paths.attached.exists()


def test_only_the_runs_own_topics_are_touched_and_they_keep_all_records(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, _ = hosts_of(file, tmp_path / "run")
    plan = Plan(
        system=f"attached:{file}", prefix=OURS, nodes=2, broker_ids=(1, 2), replication=2,
        hosts="attached",
    )  # fmt: skip
    brokers = AttachedCluster(plan, hosts, sees=frozenset())
    for name in ("logquake-orders", f"{THEIRS}log-0"):
        with pytest.raises(ClusterError, match="does not belong to this run"):
            brokers.delete_topics([name])
    told: dict[str, Any] = {}
    monkeypatch.setattr(cluster, "make_topics", lambda *_, **more: told.update(more) or [])
    brokers.create_topics([f"{OURS}log-0"], partitions=1, replication=2)
    assert told["configs"] == {
        "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
    }  # fmt: skip


def test_a_marker_is_found_by_whichever_way_its_file_is_named(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file.parent)
    with Store(tmp_path / "store").create("log", 1) as run:
        run.plan.write_text("")
        write_marker(run.attached, marker_of(file))
        with pytest.raises(UserError, match="is running on that cluster"):
            heal_attached(link / ".." / "lab" / file.name, tmp_path / "store")


def test_what_a_stage_that_died_left_is_undone_or_named(
    file: Path, tmp_path: Path, standing: Callable[[Sequence[str]], None]
) -> None:
    standing([])
    run = RunPaths(tmp_path / "run")
    run.root.mkdir()
    console = Console(file=(tmp_path / "said").open("w"), width=500)
    plan = Plan(system=f"attached:{file}", hosts="attached", prefix=OURS)
    (file.parent / "n1").write_text("gone")
    write_marker(run.attached, marker_of(file))
    staging = Staging(plan, tmp_path / "store", console)
    staging._clean_up(plan, run)
    assert not run.attached.exists()
    assert "start n1" in done(file)
    write_marker(run.attached, marker_of(file))
    file.chmod(0o666)
    staging._clean_up(plan, run)
    console.file.close()
    said = (tmp_path / "said").read_text()
    assert "started the broker of n1" in said
    assert f"type: logquake heal {file}" in said


def test_who_is_at_a_terminal_is_asked_once_and_may_say_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = AttachedSystem(Plan(system=f"attached:{file}"))
    system._told = Told(cluster_id="it", endpoints={})
    monkeypatch.setattr(permission, "_PERMITTED", set())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    answers = ["it"]

    def typed() -> str:
        if not answers:
            raise EOFError
        return answers.pop()

    monkeypatch.setattr("builtins.input", typed)
    permit(system)
    permit(system)
    asked = capsys.readouterr()
    assert (asked.out, asked.err.count("type the id of the cluster")) == ("", 1)
    monkeypatch.setattr(permission, "_PERMITTED", set())
    with pytest.raises(UserError, match="nothing was done"):
        permit(system)
