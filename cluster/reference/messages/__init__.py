"""Messages between nodes and clients: frozen structs, independent of protocol versions.

Fields have the names of Kafka's schemas. `data` moves records, `quorum` elects leaders of the
quorum, `control` has the requests to the controller, and `clients` has all other client requests.
The simulator passes these objects from node to node unchanged. `cluster.reference.wire` encodes
them as bytes.
"""
