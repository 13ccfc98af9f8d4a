"""Conversations about transactions with Coterie and with a running Kafka, answer by answer.

    python -m tests.compared.transactions 127.0.0.1:19092

Invariant: a conversation depends on its seed alone, and names nothing that a broker makes up.
"""
