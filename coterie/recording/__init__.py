"""Recordings of the conversation between clients and brokers: written, replayed, compared."""
