"""Programs that compare the answers of Coterie with those of a running Kafka.

They are no part of `make test`, because they need a Kafka.
"""
