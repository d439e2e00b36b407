"""Hosts that are other machines, reached by ssh; only this package uses paramiko.

- `hosts`: the class of this kind of hosts.
- `file`: reads `HOSTS.toml`.
- `examine`: checks what a host has.
- `connection` and `line`: reach a host and restore a lost connection.
- `tar` and `disk`: copy files.
- `paths`: translates this machine's paths into a host's.
- `run`: records which hosts a run used.
- `heal`: undoes what a run left on its hosts.

`warden`, `undoing` and `errands` run on the host with the standard library only. The harness sends
their text to the host's Python, so that nothing must be installed there before.

`cluster.hosts.choose`, `abilities` and `heal` import this package. This module imports nothing.
"""
