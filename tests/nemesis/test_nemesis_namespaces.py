"""Every kind of fault on real namespaces and real processes, confirmed by real measurement."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.namespace import enter_prefix
from nemesis.ledger import open_entries
from results.record.paths import RunPaths

pytestmark = pytest.mark.namespaces


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunPaths, dict[str, Any]]:
    paths = RunPaths(tmp_path_factory.mktemp("log") / "run")
    paths.live.mkdir(parents=True)
    script = Path(__file__).with_name("play_in_namespaces.py")
    argv = [*enter_prefix(), sys.executable, str(script), str(paths.root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return paths, told


def _effects(run: tuple[RunPaths, dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {
        row["kind"]: (json.loads(row["effect"]), json.loads(row["heal_effect"]))
        for row in run[1]["rows"]
    }


def test_every_fault_is_confirmed_and_healed(run: tuple[RunPaths, dict[str, Any]]) -> None:
    paths, told = run
    assert len(told["rows"]) == 7
    for row in told["rows"]:
        assert row["requested_ns"] < row["confirmed_ns"] < row["healed_ns"], row
    assert told["failed"] == told["done"] == []
    assert open_entries(paths.ledger) == ()


@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        ("isolate", {("n1", "n3"), ("n3", "n1"), ("n2", "n3"), ("n3", "n2")}),
        ("halves", {("n1", "n3"), ("n3", "n1"), ("n2", "n3"), ("n3", "n2")}),
        ("one-way-in", {("n1", "n3"), ("n2", "n3")}),
        ("one-way-out", {("n3", "n1"), ("n3", "n2")}),
    ],
)
def test_links_are_dead_while_cut_and_alive_before_and_after(
    run: tuple[RunPaths, dict[str, Any]], kind: str, cut: set[tuple[str, str]]
) -> None:
    effect, healed = _effects(run)[kind]
    probes = {(each["sender"], each["receiver"]): each for each in effect["links"]}
    assert {link for link, each in probes.items() if each["cut"]} == cut
    assert all(each["before"] for each in probes.values())
    assert {link for link, each in probes.items() if each["during"]} == set(probes) - cut
    assert all(each["after"] for each in healed["links"])
    # The firewall counted our probes, at least.
    assert all(each["dropped_at_first"] > 0 for each in healed["links"])


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_a_process_is_gone_and_another_one_comes(
    run: tuple[RunPaths, dict[str, Any]], kind: str
) -> None:
    effect, back = _effects(run)[kind]
    (gone,) = effect["processes"]
    assert gone["state_after"] in {None, "Z"}
    assert gone["start_ticks"] > 0
    (now,) = back["processes"]
    assert now["pid"] != gone["pid"] == back["pid_before"]["n3"]
    assert now["state_after"] in {"S", "R"}


def test_a_process_stands_still_and_goes_on(run: tuple[RunPaths, dict[str, Any]]) -> None:
    effect, back = _effects(run)["pause"]
    assert effect["processes"][0]["state_after"] == "T"
    assert back["processes"][0]["pid"] == effect["processes"][0]["pid"]
    assert back["processes"][0]["state_after"] in {"S", "R"}
