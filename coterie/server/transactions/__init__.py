"""Transactions: the runtime of their coordinator, and the markers in the partitions of topics."""
