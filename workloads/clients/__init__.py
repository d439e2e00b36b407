"""Kafka clients that record their ops; only this package uses confluent-kafka.

`settings` derives librdkafka's settings from a plan. `producer` and `consumer` execute ops and
return the results as columns. `failures` lists the errors that prove a failure.
"""
