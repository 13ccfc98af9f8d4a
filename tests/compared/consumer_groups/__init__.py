"""Conversations with consumer groups of Coterie and of a running Kafka, answer by answer.

    python -m tests.compared.consumer_groups 127.0.0.1:19092

Both brokers have the same topic ids, so that answers, hashes and records are equal byte by byte.
Invariant: a conversation depends on its seed alone, and names nothing that a broker makes up.
"""
