"""Conversations with brokers, for all that checks, records, plays or simulates them."""
