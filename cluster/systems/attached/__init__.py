"""A cluster that runs already: its file says where it is, and which commands are allowed.

Nothing is started here but those commands, and nothing of the cluster is touched but topics,
groups and transactional ids whose names begin with the run's own prefix.
"""
