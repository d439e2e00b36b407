"""A node of the reference cluster: log, partitions, quorum, controller and consumer groups."""
