"""Conversations with share groups of Coterie and of a running Kafka, answer by answer.

    python -m tests.compared.share_groups 127.0.0.1:19092

Start that Kafka with the settings that `SETTINGS` in `__main__` names. Both brokers have the same
topic ids, so that hashes, orders and the partitions of records are equal.
Invariant: a conversation depends on its seed alone, and names nothing that a broker makes up.
"""
