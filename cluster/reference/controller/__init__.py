"""The KRaft control plane: decisions of the active controller, and metadata that brokers replay.

`image` is the metadata that result from replaying the log of records. `controller` is active on the
quorum's leader and handles requests. The controller's rules are in `brokers`, `partitions`,
`reassignments`, `topics` and `configs`. `plane` combines quorum, controller and image for a node. A
broker's part is in `broker/lifecycle`: registration, heartbeats, controlled shutdown (KIP-500,
KIP-631).
"""
