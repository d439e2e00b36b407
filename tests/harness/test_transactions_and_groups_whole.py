"""Whole runs of transactions and of groups, as the examples of the docs have them."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from results.record.paths import RunPaths
from results.record.verdict import Verdict
from results.verdict_json import read_verdict
from tests.harness.commands import HERE, RUN_LIMIT_S, logquake, newest

PLANS = Path(__file__).parents[2] / "docs" / "plans"
pytestmark = [pytest.mark.everything, pytest.mark.kafka, pytest.mark.timeout(RUN_LIMIT_S + 20)]


def ops(paths: RunPaths) -> Mapping[tuple[str, str], int]:
    table = pq.read_table(paths.table("ops"), columns=["f", "outcome"])
    return Counter(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def played(plan: str, store: Path, *words: str) -> tuple[Verdict, RunPaths]:
    """Play a plan of the docs, which has to come out valid."""
    done = logquake("run", str(PLANS / plan), *words, *HERE, store=store)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    paths = newest(store)
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    return verdict, paths


@pytest.mark.night
def test_transactions_under_faults_keep_their_promises(tmp_path: Path) -> None:
    verdict, paths = played("txn.toml", tmp_path)
    assert any("writes are transactions" in each for each in verdict.guarantees)
    done = ops(paths)
    assert done["txn", "ok"] > 100
    assert done["txn", "fail"] > 10
    assert done["txn", "info"] > 0
    ended = pq.read_table(paths.table("transactions"), columns=["decision", "outcome"]).to_pylist()
    assert Counter(row["outcome"] for row in ended)["committed"] == done["txn", "ok"]
    reads = pq.read_table(paths.table("final_reads")).to_pylist()
    assert all(row["complete"] and row["isolation"] == "read_committed" for row in reads)
    for name in ("lost-write", "unseen", "G1a", "torn-transaction", "precommitted-read"):
        assert verdict.checked[name], name


@pytest.mark.night
def test_groups_under_faults_keep_their_promises(tmp_path: Path) -> None:
    verdict, paths = played("groups.toml", tmp_path, "--rate", "150")
    done = ops(paths)
    assert done["subscribe", "ok"] > 8
    assert done["crash", "info"] > 0
    kinds = Counter(pq.read_table(paths.table("assignments"))["kind"].to_pylist())
    assert kinds["rebalance-assigned"] > kinds["rebalance-revoked"] > 0
    for name in ("lost-write", "poll-skip", "nonmonotonic-poll"):
        assert verdict.checked[name], name
