"""`--hosts simulated`: a whole run in virtual time, from one seed, in one thread.

Life, nemesis, observer, director, record, judge and page are those of all other runs. `world.py`
has the differences. The brokers are the reference cluster's machines on
`cluster.reference.simulator`. The clients are simple ones (`producer.py`, `consumer.py`) under the
usual crew.
"""
