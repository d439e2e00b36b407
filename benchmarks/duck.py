"""The checks of `benchmarks/plain.py` as SQL: one DuckDB query for each, on the same files.

python -m benchmarks.duck RUN
"""

import json
import sys
from pathlib import Path

import duckdb

from benchmarks.plain import CHECKS, QUORUM_TOPIC

_TABLES = ("ops", "sends", "polls", "replica_records", "leadership", "reservations")
_VIEWS = """
CREATE VIEW acked AS SELECT * FROM sends WHERE acked AND "offset" >= 0;
CREATE VIEW looks AS SELECT * FROM leadership WHERE source = 'list-offsets';
CREATE VIEW led AS
  SELECT "partition", 'n' || arg_max(leader, leader_epoch) AS node FROM looks GROUP BY "partition";
CREATE VIEW log AS SELECT r.* FROM replica_records r JOIN led USING ("partition", node);
CREATE VIEW final_polls AS SELECT * FROM polls WHERE phase = 'final';
"""
_LOST = """
  SELECT a."partition", a.value FROM acked a
  ANTI JOIN log l ON a."partition" = l."partition" AND a.value = l.value
  UNION SELECT a."partition", a.value FROM acked a
  JOIN (SELECT "partition", max("offset") AS reached FROM final_polls GROUP BY 1) f
    ON a."partition" = f."partition" AND a."offset" < f.reached
  ANTI JOIN final_polls p ON a."partition" = p."partition" AND a.value = p.value
"""
_STEPS = """
  WITH versions AS (
    SELECT "partition", "offset",
           row_number() OVER (PARTITION BY "partition" ORDER BY "offset") AS at FROM log),
  steps AS (
    SELECT "partition", op_id, "offset", lag(op_id) OVER each AS before_op,
           lag("offset") OVER each AS before FROM {rows}
    WINDOW each AS (PARTITION BY "partition", process ORDER BY {order}))
  SELECT count(*) FILTER (s.op_id = s.before_op AND s."offset" <= s.before),
         count(*) FILTER (s.op_id <> s.before_op AND s."offset" <= s.before),
         count(*) FILTER (s.op_id = s.before_op AND one.at > other.at + 1),
         count(*) FILTER (s.op_id <> s.before_op AND one.at > other.at + 1)
  FROM steps s
  JOIN versions one ON one."partition" = s."partition" AND one."offset" = s."offset"
  JOIN versions other ON other."partition" = s."partition" AND other."offset" = s.before
"""
_PAIRS = """
  FROM (SELECT * FROM replica_records WHERE node = '{one}') a
  FULL JOIN (SELECT * FROM replica_records WHERE node = '{other}') b
    ON a."partition" = b."partition" AND a."offset" = b."offset"
"""
_QUERIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("malformed-history",), """
      SELECT (SELECT count(*) - count(DISTINCT op_id) FROM ops)
        + (SELECT count(*) FROM ops WHERE complete_ns < invoke_ns)
        + (SELECT count(*) - count(DISTINCT (value, "partition")) FROM sends)
        + (SELECT count(*) FROM (
             SELECT invoke_ns, lag(coalesce(complete_ns, 9223372036854775807)) OVER
               (PARTITION BY process ORDER BY invoke_ns) AS done FROM ops) WHERE done > invoke_ns)
    """),
    (("lost-write",), f"SELECT count(*) FROM ({_LOST})"),  # noqa: S608 - no foreign input
    (("unseen",), f"""
      SELECT count(*) FROM acked a
      ANTI JOIN polls p ON a."partition" = p."partition" AND a.value = p.value
      ANTI JOIN ({_LOST}) l ON a."partition" = l."partition" AND a.value = l.value
    """),  # noqa: S608 - as above
    (("duplicate",), """
      SELECT count(*) FROM (
        SELECT "partition", value FROM (
          SELECT "partition", value, "offset" FROM polls UNION
          SELECT "partition", value, "offset" FROM log) GROUP BY 1, 2 HAVING count(*) > 1)
    """),
    (("inconsistent-offsets",), """
      SELECT count(*) FROM (
        SELECT "partition", "offset" FROM (
          SELECT "partition", value, "offset" FROM polls UNION
          SELECT "partition", value, "offset" FROM acked) GROUP BY 1, 2 HAVING count(*) > 1)
    """),
    (("phantom",), """
      SELECT (SELECT count(*) FROM polls p
              ASOF LEFT JOIN reservations r ON p.value >= r.value_from
              WHERE r.value_to IS NULL OR p.value >= r.value_to)
        + (SELECT count(*) FROM polls p
           ANTI JOIN sends s ON p."partition" = s."partition" AND p.value = s.value)
    """),
    (("G1a",), """
      SELECT count(*) FROM polls p SEMI JOIN (SELECT * FROM sends WHERE outcome = 'fail') s
        ON p."partition" = s."partition" AND p.value = s.value
    """),
    (("ack-mismatch",), """
      SELECT count(*) FROM acked a JOIN log l ON a."partition" = l."partition"
        AND a.value = l.value WHERE a."offset" <> l."offset"
    """),
    (("offset-order",), """
      WITH done AS (
        SELECT "partition", complete_ns,
               max("offset") OVER (PARTITION BY "partition" ORDER BY complete_ns) AS highest
        FROM acked)
      SELECT count(*) FROM acked a ASOF JOIN done d
        ON a."partition" = d."partition" AND a.invoke_ns > d.complete_ns
      WHERE d.highest > a."offset"
    """),
    (("int-nonmonotonic-poll", "nonmonotonic-poll", "int-poll-skip", "poll-skip"),
     _STEPS.format(rows="polls", order="op_id, mop, pos")),
    (("int-nonmonotonic-send", "nonmonotonic-send", "int-send-skip"),
     _STEPS.format(rows="acked", order="op_id, mop")),
    *(
        (("log-divergence", "two-leaders-in-epoch"), """
          SELECT count(*) FILTER (a."offset" IS NULL OR b."offset" IS NULL
                   OR a.leader_epoch <> b.leader_epoch OR a.record_hash <> b.record_hash
                   OR a.control <> b.control),
                 count(*) FILTER (a.leader_epoch = b.leader_epoch
                   AND (a.record_hash <> b.record_hash OR a.control <> b.control))
        """ + _PAIRS.format(one=one, other=other))
        for one, other in (("n1", "n2"), ("n1", "n3"), ("n2", "n3"))
    ),
    (("two-leaders-in-epoch",), """
      SELECT count(*) FROM (SELECT "partition", leader_epoch FROM looks GROUP BY 1, 2
                            HAVING count(DISTINCT leader) > 1)
    """),
    (("epoch-regression",), """
      SELECT count(*) FROM (SELECT leader_epoch, lag(leader_epoch) OVER
        (PARTITION BY "partition", node ORDER BY "offset") AS before FROM replica_records)
      WHERE leader_epoch < before
    """),
    (("high-watermark-regression",), """
      SELECT count(*) FROM (SELECT high_watermark, max(high_watermark) OVER
        (PARTITION BY "partition" ORDER BY leader_epoch, asked_ns
         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM looks)
      WHERE high_watermark < before
    """),
    (("incomplete-leader",), """
      SELECT count(*) FROM (
        SELECT "partition", node, leader_epoch, min("offset") AS start FROM replica_records
        GROUP BY 1, 2, 3) s
      JOIN (SELECT "partition", leader_epoch, max(high_watermark) AS mark FROM looks
            GROUP BY 1, 2) h
        ON s."partition" = h."partition" AND h.leader_epoch < s.leader_epoch
      WHERE s.start < h.mark
    """),
    (("uncommitted-read",), """
      SELECT count(*) FROM polls p ASOF JOIN looks h
        ON p."partition" = h."partition" AND p.complete_ns < h.asked_ns
      WHERE h.high_watermark <= p."offset"
    """),
)  # fmt: skip


def check(root: Path, threads: int = 2) -> dict[str, int]:
    """Return the number of anomalies that each check finds.

    Args:
        root: The run's folder.
        threads: The number of threads that DuckDB uses.
    """
    found = dict.fromkeys(CHECKS, 0)
    with duckdb.connect(config={"threads": threads}) as database:
        for name in _TABLES:
            path = root / "record" / f"{name}.parquet"
            rows = database.read_parquet(str(path))
            if "topic" in rows.columns:  # Without the controllers' log.
                rows = rows.filter(f"topic <> '{QUORUM_TOPIC}'")
            rows.create_view(name)
        database.execute(_VIEWS)
        for names, query in _QUERIES:
            row = database.execute(query).fetchone() or ()
            for name, count in zip(names, row, strict=False):
                found[name] += int(count or 0)
    return found


if __name__ == "__main__":
    print(json.dumps(check(Path(sys.argv[1]))))
