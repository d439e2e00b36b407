"""A cluster that already runs; a file lists the cluster's addresses and the allowed commands.

Logquake runs only these commands. On the cluster Logquake changes only topics, groups and
transactional ids with the run's own name prefix.
"""
