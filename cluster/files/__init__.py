"""Pure functions that read Kafka's files and log lines, without a cluster, Spark or a clock.

- `batches`: record batches of format 2 and older, from log segments and metadata snapshots.
- `message_sets`: messages of magic 0 and 1.
- `compression`: decompresses batches and messages.
- `checkpoints`: small text files with offsets, leader epochs, ids and the quorum's vote.
- `properties`: writes settings in Java's properties format. The other modules here only read.
- `messages`, `metadata`: the controllers' log with topics, partitions and elections.
- `metadata_names`: the type name of each record in the controllers' log, for plots.
- `logs`: truncations and leader changes in a broker's own log files, for all versions since 0.11.
- `quorum_log`: states and votes of the quorum in a controller's own log files.
- `rows`: converts the results to Arrow batches of the run's tables.
- `replica`, `node_files`: read a whole node folder with all these readers. The pipeline calls
  `read_node`. For copies that a scenario's step made, it calls `read_step`.
- `damage`: the errors for files that are not in Kafka's format.

Higher layers, including `checkers/spark`, may import this package. The package imports only
`results.record`.

To add a reader, write three things:

- A function that converts the bytes or the text of one file to frozen dataclasses. The function
  raises `DamagedFileError` with one sentence.
- A function in `rows` that converts these dataclasses to a table of `results.record.tables.LIVE`.
- A line in `replica` that opens the file.

The test of a reader reads a file of a real broker from `tests/cluster_files/data`. The output of
Kafka's own tools for this file is stored next to the file. The test also truncates the file at
every byte.
"""
