"""`--hosts simulated`: a whole run in virtual time, from one seed, in one thread.

Phases, nemesis, observer, director, record, judge and page are the same as for all other runs.
`world.py` has everything that differs. The brokers are the reference cluster's machines on
`cluster.reference.simulator`. The clients are simple simulated clients (`producer.py`,
`consumer.py`). The usual crew (`workloads.crew`) controls the clients.
"""
