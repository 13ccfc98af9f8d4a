"""Scripts that send the same requests to Coterie and to a running Kafka, and compare the answers.

They are no part of `make test`, because they need a Kafka.
"""
