"""The driver in virtual time: machines, and the blocking code around them, from one seed.

All that happens comes out of one heap (`agenda.py`), and all that is drawn comes from streams of
the seed (`streams.py`), so the same seed gives the same bytes.

- `simulation.py` is the way in: it makes machines, and lets time pass.
- A machine (`host.py`) has a disk that forgets what was never flushed (`disk.py`), a clock that
  drifts and jumps (`clock.py`), and a process that dies (`process.py`). The network carries
  connections (`network.py`), well or badly (`badness.py`).
- `machines.py` has them obey `cluster.protocol`, as the hosts of a run: start, signal, cut, shape,
  lose power. `files.py` shows what they hold as a node's folder, `series.py` measures their links.
- `tasks.py` runs blocking code: nemesis, observer and a run's life.

Tests look after every event at what must hold (`Simulation.watch`).

May import `cluster.reference`, `cluster.protocol` and `results.record`; `harness.simulated` makes
whole runs of it.
"""
