"""What nodes and clients say to each other: frozen structs without versions of the protocol.

Fields are named as in Kafka's schemas. `data` moves records, `quorum` elects, `control` is what
brokers and administrators ask the controller, `clients` is the rest of what clients need. The
simulator hands these objects over as they are; `cluster.reference.wire` puts them on the wire.
"""
