"""The simulated driver: machines in virtual time, in one thread, from one seed.

`simulation.py` is the way in: machines are made, started, crashed, paused, cut off, and time is
let pass. Whatever is drawn comes from streams of the one seed (`streams.py`), whatever happens
comes out of one heap (`agenda.py`): the same seed gives the same bytes. Here live the parts that
machines must not know of: the network with its connections (`network.py`), disks that forget
(`disk.py`), clocks that drift (`clock.py`), processes that die (`process.py`).

May import `cluster.reference` and nothing above it; `harness.simulated` makes whole runs of it.
"""
