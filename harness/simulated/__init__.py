"""`--hosts simulated`: a whole run in virtual time, from one seed, in one thread.

Life, nemesis, observer, director, record, pipeline and page are those of all runs. `world.py` says
what is other: brokers are the reference cluster's machines on `cluster.reference.simulator`, and
clients are raw ones (`producer.py`, `consumer.py`) under the same crew.
"""
