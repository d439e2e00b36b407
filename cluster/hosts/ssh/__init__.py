"""Hosts that are other machines, reached by ssh: the only place that uses paramiko.

`hosts` is the kind itself; `file` reads `HOSTS.toml`, `examine` tries a host, `connection` and
`line` reach it and take a lost line up again, `tar` and `disk` carry files, `paths` turns our paths
into a host's, `run` notes which hosts a run touched, and `heal` undoes what it left there.

`warden`, `undoing` and `errands` run on the host: standard library only, sent as text to its
Python, so that nothing has to lie there before.

Imported by `cluster.hosts.choose`, `abilities` and `heal`. This module imports nothing.
"""
