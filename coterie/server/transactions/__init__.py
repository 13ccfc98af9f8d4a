"""Transactions: the markers in the partitions of topics."""
