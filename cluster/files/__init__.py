"""Kafka's files and log lines, read in pure functions: no cluster, no Spark, no clock.

- `batches`: log segments and metadata snapshots: record batches of format 2, and what is older.
- `message_sets`, `compression`: messages of magic 0 and 1; what batches and messages are packed by.
- `checkpoints`: the small text files: offsets, leader epochs, ids, the quorum's vote.
- `properties`: the one thing that is written: settings, in Java's form.
- `messages`, `metadata`: the controllers' log: topics, partitions, elections.
- `metadata_names`: what each record of that log is, for drawings.
- `logs`, `quorum_log`: lines of a broker's or controller's own logs, of every version since 0.11:
  truncations, leaders and followers; states and votes of the quorum.
- `rows`: what these return, as Arrow batches of the record's tables.
- `replica`, `node_files`: a whole node's folder by way of all of them; `read_node` is what the
  pipeline calls, `read_step` for copies that a step of a scenario made.
- `damage`: how they tell that a file is not what Kafka writes.

Anybody above may import it, `checkers/spark` included; it imports only `results.record`.

To add a reader: a function from the bytes or the text of one file to frozen dataclasses, which
raises `DamagedFileError` in one sentence; a function in `rows` from these to a table of
`results.record.tables.LIVE`; a line in `replica` that opens the file. Its test reads a file of a
real broker (`tests/cluster_files/data`, with what Kafka's own tools say of it beside it), and the
same file cut at every byte.
"""
