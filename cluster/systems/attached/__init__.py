"""A cluster that already runs; a file lists the cluster's addresses and the allowed commands.

Logquake runs only these commands. On the cluster, Logquake changes only topics, groups and
transactional ids whose names have the run's own prefix.
"""
