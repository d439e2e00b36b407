"""A partition's log: batches, leader epochs and producer states in memory, segments on disk.

`log` is pure: it takes bytes and returns effects. `files` executes the effects on a disk.
`recovery` reads a log dir at each start, even if the node crashed before.
"""
