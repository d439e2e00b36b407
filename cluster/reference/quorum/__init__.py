"""The quorum that keeps `__cluster_metadata-0`: KRaft (KIP-595), with pre-votes (KIP-996).

`state` is what a member is in an epoch, and what of it is safe; `member` passes from one state to
another; `elections` makes leaders; `leading` and `serving` are what a leader knows and gives;
`following` copies its log and snapshots (KIP-630); `quorum` puts them together as a part of a node.
`records` are the batches that the quorum writes itself.
"""
