"""Conversations with streams groups of Coterie and of a running Kafka, answer by answer.

    python -m tests.compared.streams_groups 127.0.0.1:19092

The Kafka needs `auto.create.topics.enable=false`, and Kafka's defaults otherwise.
"""
