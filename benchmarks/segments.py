"""Checks that Kafka's own segment reader and Logquake's agree on every segment of stored runs.

For each run, DumpLogSegments of the same Kafka version reads the segments of all nodes. It also
reads all copies that the steps of a scenario made. The program compares each record, leader epoch,
offset and producer id. It prints a line for each run. The exit code is 1 if there is a difference.

    python -m benchmarks.segments STORE...
"""

import sys
from pathlib import Path

from benchmarks.kafka_dump import disagreements, segments_of
from cluster.java import find_java
from cluster.kafka.fetch import fetch_kafka
from results.record.plan import load_plan, plan_from
from results.store import Store, is_alive


def main() -> None:
    """Compare the runs of the given stores."""
    java, different = find_java(), False
    stored = (run for store in sys.argv[1:] for run in Store(Path(store)).runs())
    for run in (run for run in stored if not is_alive(run)):
        plan = plan_from(load_plan(run.plan))
        distribution = fetch_kafka(plan.kafka_version, progress=print)
        found = disagreements(run.root, java=java, distribution=distribution)
        different = different or bool(found)
        print(run.run_id, plan.system, f"{len(segments_of(run.root))} segments:",
              "; ".join(found) or "read alike", flush=True)  # fmt: skip
    sys.exit(different)


if __name__ == "__main__":
    main()
