"""Judges a run while it goes on: the same kernels, on what is new of the record.

- `kernels`: which checks can look at an unfinished record, and why the others cannot.
- `window`: the rows that they look at, with bounded memory.
- `history`: what observers told, thinned as it grows old.
- `look`: one look, and what two looks agree on: a violation.

Nothing here reads files; `harness.watcher` does.
"""
