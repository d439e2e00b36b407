"""`--hosts simulated`: a whole run in virtual time, from one seed, in one thread.

The same plan, workload, schedule of faults, record, pipeline and page as on real hosts; what is
other: the brokers are the reference cluster's machines on `cluster.reference.simulator`, clients
are raw ones (`producer.py`, `consumer.py`) under the same crew, and faults are deeds of the
simulator (`faults.py`), each measured before it counts, as everywhere.
"""
