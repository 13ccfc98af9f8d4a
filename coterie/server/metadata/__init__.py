"""The metadata of topics: what all brokers of a cluster share. It knows no log."""
