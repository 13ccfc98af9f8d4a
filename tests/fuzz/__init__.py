"""Malformed and nearly correct frames, for the decoder and for a whole broker.

Invariant: bytes are either a request, which is answered or delayed, or they close their own
connection with one log line. No exception escapes, and no other connection is affected.
"""
