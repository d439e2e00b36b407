"""Kafka's own clients, in Java: one JVM a worker, which `*.java` of this folder is the program of.

`bridge` starts it and hands frames to and fro, `frames` describes them, `settings` and `failures`
are what `workloads/clients` has of librdkafka. `harness/java_client.py` fetches the library and
compiles the program.
"""
