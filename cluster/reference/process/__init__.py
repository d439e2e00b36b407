"""A node as a process: real sockets, real files, a real clock.

`python -m cluster.reference.process server.properties` runs one. One thread, one event at a time:
what a machine wants done is done in its order, so a flush holds up whatever comes after it.
"""
