"""A node as a process, with real sockets, real files and a real clock.

`python -m cluster.reference.process server.properties` runs a node. The process has one thread and
handles one event at a time. The process executes effects in order, so a flush delays all later
effects.
"""
