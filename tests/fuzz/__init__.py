"""Frames that are none, or almost: the decoder and a whole broker are fed with them.

The invariant: bytes are either a request that is answered (or waits), or they close their own
connection with one line. No exception escapes, no other connection notices.
"""
