"""A broker's replicas: leaders and followers, ISRs, high watermarks, truncation, parked requests.

`replicas.Replicas` is the whole of it to a node; the rest is a module for each rule.
"""
