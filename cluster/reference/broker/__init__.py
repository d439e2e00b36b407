"""A node: log, partitions, quorum and controller put together, and the groups of consumers."""
