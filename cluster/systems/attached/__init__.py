"""A cluster that already runs; a file has its addresses and the allowed commands.

Logquake runs only these commands. On the cluster it changes only topics, groups and transactional
ids whose names begin with the run's own prefix.
"""
