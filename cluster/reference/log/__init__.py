"""A partition's log: batches, leader epochs, producers' states in memory; segments on a disk.

`log` is pure (bytes in, effects out); `files` carries effects out on a disk, and `recovery` reads
a log dir at a start, after a crash too.
"""
