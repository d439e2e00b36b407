"""A run in virtual time whose topics are made again: recorded, waited for, and judged."""

import json
from pathlib import Path

from checkers.run import judge_runs
from checkers.stored import load_facts
from results.record.terms import REMADE_PREFIX, Validity
from results.tables import read_table
from tests.nemesis.play_in_virtual_time import play


def test_what_was_made_again_is_judged_like_the_runs_own(tmp_path: Path) -> None:
    paths = play(
        tmp_path, {"seed": 2, "nemesis": ["remade"], "time_limit_s": 24, "warmup_s": 1, "rate": 50}
    )
    (verdict,) = judge_runs([paths.root], engine="local")
    assert verdict.valid is Validity.VALID, verdict.unknown_because
    topics = load_facts(paths.root).remade
    assert topics
    faults = read_table(paths, "faults").to_pylist()
    for topic in topics:
        (fault,) = [row for row in faults if json.loads(row["effect"])["topic"] == topic.topic]
        assert fault["confirmed_ns"]
        assert fault["targets"]
        assert topic.acked
        assert [*topic.replicas] == [0, 1]
        assert all({*nodes} == {"n1", "n2", "n3"} for nodes in topic.replicas.values())
        assert topic.made_ns < topic.healed_ns == fault["healed_ns"]
    # Its partitions, beside those of the plan; every broker was asked about each life of it.
    partitions = 2 * len(topics) + len(load_facts(paths.root).plan.topic_partitions)
    assert verdict.checked["isr-not-restored"] == partitions
    told = [
        row
        for row in read_table(paths, "leadership").to_pylist()
        if row["topic"].startswith(REMADE_PREFIX) and row["source"] == "metadata"
    ]
    assert {row["observer"] for row in told} == {"n1", "n2", "n3"}
    assert len({row["topic_id"] for row in told}) > len(topics)
