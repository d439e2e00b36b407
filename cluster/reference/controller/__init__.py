"""The KRaft control plane: decisions of the active controller, and metadata that brokers replay.

`image` contains the metadata after all records of the log were replayed. `controller` handles
requests; it is active on the quorum's leader. The controller's rules are in `brokers`,
`partitions`, `reassignments`, `topics` and `configs`. `plane` combines quorum, controller and image
for a node. The broker's side of registration, heartbeats and controlled shutdown is in
`broker/lifecycle` (KIP-500, KIP-631).
"""
