"""Whole runs in virtual time by the nemesis that ships: the same bytes, triggers, coordinators."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.abilities import built_for
from nemesis.families import is_of
from nemesis.registry import needs_of
from results.record.paths import RunPaths
from results.record.plan import SIMULATED
from results.record.stream import read_stream
from results.signature import USUAL_KINDS
from tests.cluster_hosts.hubs import REPOSITORY
from tests.nemesis import play_in_virtual_time
from tests.nemesis.play_in_virtual_time import play

SCRIPT = Path(play_in_virtual_time.__file__)
PLAYED = sorted(
    each
    for each in USUAL_KINDS
    if is_of(each, SIMULATED) and needs_of(each) <= built_for(SIMULATED)
)
MANY = {"seed": 3, "nemesis": PLAYED, "time_limit_s": 40, "warmup_s": 1}
FEW = {"seed": 5, "nemesis": ["clock", "network", "topics"], "time_limit_s": 25, "warmup_s": 1}


def played_elsewhere(folder: Path, keys: Mapping[str, object], hash_seed: str) -> dict[str, bytes]:
    """Play a run in a process of its own; return what it left."""
    subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), json.dumps(keys)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": hash_seed},
        check=True,
        cwd=REPOSITORY,
    )
    (plan,) = folder.glob("**/plan.toml")
    root = plan.parent
    paths = [*root.glob("record/**/*"), *root.glob("nodes/**/*")]
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()
    }


@pytest.mark.parametrize(
    "keys", [pytest.param(MANY, id="many", marks=pytest.mark.night), pytest.param(FEW, id="few")]
)
def test_a_seed_gives_the_same_bytes_whatever_the_order_of_sets(
    tmp_path: Path, keys: Mapping[str, object]
) -> None:
    one, other = (
        played_elsewhere(tmp_path / hash_seed, keys, hash_seed) for hash_seed in ("1", "2")
    )
    assert any(path.startswith("record/live/faults") for path in one)
    assert any(path.startswith("nodes/n1/data/log-") for path in one)
    assert one.keys() == other.keys()
    assert [path for path in one if one[path] != other[path]] == []


def rows_of(paths: RunPaths) -> dict[str, dict[str, Any]]:
    """Return the last row of each fault, by its kind."""
    (stream,) = paths.live.glob("faults*")
    rows: dict[str, dict[str, Any]] = {}
    for batch in read_stream(stream):
        rows |= {row["kind"]: row for row in batch.to_pylist()}
    return {kind: {**row, "spec": json.loads(row["spec"])} for kind, row in rows.items()}


def test_faults_wait_for_states_and_hit_coordinators_in_virtual_time(tmp_path: Path) -> None:
    when = "leader epoch of log-0-0 >= 1"
    faults = [
        {"kind": "kill", "target": "leader(log-0,0)", "at_s": 4, "hold_s": 4},
        {"kind": "pause", "target": "follower(log-0,0)", "at_s": 1, "hold_s": 2, "when": when},
        {"kind": "isolate", "target": "coordinator(some-group)", "at_s": 12, "hold_s": 4},
        {"kind": "stop", "target": "n1", "at_s": 1, "hold_s": 1, "when": "controller epoch >= 99"},
    ]
    paths = play(tmp_path, {"seed": 1, "faults": faults, "time_limit_s": 24, "warmup_s": 2})
    rows = rows_of(paths)
    for kind in ("kill", "pause", "isolate"):
        assert rows[kind]["confirmed_ns"] is not None, rows[kind]["spec"]
        assert rows[kind]["healed_ns"] is not None, rows[kind]["spec"]
    waited = rows["pause"]["spec"]["waited"]
    assert waited["came"]
    assert 2.5 < waited["waited_s"] < 10
    assert waited["saw"]
    assert rows["pause"]["requested_ns"] > rows["kill"]["confirmed_ns"]
    assert not rows["stop"]["spec"]["waited"]["came"]
    assert "was not reached" in rows["stop"]["spec"]["without_effect"]
