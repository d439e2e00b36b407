"""Hosts that are other machines, reached by ssh; only this package uses paramiko.

- `hosts`: the class of this kind of hosts.
- `file`: reads `HOSTS.toml`.
- `examine`: checks what a host has.
- `connection` and `line`: reach a host and restore a lost connection.
- `tar` and `disk`: copy files.
- `paths`: translates the paths of this machine into paths on a host.
- `run`: records which hosts a run used.
- `heal`: undoes what a run left on its hosts.

`warden`, `undoing` and `errands` run on the host with the standard library only. The harness sends
the source text of these modules to the host's Python, so the host needs no installation.

`cluster.hosts.choose`, `abilities` and `heal` import this package. This module imports nothing.
"""
