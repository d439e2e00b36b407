"""Stories beside the two examples, on real brokers: the hands-on, and the last replica."""

import json
from pathlib import Path

import pytest

from results.record.paths import RunPaths
from results.record.steps import load_steps
from results.record.story import load_story
from tests.harness.on_real_brokers import TEST_LIMIT_S, logquake

EPOCHS = "data/peter-test01-0/leader-epoch-checkpoint"
SEGMENT = "data/peter-test01-0/00000000000000000000.log"

pytestmark = [pytest.mark.everything, pytest.mark.kafka, pytest.mark.timeout(TEST_LIMIT_S)]


def play(*words: str, store: Path) -> RunPaths:
    """Play a scenario; it must end as it expects."""
    _, said, paths = logquake("scenario", "run", *words, store=store)
    story = load_story(paths.story)
    assert story is not None, said
    assert story.differs == ()
    return paths


def lines(paths: RunPaths, step: str, node: str) -> list[str]:
    return (paths.snapshots / step / node / EPOCHS).read_text(encoding="utf-8").splitlines()


@pytest.mark.night
def test_the_hands_on_file_by_file(tmp_path: Path) -> None:
    paths = play("leader-epoch-handson", "--system", "kafka:4.3.1", store=tmp_path)
    assert lines(paths, "step-01", "n3") == ["0", "1", "0 0"]
    assert lines(paths, "step-01", "n1") in ([], ["0", "0"])
    assert lines(paths, "step-02", "n3") == lines(paths, "step-02", "n1") == ["0", "1", "0 0"]
    assert lines(paths, "step-03", "n1") == ["0", "2", "0 0", "1 1"]
    assert lines(paths, "step-03", "n3") == ["0", "1", "0 0"]
    assert lines(paths, "step-05", "n3") == lines(paths, "step-05", "n1") == lines(
        paths, "step-04", "n1"
    )  # fmt: skip
    asked = load_steps(paths.steps)[3].answers
    assert [(each.node, each.answer) for each in asked] == [
        ("n1", "epoch 0 ends at offset 1"),
        ("n1", "epoch 1 ends at offset 2"),
    ]


@pytest.mark.night
@pytest.mark.parametrize("system", ["kafka:2.8.2", "kafka:4.3.1"])
def test_a_late_request_hangs_a_transaction_where_nobody_verifies_it(
    system: str, tmp_path: Path
) -> None:
    paths = play("hanging-transaction", "--system", system, store=tmp_path)
    arrived = load_steps(paths.steps)[3].did[0]
    assert arrived.startswith("the request with message3 arrived, and was ")
    verdict = json.loads(paths.verdict.read_text(encoding="utf-8"))
    if system == "kafka:4.3.1":
        assert arrived.endswith("refused: INVALID_TXN_STATE")
        return
    assert arrived.endswith("accepted at offset 4")
    (hanging,) = verdict["anomalies"]["hanging-transaction"]["examples"]
    assert hanging["evidence"]["last_stable_offset"] == 4
    assert "has been open since offset 4" in hanging["sentence"]


@pytest.mark.night
def test_the_last_replica_with_eligible_leader_replicas_waits_for_a_good_copy(
    tmp_path: Path,
) -> None:
    paths = play("last-replica-standing", "--elr", store=tmp_path)
    steps = load_steps(paths.steps)
    assert [step.leader for step in steps] == [1, 2, 3, None, None, 2, 2]
    assert (paths.snapshots / "step-05" / "n3" / SEGMENT).stat().st_size == 0
    assert (paths.snapshots / "step-06" / "n3" / SEGMENT).stat().st_size > 0


@pytest.mark.night
def test_the_last_replica_without_them_takes_the_good_copies_along(tmp_path: Path) -> None:
    paths = play("last-replica-standing", "--no-elr", store=tmp_path)
    steps = load_steps(paths.steps)
    assert [step.leader for step in steps] == [1, 2, 3, None, 3, 3, 3]
    for node in ("n1", "n2", "n3"):
        size = (paths.snapshots / "step-03" / node / SEGMENT).stat().st_size
        assert size > (paths.snapshots / "step-06" / node / SEGMENT).stat().st_size == 0
    lost = json.loads(paths.verdict.read_text(encoding="utf-8"))["anomalies"]["lost-write"]
    assert lost["count"] == 100
