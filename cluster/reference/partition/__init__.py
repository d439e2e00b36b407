"""A broker's replicas: leaders and followers, ISRs, high watermarks, truncation, waiting requests.

A node uses only `replicas.Replicas`. Each other module implements one rule.
"""
