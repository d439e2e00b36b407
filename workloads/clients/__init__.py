"""Recording clients: the one place of the workloads that knows confluent-kafka.

`settings` makes librdkafka's settings of a plan, `producer` and `consumer` carry ops out and report
what came of them as columns, `failures` says which errors are definite.
"""
