"""The control plane by KRaft: what the active controller decides, and what every broker replays.

`image` is the metadata that a log of records adds up to; `controller` is active on the quorum's
leader, and takes requests; `brokers`, `partitions`, `reassignments`, `topics` and `configs` are its
rules. `plane` joins quorum, controller and image to what a node needs; `lifecycle` is the broker's
side: registration, heartbeats, controlled shutdown (KIP-500, 631).
"""
