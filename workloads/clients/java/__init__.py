"""Kafka's own Java clients: one JVM for each worker runs the program in `*.java` of this folder.

`bridge` starts the program and exchanges frames with it. `frames` defines the frames. `settings`
and `failures` do the same as the modules with these names in `workloads/clients`.
`harness/java_client.py` fetches the library and compiles the program.
"""
