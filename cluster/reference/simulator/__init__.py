"""The driver in virtual time: it runs machines, and the blocking code around them, from one seed.

All events come from one heap (`agenda.py`). All random numbers come from streams of the seed
(`streams.py`). So two simulations with the same seed produce the same bytes.

- `simulation.py` is the entry point: it creates machines and lets time pass.
- A machine is in `host.py`. Its disk loses bytes that were never flushed (`disk.py`). Its clock
  drifts and jumps (`clock.py`). Its process can die (`process.py`).
- The network has connections (`network.py`), over good or bad links (`badness.py`).
- `machines.py` lets a run use simulated machines as its hosts (`cluster.protocol`): start, signal,
  cut, shape, power off. `files.py` shows the machines' files as a node's folder. `series.py`
  measures the machines' links.
- `tasks.py` runs blocking code: nemesis, observer and a run's phases.

Tests can check invariants after every event (`Simulation.watch`).

This package may import `cluster.reference`, `cluster.protocol` and `results.record`.
`harness.simulated` uses it for whole runs.
"""
