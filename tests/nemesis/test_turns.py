"""What takes records begins when all was whole for a while, and nothing else until it is again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.kafka.configuration import hidden_s
from results.record.clock import NS_PER_S
from results.record.plan import Plan
from tests.nemesis.both_worlds import WORLDS, Ground, fault, on

QUICK = {"broker.session.timeout.ms": "1000", "replica.lag.time.max.ms": "800"}
HIDDEN_NS = round(1.7 * NS_PER_S)


@pytest.mark.parametrize("where", WORLDS)
def test_lanes_give_way_to_what_takes_records_and_to_each_other(where: str, tmp_path: Path) -> None:
    faults = (
        fault(1, "kill", "n1"),
        fault(2, "power-loss", "n2", at_s=0.2),
        fault(3, "topic-churn", "one", lane=1),
        fault(4, "power-loss", "n3", at_s=0.3, lane=1),
        fault(5, "pause", "n1", at_s=0.4, lane=1),
        fault(6, "pause", "n1", at_s=0.4),
    )

    def work(ground: Ground) -> None:
        rows = ground.dealt(*faults, spares_majority=False)
        assert rows.keys() == {1, 2, 3, 4, 5, 6}
        assert all(row["healed_ns"] for row in rows.values()), rows
        for alone in (rows[2], rows[4]):
            for other in rows.values():
                if other is not alone:
                    assert _apart_ns(alone, other) >= HIDDEN_NS, (alone, other)
        # Both were due at once, and wanted the same process: neither was refused.
        assert _apart_ns({**rows[5], "requested_ns": rows[5]["confirmed_ns"]},
                         {**rows[6], "requested_ns": rows[6]["confirmed_ns"]}) > 0  # fmt: skip

    on(where, tmp_path / "run", work, broker=QUICK, time_limit_s=50)


def _apart_ns(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return how long the first of two faults was over before the second was begun."""
    before: int = one["requested_ns"] - other["healed_ns"]
    after: int = other["requested_ns"] - one["healed_ns"]
    return max(before, after)


def test_the_while_is_what_the_settings_can_hide() -> None:
    def while_s(system: str = "kafka:4.1.0", **settings: object) -> float:
        return hidden_s(Plan.model_validate({"system": system, **settings}))

    assert while_s() == 6.5  # 4 s to lag, and half of it until the leader looks.
    assert while_s(broker={"replica.lag.time.max.ms": "1000"}) == 3.5  # The session.
    assert while_s(node={"n2": {"broker.session.timeout.ms": "9000"}}) == 9.5
    slow = {"zookeeper.session.timeout.ms": "8000"}
    assert while_s(broker=slow) == 6.5
    assert while_s("kafka:2.8.2:zookeeper", broker=slow) == 8.5
    assert while_s(broker={"replica.lag.time.max.ms": "soon"}) == 6.5
